#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/model/model.h"

namespace nibble::text {

/// Byte-pair encoding with ranked merges, as "BPE" of tokenizer.json describes it.
struct BpeOptions {
  std::optional<std::string> unk_token;   // for characters without a token; without it they vanish
  std::string continuing_subword_prefix;  // of each character but the first of a word
  std::string end_of_word_suffix;         // of the last one
  bool fuse_unk = false;                  // one unk_token for a run of unknown characters
  bool byte_fallback = false;             // spell unknown characters with "<0xHH>" tokens
  bool ignore_merges = false;             // a word that is a token is that token
};

using Merge = std::pair<std::string, std::string>;

/// `merges` in the order of their ranks. Throws kInvalidModel when one stands twice or names a
/// token (or makes one) that is not in the vocabulary.
WordModelPtr make_bpe(TokenTable tokens, const std::vector<Merge>& merges,
                      const BpeOptions& options, std::string_view what);

/// One line of a merges.txt, "left right". Throws kInvalidModel.
Merge parse_merge(std::string_view line, std::string_view what);

}  // namespace nibble::text
