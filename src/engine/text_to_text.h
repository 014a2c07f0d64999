#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/encoder.h"
#include "engine/runner.h"

namespace nibble::engine {

/// An encoder-decoder made ready on one device: reads a text and writes another. One caller at a
/// time.
class TextToText {
 public:
  virtual ~TextToText() = default;

  /// Reads a text, with the special tokens that the model wants, and forgets the one before. The
  /// encoder's states [tokens, hidden]. Throws as Encoder.
  virtual EncoderRows read(std::span<const std::int32_t> tokens) = 0;

  /// Logits [vocabulary] of the token behind `token`, which continues what is written of the text
  /// that was read; valid until the next call. The first is config.decoder_start. Throws kFailed
  /// when nothing was read, the context is full, or the id lies outside the vocabulary.
  virtual std::span<const float> next(std::int32_t token) = 0;

  /// Reads `source` and computes what the decoder says of every token of `target`, which stands
  /// behind config.decoder_start (not given here), in one pass: logits [target tokens, vocabulary],
  /// row i those of target[i] behind the tokens before it. What is written next continues nothing:
  /// `source` counts as read. Throws as read(); kUsage for a target that is empty or longer than
  /// the model has positions for, kFailed for ids outside the vocabulary.
  virtual EncoderRows score(std::span<const std::int32_t> source,
                            std::span<const std::int32_t> target) = 0;

  /// Reads a text and writes the likeliest token each time, up to and with one of the model's end
  /// tokens, at most `most`. The start token stands before them.
  std::vector<std::int32_t> write_greedily(std::span<const std::int32_t> tokens, std::int64_t most);

 protected:
  explicit TextToText(std::shared_ptr<const models::Model> model) : model_(std::move(model)) {}
  const models::Model& model() const { return *model_; }

 private:
  std::shared_ptr<const models::Model> model_;
};

/// Throws kUsage for a model that has not both stacks and for a device that such models do not run
/// on; else as make_runner().
std::unique_ptr<TextToText> make_text_to_text(std::shared_ptr<const models::Model> model,
                                              const RunnerOptions& options);

}  // namespace nibble::engine
