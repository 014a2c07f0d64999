#include "capi/evaluate.h"

#include <functional>
#include <optional>

#include "capi/called_progress.h"
#include "capi/inputs.h"
#include "capi/options_struct.h"
#include "capi/returned.h"
#include "core/error.h"
#include "core/json.h"
#include "results/measured.h"

namespace nibble::capi {
namespace {

using core::ErrorKind;

std::string json_text(const core::Json& json) {
  return json.dump(-1, ' ', false, core::Json::error_handler_t::replace);
}

std::string evaluate(nibble_model& model, const Call& call, std::span<const std::int32_t> tokens,
                     const nibble_evaluate_options& options) {
  CalledProgress progress(options.on_progress, nullptr, options.user, &call);
  engine::Runner* reference = options.reference ? &options.reference->runner() : nullptr;
  const eval::PerplexityResult result = eval::measure_perplexity(
      model.runner(), tokens, perplexity_of(options, model.model()), progress, reference);
  return json_text(results::evaluation_json(model.settings().path.string(), model.model(), result));
}

// Two calls that take the same two models must not wait for each other: the one that lies first in
// memory is taken first, whichever it is.
bool goes_first(const nibble_model* reference, const nibble_model* model) {
  return std::less<const nibble_model*>()(reference, model);
}

}  // namespace

nibble_evaluate_options default_evaluate_options() {
  return {};
}

eval::PerplexityOptions perplexity_of(const nibble_evaluate_options& options,
                                      const models::Model& model) {
  const std::int64_t most = model.network.config.max_positions;
  core::require(options.seq_len >= 0 && options.seq_len <= most, ErrorKind::kUsage,
                "seq_len is {}; the model was made for {} tokens", options.seq_len, most);
  core::require(options.max_tokens >= 0, ErrorKind::kUsage,
                "max_tokens is {}, must not be negative", options.max_tokens);
  return {options.seq_len == 0 ? most : options.seq_len, options.max_tokens};
}

std::vector<std::int32_t> measured_tokens(const models::Model& model, const char* text,
                                          std::size_t bytes) {
  return model.tokenizer->encode(required_text(text, bytes, "text"), {});
}

}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" {

void nibble_evaluate_options_init(nibble_evaluate_options* options, size_t struct_size) {
  fill(options, struct_size, default_evaluate_options());
}

nibble_status nibble_evaluate(nibble_model* model, const char* text, size_t bytes,
                              const nibble_evaluate_options* options, char** json) {
  std::optional<nibble_evaluate_options> asked;
  const nibble_status status = guarded([&] {
    asked = options_of(options, default_evaluate_options());
    nibble::core::require(model == nullptr || asked->reference != model,
                          nibble::core::ErrorKind::kUsage,
                          "the reference is the model itself; open another one");
  });
  if (status != NIBBLE_OK) {
    model == nullptr ? void() : note_error(*model);
    return status;
  }
  const auto work = [&](const Call& call) {
    require_given(json, "json");
    const auto tokens = measured_tokens(model->model(), text, bytes);
    const std::string result = evaluate(*model, call, tokens, *asked);
    *json = returned(std::string_view(result)).release();
  };
  if (asked->reference == nullptr || model == nullptr) {
    return with_model(model, work);
  }
  nibble_status inner = NIBBLE_OK;
  const nibble_status outer =
      goes_first(asked->reference, model)
          ? with_model(asked->reference, [&](const Call&) { inner = with_model(model, work); })
          : with_model(model, [&](const Call& call) {
              inner = with_model(asked->reference, [&](const Call&) { work(call); });
            });
  return outer != NIBBLE_OK ? outer : inner;
}
}
