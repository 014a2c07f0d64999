#pragma once

#include <memory>
#include <string>

#include "engine/runner.h"
#include "eval/seq2seq/run_seq2seq.h"

namespace nibble::cli {

/// What `nibble tasks --seq2seq` was asked for.
struct Seq2SeqCall {
  std::string model;
  std::string file;
  std::int64_t limit = 0;
  std::int64_t max_length = 0;  // tokens of a source; 0: what the model takes
  std::string output;           // file for what was written, one text a line; empty: none
  bool json = false;
  bool quiet = false;
};

/// Writes a text for each source of the file, measures them, and prints a table or JSON. Throws
/// kUsage for models that are no encoder-decoders; as read_text_pairs and run_seq2seq.
void run_seq2seq_tasks(const Seq2SeqCall& call, const models::Model& model,
                       engine::TextToText& writer, eval::Seq2SeqOptions options);

}  // namespace nibble::cli
