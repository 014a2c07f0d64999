#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/json_type.h"
#include "text/model/merge.h"
#include "text/model/token_table.h"
#include "text/model/viterbi.h"
#include "text/model/word_cache.h"

namespace nibble::text {

/// What a model needs while it encodes; belongs to one thread, and saves allocations and repeated
/// work from one word to the next of the same model.
struct EncodeScratch {
  WordCache cache;
  MergeScratch merge;
  ViterbiScratch viterbi;
};

/// Turns words into ids. Immutable, thread-safe.
class WordModel {
 public:
  virtual ~WordModel() = default;

  /// Appends the ids of one word (valid UTF-8, not empty). Throws kInvalidModel when the word has a
  /// part that is not in the vocabulary and the model names no token for that.
  virtual void encode(std::string_view word, EncodeScratch& scratch,
                      std::vector<std::int32_t>& ids) const = 0;

  /// Whether every byte of a word is in a token of its own length at the least, so that no token
  /// stands for more bytes than the longest one has. `byte_alphabet`: words consist of characters
  /// of the byte alphabet only.
  virtual bool keeps_text(bool byte_alphabet) const {
    static_cast<void>(byte_alphabet);
    return false;
  }

  const TokenTable& tokens() const { return tokens_; }

 protected:
  explicit WordModel(TokenTable tokens) : tokens_(std::move(tokens)) {}

 private:
  TokenTable tokens_;
};

using WordModelPtr = std::unique_ptr<const WordModel>;

/// The "model" of a tokenizer.json: BPE, Unigram, WordPiece or WordLevel. Throws kInvalidModel for
/// an unknown or malformed one.
WordModelPtr word_model_from_json(const core::Json& json, std::string_view what);

}  // namespace nibble::text
