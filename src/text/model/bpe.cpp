#include "text/model/bpe.h"

#include <algorithm>

#include "characters/utf8.h"
#include "core/error.h"
#include "text/byte_alphabet.h"
#include "text/model/byte_tokens.h"
#include "text/model/merge_table.h"
#include "text/model/space_chunks.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

class Bpe : public WordModel {
 public:
  Bpe(TokenTable table, const std::vector<Merge>& merges, const BpeOptions& options,
      std::string_view what)
      : WordModel(std::move(table)), options_(options), merges_(merges.size()), what_(what) {
    if (options.byte_fallback) {
      byte_tokens_ = ByteTokens(tokens());
    }
    bool reaches_across = false;
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const std::int32_t id = add_merge(merges[rank], rank);
      reaches_across = reaches_across || spans_word_start(tokens().token(id));
    }
    has_byte_alphabet_ = has_all_of_alphabet();
    cuts_at_spaces_ = !reaches_across && !options.ignore_merges && tokens().id_of(kVisibleSpace) &&
                      options.continuing_subword_prefix.empty() &&
                      options.end_of_word_suffix.empty();
  }

  // An unknown character that is no bytes and no token vanishes.
  bool keeps_text(bool byte_alphabet) const override {
    const bool decorated =
        !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
    const bool knows_all = byte_alphabet && has_byte_alphabet_ && !decorated;
    return knows_all || (options_.byte_fallback && byte_tokens_.complete());
  }

  void encode(std::string_view word, EncodeScratch& scratch,
              std::vector<std::int32_t>& ids) const override {
    if (options_.ignore_merges) {
      if (const auto id = tokens().id_of(word)) {
        ids.push_back(*id);
        return;
      }
    }
    if (cuts_at_spaces_) {
      for_each_space_chunk(word,
                           [&](std::string_view chunk) { encode_cached(chunk, scratch, ids); });
    } else {
      encode_cached(word, scratch, ids);
    }
  }

 private:
  bool has_all_of_alphabet() const {
    for (int byte = 0; byte < 256; ++byte) {
      const char one = static_cast<char>(byte);
      std::string character;
      append_byte_alphabet(character, {&one, 1});
      if (!tokens().id_of(character)) {
        return false;
      }
    }
    return true;
  }

  std::int32_t token_id(std::string_view token, std::size_t rank) const {
    const auto id = tokens().id_of(token);
    core::require(id.has_value(), ErrorKind::kInvalidModel,
                  "{}: merge {} names or makes '{}', which is not in the vocabulary", what_, rank,
                  core::printable(token));
    return *id;
  }

  std::int32_t add_merge(const Merge& merge, std::size_t rank) {
    const auto& [left, right] = merge;
    const std::string& prefix = options_.continuing_subword_prefix;
    core::require(!left.empty() && right.size() > prefix.size() && right.starts_with(prefix),
                  ErrorKind::kInvalidModel, "{}: merge {} ('{}' with '{}') joins nothing", what_,
                  rank, core::printable(left), core::printable(right));
    const std::int32_t id = token_id(left + right.substr(prefix.size()), rank);
    const bool added = merges_.insert(token_id(left, rank), token_id(right, rank),
                                      {static_cast<std::int32_t>(rank), id});
    core::require(added, ErrorKind::kInvalidModel, "{}: merge {} ('{}' with '{}') stands twice",
                  what_, rank, core::printable(left), core::printable(right));
    return id;
  }

  void encode_cached(std::string_view word, EncodeScratch& scratch,
                     std::vector<std::int32_t>& ids) const {
    if (const auto known = scratch.cache.find(word)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
    const std::size_t before = ids.size();
    append_characters(word, scratch.merge);
    const auto rule = [this](const MergeSymbol& left,
                             const MergeSymbol& right) -> std::optional<MergeResult> {
      const MergeTable::Merged* merged = merges_.find(left.id, right.id);
      return merged == nullptr
                 ? std::nullopt
                 : std::optional(MergeResult{static_cast<double>(merged->rank), merged->id});
    };
    PairMerger(scratch.merge, rule).run();
    for (const MergeSymbol& symbol : scratch.merge.symbols) {
      if (symbol.bytes > 0) {
        ids.push_back(symbol.id);
      }
    }
    scratch.cache.insert(word, std::span(ids).subspan(before));
  }

  // The symbols that merging starts from: one for each character, or one for each of its bytes, or
  // the unknown token. The unknown token waits in `pending` until a known character follows, so
  // that a run of them can be one; byte tokens do not end the wait (as in Hugging Face's
  // tokenizers).
  void append_characters(std::string_view word, MergeScratch& scratch) const {
    scratch.clear();
    std::uint32_t pending = 0;
    std::uint32_t pending_begin = 0;
    const auto flush = [&] {
      if (pending > 0) {
        scratch.append(unknown_id(), pending_begin, pending);
        pending = 0;
      }
    };
    std::string decorated;
    std::vector<std::int32_t> bytes;
    for (std::size_t at = 0; at < word.size();) {
      const std::uint32_t length = characters::utf8_bytes(word[at]);
      const auto begin = static_cast<std::uint32_t>(at);
      const std::string_view character = decorate(word, at, length, decorated);
      at += length;
      bytes.clear();
      if (const auto id = tokens().id_of(character)) {
        flush();
        scratch.append(*id, begin, length);
      } else if (options_.byte_fallback && byte_tokens_.append(character, bytes)) {
        for (const std::int32_t byte : bytes) {
          scratch.append(byte, begin, 1);
        }
      } else if (options_.unk_token) {
        if (!options_.fuse_unk) {
          flush();
        }
        pending_begin = pending == 0 ? begin : pending_begin;
        pending += length;
      }
    }
    flush();
  }

  // The character at `at` with the prefix and suffix of its place; `buffer` holds it if need be.
  std::string_view decorate(std::string_view word, std::size_t at, std::size_t length,
                            std::string& buffer) const {
    const std::string_view character = word.substr(at, length);
    const bool prefixed = at > 0 && !options_.continuing_subword_prefix.empty();
    const bool suffixed = at + length == word.size() && !options_.end_of_word_suffix.empty();
    if (!prefixed && !suffixed) {
      return character;
    }
    buffer = prefixed ? options_.continuing_subword_prefix : "";
    buffer.append(character).append(suffixed ? options_.end_of_word_suffix : "");
    return buffer;
  }

  std::int32_t unknown_id() const {
    const auto id = tokens().id_of(*options_.unk_token);
    core::require(id.has_value(), ErrorKind::kInvalidModel,
                  "{}: the text needs unk_token '{}', which is not in the vocabulary", what_,
                  core::printable(*options_.unk_token));
    return *id;
  }

  BpeOptions options_;
  MergeTable merges_;
  ByteTokens byte_tokens_;
  std::string what_;
  bool has_byte_alphabet_ = false;
  bool cuts_at_spaces_ = false;
};

}  // namespace

WordModelPtr make_bpe(TokenTable tokens, const std::vector<Merge>& merges,
                      const BpeOptions& options, std::string_view what) {
  core::require(merges.size() <= static_cast<std::size_t>(kMaxVocabulary), ErrorKind::kInvalidModel,
                "{}: {} merges, more than {}", what, merges.size(), kMaxVocabulary);
  return std::make_unique<Bpe>(std::move(tokens), merges, options, what);
}

Merge parse_merge(std::string_view line, std::string_view what) {
  const std::size_t space = line.find(' ');
  core::require(
      space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos,
      ErrorKind::kInvalidModel, "{}: the merge '{}' is not two tokens with a space between them",
      what, core::printable(line));
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

}  // namespace nibble::text
