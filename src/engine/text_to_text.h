#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/branches.h"
#include "engine/encoder.h"
#include "engine/runner.h"
#include "engine/step_tokens.h"

namespace nibble::engine {

/// A token that continues what was written of a text.
struct DecoderRow {
  std::int64_t text = 0;     // of those that were read
  std::int64_t parent = -1;  // row of the step before that it continues; -1: it stands first
  std::int32_t token = 0;
};

/// What is to be written of texts.
struct WritingRoom {
  std::int64_t rows = 1;  // of a step, at the most
  std::int64_t tokens =
      0;  // behind one another in a row; 0: as many as the model has positions for
};

/// An encoder-decoder made ready on one device: reads texts and writes others. On a CPU numbers of
/// a row are the same bits whatever else is in the step; on a GPU the sums of layers may have
/// another order where there are more rows. One caller at a time.
class TextToText {
 public:
  virtual ~TextToText() = default;

  /// Reads texts, with the special tokens that the model wants, and forgets those before. Throws as
  /// Encoder; kOutOfMemory where there is no memory for the room.
  virtual void read(std::span<const std::span<const std::int32_t>> texts,
                    const WritingRoom& room) = 0;

  /// Logits [rows, vocabulary] of the token behind each row; valid until the next call. The first
  /// row of a text is its start token. A text's keys and values are kept once for all its rows, and
  /// rows that continue the same row share what it has written. Throws kFailed when no such text
  /// was read, there is no such parent, the room or the context is full, or an id lies outside the
  /// vocabulary.
  virtual LogitsView step(std::span<const DecoderRow> rows) = 0;

  /// Reads `source` and computes what the decoder says of every token of `target`, which stands
  /// behind config.decoder_start (not given here), in one pass: logits [target tokens, vocabulary],
  /// row i those of target[i] behind the tokens before it. What is written next continues nothing:
  /// `source` counts as read. Throws as read(); kUsage for a target that is empty or longer than
  /// the model has positions for, kFailed for ids outside the vocabulary.
  virtual EncoderRows score(std::span<const std::int32_t> source,
                            std::span<const std::int32_t> target) = 0;

  /// One text, to write one.
  void read(std::span<const std::int32_t> tokens);

  /// Logits [vocabulary] of the token behind `token`, which continues what is written of the one
  /// text that read() has read. The first is config.decoder_start. As step().
  std::span<const float> next(std::int32_t token);

  /// Threads of the host, for work on logits.
  virtual core::ThreadPool& pool() = 0;

 protected:
  explicit TextToText(std::shared_ptr<const models::Model> model) : model_(std::move(model)) {}
  const models::Model& model() const { return *model_; }
  const models::Network& network() const { return model_->network; }

  /// Branches::advance() for the rows of a step of `texts` texts. Throws as step().
  std::vector<Branches::Copy> advance(Branches& branches, std::span<const DecoderRow> rows,
                                      std::int64_t texts) const;
  /// What the decoder reads to score a target: the start token, and all tokens but the last.
  /// Throws as score().
  StepTokens tokens_before(std::span<const std::int32_t> target) const;

 private:
  std::shared_ptr<const models::Model> model_;
  bool begun_ = false;  // next() was called
};

/// The model on options.place. Throws kUsage for a model that has not both stacks; else as
/// make_runner().
std::unique_ptr<TextToText> make_text_to_text(std::shared_ptr<const models::Model> model,
                                              const RunnerOptions& options);

}  // namespace nibble::engine
