#include "capi/inputs.h"
#include "capi/options_struct.h"
#include "capi/read_options.h"
#include "capi/returned.h"
#include "results/labels.h"

namespace nibble::capi {
namespace {

std::string classify(nibble_model& model, const Call& call, std::span<const nibble_input> texts,
                     std::span<const nibble_input> pairs, const nibble_read_options& asked) {
  engine::Encoder& encoder = model.encoder();
  results::LabelsJson labels(model.model());
  const std::int64_t truncated = read_batches(
      model, call, texts, pairs, applied_to(input_options(model.model(), encoder), asked),
      [&](std::size_t, std::span<const text::ModelInput> inputs,
          std::span<const engine::EncoderText> encoded) {
        labels.add(inputs, encoder.classify(encoded));
      });
  return labels.text(truncated);
}

}  // namespace
}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" nibble_status nibble_classify(nibble_model* model, const nibble_input* texts,
                                         const nibble_input* pairs, size_t count,
                                         const nibble_read_options* options, char** json) {
  return with_model(model, [&](const Call& call) {
    require_given(json, "json");
    const auto asked = options_of(options, default_read_options());
    const auto seconds =
        pairs == nullptr ? std::span<const nibble_input>() : inputs_of(pairs, count, "pairs");
    const std::string labels =
        classify(*model, call, inputs_of(texts, count, "texts"), seconds, asked);
    *json = returned(std::string_view(labels)).release();
  });
}
