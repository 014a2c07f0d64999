#include "capi/read_options.h"

#include <algorithm>
#include <string>

#include "capi/inputs.h"
#include "capi/options_struct.h"
#include "core/error.h"

namespace nibble::capi {

nibble_read_options default_read_options() {
  return {};
}

engine::InputOptions applied_to(engine::InputOptions options, const nibble_read_options& asked) {
  core::require(asked.max_tokens >= 0, core::ErrorKind::kUsage,
                "max_tokens is {}, must not be negative", asked.max_tokens);
  if (asked.max_tokens > 0) {
    options.most_tokens = std::min(options.most_tokens, asked.max_tokens);
  }
  options.truncate = asked.no_truncate == 0;
  return options;
}

std::int64_t read_batches(const nibble_model& model, const Call& call,
                          std::span<const nibble_input> texts, std::span<const nibble_input> pairs,
                          const engine::InputOptions& options, const engine::RunBatch& run) {
  std::vector<engine::InputText> inputs;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    engine::InputText& input = inputs.emplace_back();
    input.first = require_text(texts[i], "this call");
    if (!pairs.empty()) {
      input.second = require_text(pairs[i], "this call");
    }
  }
  return engine::for_each_batch(
      *model.model().tokenizer, inputs, options,
      [](std::size_t i) { return "text " + std::to_string(i); },
      [&](std::size_t first, std::span<const text::ModelInput> batch,
          std::span<const engine::EncoderText> encoded) {
        call.check();
        run(first, batch, encoded);
      });
}

}  // namespace nibble::capi

extern "C" void nibble_read_options_init(nibble_read_options* options, size_t struct_size) {
  nibble::capi::fill(options, struct_size, nibble::capi::default_read_options());
}
