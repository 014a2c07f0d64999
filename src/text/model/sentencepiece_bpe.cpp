#include <cmath>
#include <unordered_map>

#include "characters/utf8.h"
#include "core/error.h"
#include "core/text_hash.h"
#include "text/byte_trie.h"
#include "text/model/byte_tokens.h"
#include "text/model/sentencepiece.h"
#include "text/model/space_chunks.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

constexpr std::int32_t kFrozen = -2;  // a user-defined symbol: stays as it is

// Where an unused piece can be taken apart again: bytes of its left half.
using Halves = std::unordered_map<std::string_view, std::uint32_t, core::TextHash>;

class SentencePieceBpe : public WordModel {
 public:
  SentencePieceBpe(const SentencePieceVocabulary& vocabulary, std::string_view what)
      : WordModel(checked_piece_table(vocabulary, what)),
        scores_(vocabulary.scores),
        types_(vocabulary.types),
        unk_(vocabulary.unk),
        what_(what) {
    std::vector<ByteTrie::Entry> frozen;
    bool reaches_across = false;
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const std::string_view piece = tokens().token(static_cast<std::int32_t>(i));
      if (types_[i] == PieceType::kUserDefined && !piece.empty()) {
        frozen.push_back({piece, static_cast<std::int32_t>(i)});
      }
      has_unused_ = has_unused_ || types_[i] == PieceType::kUnused;
      reaches_across = reaches_across || (is_mergeable(types_[i]) && spans_word_start(piece));
    }
    frozen_ = ByteTrie(std::move(frozen));
    if (vocabulary.byte_fallback) {
      byte_tokens_ = ByteTokens(tokens());
    }
    cuts_at_spaces_ = !reaches_across && find_piece(kVisibleSpace);
  }

  bool keeps_text(bool) const override { return byte_tokens_.complete(); }

  void encode(std::string_view word, EncodeScratch& scratch,
              std::vector<std::int32_t>& ids) const override {
    if (!cuts_at_spaces_) {
      encode_whole(word, scratch.merge, ids);
      return;
    }
    for_each_space_chunk(word, [&](std::string_view chunk) {
      if (const auto known = scratch.cache.find(chunk)) {
        ids.insert(ids.end(), known->begin(), known->end());
        return;
      }
      const std::size_t before = ids.size();
      encode_whole(chunk, scratch.merge, ids);
      scratch.cache.insert(chunk, std::span(ids).subspan(before));
    });
  }

 private:
  static bool is_mergeable(PieceType type) {
    return type == PieceType::kNormal || type == PieceType::kUserDefined ||
           type == PieceType::kUnused;
  }

  std::optional<std::int32_t> find_piece(std::string_view text) const {
    if (text.size() > tokens().longest()) {
      return std::nullopt;
    }
    const auto id = tokens().id_of(text);
    return id && is_mergeable(types_[static_cast<std::size_t>(*id)]) ? id : std::nullopt;
  }

  void encode_whole(std::string_view text, MergeScratch& scratch,
                    std::vector<std::int32_t>& ids) const {
    scratch.clear();
    for (std::size_t at = 0; at < text.size();) {
      const auto symbol = frozen_.longest_prefix(text.substr(at));
      const std::size_t bytes = symbol ? symbol->bytes : characters::utf8_bytes(text[at]);
      scratch.append(symbol ? kFrozen : -1, static_cast<std::uint32_t>(at),
                     static_cast<std::uint32_t>(bytes));
      at += bytes;
    }
    Halves halves;
    const auto rule = [&](const MergeSymbol& left,
                          const MergeSymbol& right) -> std::optional<MergeResult> {
      if (left.id == kFrozen || right.id == kFrozen) {
        return std::nullopt;
      }
      const std::string_view joined =
          text.substr(left.begin, std::size_t{left.bytes} + right.bytes);
      const auto id = find_piece(joined);
      if (!id) {
        return std::nullopt;
      }
      if (has_unused_ && is_unused(*id)) {
        halves[joined] = left.bytes;
      }
      return MergeResult{-static_cast<double>(scores_[static_cast<std::size_t>(*id)]), *id};
    };
    PairMerger(scratch, rule).run();
    bool after_unknown = false;
    for (const MergeSymbol& symbol : scratch.symbols) {
      if (symbol.bytes == 0) {
        continue;
      }
      if (symbol.id >= 0 && !is_unused(symbol.id)) {
        ids.push_back(symbol.id);
        after_unknown = false;
      } else {
        emit(text.substr(symbol.begin, symbol.bytes), halves, after_unknown, ids);
      }
    }
  }

  bool is_unused(std::int32_t id) const {
    return types_[static_cast<std::size_t>(id)] == PieceType::kUnused;
  }

  // Appends the ids of what merging left; an unused piece is taken apart as it was put together.
  void emit(std::string_view piece, const Halves& halves, bool& after_unknown,
            std::vector<std::int32_t>& ids) const {
    std::vector<std::string_view> stack = {piece};
    while (!stack.empty()) {
      const std::string_view part = stack.back();
      stack.pop_back();
      const auto id = find_piece(part);
      const auto half = halves.find(part);
      if (id && is_unused(*id) && half != halves.end()) {
        stack.push_back(part.substr(half->second));
        stack.push_back(part.substr(0, half->second));
      } else if (id) {
        ids.push_back(*id);
        after_unknown = false;
      } else {
        emit_unknown(part, after_unknown, ids);
      }
    }
  }

  void emit_unknown(std::string_view part, bool& after_unknown,
                    std::vector<std::int32_t>& ids) const {
    if (byte_tokens_.append(part, ids)) {
      after_unknown = false;
      return;
    }
    core::require(unk_.has_value(), ErrorKind::kInvalidModel,
                  "{}: no piece for '{}', and no unknown piece to stand for it", what_,
                  core::printable(part));
    if (!after_unknown) {
      ids.push_back(*unk_);
    }
    after_unknown = true;
  }

  std::vector<float> scores_;
  std::vector<PieceType> types_;
  std::optional<std::int32_t> unk_;
  std::string what_;
  ByteTrie frozen_;
  ByteTokens byte_tokens_;
  bool has_unused_ = false;
  bool cuts_at_spaces_ = false;
};

}  // namespace

