#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "models/model.h"

namespace nibble::engine {

/// A text that an encoder reads, with the special tokens that the model wants.
struct EncoderText {
  std::span<const std::int32_t> tokens;
  std::span<const std::int32_t> types;  // token types; empty: all 0
};

/// Rows of numbers, row-major [rows, columns].
struct EncoderRows {
  std::vector<float> values;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::span<const float> row(std::int64_t i) const {
    return std::span(values).subspan(static_cast<std::size_t>(i * columns),
                                     static_cast<std::size_t>(columns));
  }
};

/// An encoder made ready on one device. Texts are computed together, their tokens one after another
/// without padding. On a CPU a text's numbers are the same bits whatever else is in the call; on a
/// GPU the sums of layers may have another order where there are more tokens. One caller at a time.
/// Calls throw kUsage where the model has no such head, for a text that is empty or longer than
/// max_tokens(), and for token types that the model does not have; kFailed for token ids outside
/// the vocabulary.
class Encoder {
 public:
  virtual ~Encoder() = default;

  /// The residual stream behind the last block and its norm, [tokens of all texts, hidden].
  virtual EncoderRows hidden_states(std::span<const EncoderText> texts) = 0;
  /// Logits [texts, labels]; [tokens of all texts, labels] of a model that labels tokens.
  virtual EncoderRows classify(std::span<const EncoderText> texts) = 0;
  /// Logits of the masked language model, [tokens of all texts, vocabulary].
  virtual EncoderRows masked_lm(std::span<const EncoderText> texts) = 0;
  /// Pooled, and normalized where the model says so, [texts, width].
  virtual EncoderRows embed(std::span<const EncoderText> texts) = 0;

  /// Tokens of the longest text that the model has positions for.
  virtual std::int64_t max_tokens() const = 0;

  /// Threads of the host.
  virtual core::ThreadPool& pool() = 0;
  /// As Runner::measure_limits().
  virtual DeviceLimits measure_limits() = 0;
};

/// The encoder of a model on options.place. Throws kUsage for a model without an encoder; else as
/// make_runner().
std::unique_ptr<Encoder> make_encoder(std::shared_ptr<const models::Model> model,
                                      const RunnerOptions& options);

}  // namespace nibble::engine
