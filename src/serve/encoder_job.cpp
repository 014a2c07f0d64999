#include "serve/encoder_job.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/error.h"

namespace nibble::serve {

std::int64_t EncoderJob::tokens() const {
  std::int64_t count = 0;
  for (const text::ModelInput& input : inputs) {
    count += std::ssize(input.ids);
  }
  return count;
}

std::size_t EncoderJob::inputs_in(std::int64_t tokens, bool least_one) const {
  std::size_t count = 0;
  for (std::int64_t left = tokens; count < inputs_left(); ++count) {
    left -= std::ssize(inputs[rows.size() + count].ids);
    if (left < 0 && !(least_one && count == 0)) {
      break;
    }
  }
  return count;
}

std::int64_t EncoderJob::tokens_of_next(std::size_t count) const {
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < count; ++i) {
    tokens += std::ssize(inputs[rows.size() + i].ids);
  }
  return tokens;
}

void EncoderJob::append_texts(std::size_t count, std::vector<engine::EncoderText>& texts) const {
  for (std::size_t i = 0; i < count; ++i) {
    const text::ModelInput& input = inputs[rows.size() + i];
    texts.push_back({input.ids, {}});
    if (token_types) {
      texts.back().types = input.types;
    }
  }
}

void EncoderJob::add_rows(const engine::EncoderRows& computed, std::int64_t first,
                          std::size_t count) {
  const auto end = first + static_cast<std::int64_t>(count);
  core::require(end <= computed.rows, core::ErrorKind::kFailed, "the encoder made {} rows of {}",
                computed.rows, end);
  for (std::int64_t i = first; i < end; ++i) {
    core::require(std::all_of(computed.row(i).begin(), computed.row(i).end(),
                              [](float value) { return std::isfinite(value); }),
                  core::ErrorKind::kFailed, "the model computed NaN; its weights may be damaged");
  }
  for (std::int64_t i = first; i < end; ++i) {
    rows.emplace_back(computed.row(i).begin(), computed.row(i).end());
  }
}

}  // namespace nibble::serve