TokenTable checked_piece_table(const SentencePieceVocabulary& vocabulary, std::string_view what) {
  const std::size_t count = vocabulary.pieces.size();
  core::require(count > 0 && vocabulary.scores.size() == count && vocabulary.types.size() == count,
                ErrorKind::kInvalidModel,
                "{}: {} pieces, {} scores and {} types, must be as many of each", what, count,
                vocabulary.scores.size(), vocabulary.types.size());
  std::vector<TokenTable::Entry> entries;
  entries.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    core::require(std::isfinite(vocabulary.scores[i]), ErrorKind::kInvalidModel,
                  "{}: the score of piece {} is not finite", what, i);
    core::require(vocabulary.pieces[i].size() <= ByteTrie::kMaxKeyBytes, ErrorKind::kInvalidModel,
                  "{}: piece {} has {} bytes, more than {}", what, i, vocabulary.pieces[i].size(),
                  ByteTrie::kMaxKeyBytes);
    core::require(characters::is_valid_utf8(vocabulary.pieces[i]), ErrorKind::kInvalidModel,
                  "{}: piece {} is not valid UTF-8", what, i);
    entries.emplace_back(vocabulary.pieces[i], static_cast<std::int64_t>(i));
  }
  core::require(!vocabulary.unk ||
                    (*vocabulary.unk >= 0 && static_cast<std::size_t>(*vocabulary.unk) < count),
                ErrorKind::kInvalidModel, "{}: the id of the unknown piece is out of range", what);
  return TokenTable(entries, what);
}

WordModelPtr make_sentencepiece_bpe(const SentencePieceVocabulary& vocabulary,
                                    std::string_view what) {
  return std::make_unique<SentencePieceBpe>(vocabulary, what);
}

}  // namespace nibble::text
