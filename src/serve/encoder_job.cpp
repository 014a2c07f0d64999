#include "serve/encoder_job.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace nibble::serve {

std::int64_t EncoderJob::tokens() const {
  std::int64_t count = 0;
  for (const text::ModelInput& input : inputs) {
    count += static_cast<std::int64_t>(input.ids.size());
  }
  return count;
}

void EncoderJob::advance(engine::Encoder& encoder, std::int64_t most_tokens) {
  std::vector<engine::EncoderText> texts;
  std::int64_t together = 0;
  for (std::size_t i = rows.size(); i < inputs.size(); ++i) {
    const text::ModelInput& input = inputs[i];
    together += static_cast<std::int64_t>(input.ids.size());
    if (!texts.empty() && together > most_tokens) {
      break;
    }
    texts.push_back({input.ids, {}});
    if (token_types) {
      texts.back().types = input.types;
    }
  }
  const engine::EncoderRows computed =
      output == Output::kLogits ? encoder.classify(texts) : encoder.embed(texts);
  core::require(std::all_of(computed.values.begin(), computed.values.end(),
                            [](float value) { return std::isfinite(value); }),
                core::ErrorKind::kFailed, "the model computed NaN; its weights may be damaged");
  for (std::int64_t i = 0; i < computed.rows; ++i) {
    const std::span<const float> row = computed.row(i);
    rows.emplace_back(row.begin(), row.end());
  }
}

}  // namespace nibble::serve
