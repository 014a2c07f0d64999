#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/progress.h"
#include "engine/write_texts.h"
#include "eval/seq2seq/text_pairs.h"

namespace nibble::eval {

/// How well texts were written. Where there are several targets, that which fits best counts.
struct Seq2SeqScore {
  std::int64_t items = 0;
  double word_accuracy = 0;       // share of texts that are a target, byte for byte
  double phoneme_error_rate = 0;  // characters to insert, delete or replace over those of targets
  double rouge1 = 0;              // means of F1 over the texts (rouge.h, no stems)
  double rouge2 = 0;
  double rouge_l = 0;
};

/// `written` has a text for each pair. Throws kUsage where it has not, and for targets without
/// characters.
Seq2SeqScore score_written(std::span<const TextPair> pairs, std::span<const std::string> written);

/// Tokens of a text that a model takes, at the most: as many as it has positions for, or fewer
/// where its tokenizer or `max_length` (0: any number) says so.
std::int64_t most_tokens(const models::Model& model, std::int64_t max_length);

struct Seq2SeqOptions {
  engine::WritingOptions writing;
  std::string source_language;   // empty: as the tokenizer frames texts
  std::int64_t most_tokens = 0;  // of a source, longer ones are cut
};

struct Seq2SeqRun {
  Seq2SeqScore score;
  std::vector<std::string> written;
  std::int64_t truncated = 0;  // sources that were too long
  double seconds = 0;
};

/// Writes a text for each source, several in a step, and measures them. Throws as
/// text::encode_for_model, engine::set_source_language and engine::write_texts.
Seq2SeqRun run_seq2seq(engine::TextToText& writer, const models::Model& model,
                       std::span<const TextPair> pairs, const Seq2SeqOptions& options,
                       core::ProgressSink& progress);

}  // namespace nibble::eval
