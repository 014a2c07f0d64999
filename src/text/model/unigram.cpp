#include "text/model/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "characters/utf8.h"
#include "core/error.h"
#include "text/byte_trie.h"
#include "text/model/byte_tokens.h"
#include "text/model/sentencepiece.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

constexpr double kUnknownPenalty = 10;

struct UnigramSpec {
  std::vector<double> scores;
  std::vector<bool> usable;  // may be part of a path
  std::optional<std::int32_t> unk;
  double unknown_score = 0;  // of one character without a token
  bool byte_fallback = false;
  bool single_precision = false;     // sums are rounded to float, as in SentencePiece
  double user_defined_per_byte = 0;  // a user-defined piece scores this per byte, less 0.1
  std::vector<bool> user_defined;
};

// The most probable cut into pieces (Kudo 2018, arXiv 1804.10959), found by Viterbi's algorithm
// over the bytes of the text.
class Unigram : public WordModel {
 public:
  Unigram(TokenTable table, UnigramSpec spec, std::string_view what)
      : WordModel(std::move(table)), spec_(std::move(spec)), what_(what) {
    std::vector<ByteTrie::Entry> entries;
    for (std::size_t i = 0; i < spec_.scores.size(); ++i) {
      const std::string_view token = tokens().token(static_cast<std::int32_t>(i));
      if (spec_.usable[i] && !token.empty()) {
        entries.push_back({token, static_cast<std::int32_t>(i)});
      }
    }
    trie_ = ByteTrie(std::move(entries));
    if (spec_.byte_fallback) {
      byte_tokens_ = ByteTokens(tokens());
    }
  }

  bool keeps_text(bool) const override { return byte_tokens_.complete(); }

  void encode(std::string_view word, EncodeScratch& scratch,
              std::vector<std::int32_t>& ids) const override {
    if (const auto known = scratch.cache.find(word)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
    const std::size_t before = ids.size();
    find_best_path(word, scratch.viterbi);
    emit(word, scratch.viterbi.path, ids);
    scratch.cache.insert(word, std::span(ids).subspan(before));
  }

 private:
  double rounded(double sum) const {
    return spec_.single_precision ? static_cast<double>(static_cast<float>(sum)) : sum;
  }

  double score(std::int32_t id, std::size_t bytes) const {
    const auto index = static_cast<std::size_t>(id);
    return spec_.user_defined[index]
               ? static_cast<double>(bytes) * spec_.user_defined_per_byte - 0.1
               : spec_.scores[index];
  }

  void find_best_path(std::string_view word, ViterbiScratch& scratch) const {
    auto& nodes = scratch.nodes;
    nodes.assign(word.size() + 1, {});
    for (std::size_t start = 0; start < word.size();) {
      const double here = nodes[start].score;
      const std::size_t character = characters::utf8_bytes(word[start]);
      bool has_single = false;
      const auto offer = [&](std::size_t bytes, std::int32_t id, double sum) {
        PathNode& node = nodes[start + bytes];
        if (node.start == PathNode::kUnreached || sum > node.score) {
          node = {rounded(sum), start, id};
        }
      };
      trie_.for_each_prefix(word.substr(start), [&](std::size_t bytes, std::int32_t id) {
        offer(bytes, id, score(id, bytes) + here);
        has_single = has_single || bytes == character;
      });
      if (!has_single) {
        offer(character, spec_.unk.value_or(-1), rounded(spec_.unknown_score + here));
      }
      start += character;
    }
    scratch.path.clear();
    for (std::size_t end = word.size(); end > 0; end = nodes[end].start) {
      scratch.path.push_back({nodes[end].start, end, nodes[end].id});
    }
    std::reverse(scratch.path.begin(), scratch.path.end());
  }

  bool is_unknown(std::int32_t id) const { return id == spec_.unk.value_or(-1); }

  void emit(std::string_view word, const std::vector<PathPiece>& path,
            std::vector<std::int32_t>& ids) const {
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (!is_unknown(path[i].id)) {
        ids.push_back(path[i].id);
        continue;
      }
      const std::size_t begin = path[i].begin;
      while (i + 1 < path.size() && is_unknown(path[i + 1].id)) {
        ++i;
      }
      emit_unknown(word.substr(begin, path[i].end - begin), ids);
    }
  }

  void emit_unknown(std::string_view run, std::vector<std::int32_t>& ids) const {
    // Hugging Face's tokenizers look the run up before they spell it; SentencePiece does not.
    const auto whole = spec_.single_precision ? std::nullopt : tokens().id_of(run);
    if (whole) {
      ids.push_back(*whole);
      return;
    }
    if (byte_tokens_.append(run, ids)) {
      return;
    }
    core::require(spec_.unk.has_value(), ErrorKind::kInvalidModel,
                  "{}: no token for '{}', and no unk_id to stand for it", what_,
                  core::printable(run));
    ids.push_back(*spec_.unk);
  }

  UnigramSpec spec_;
  std::string what_;
  ByteTrie trie_;
  ByteTokens byte_tokens_;
};

}  // namespace

WordModelPtr make_unigram(const std::vector<std::pair<std::string, double>>& vocabulary,
                          std::optional<std::int64_t> unk_id, bool byte_fallback,
                          std::string_view what) {
  std::vector<TokenTable::Entry> entries;
  UnigramSpec spec;
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto& [token, score] : vocabulary) {
    core::require(token.size() <= ByteTrie::kMaxKeyBytes, ErrorKind::kInvalidModel,
                  "{}: the token with id {} has {} bytes, more than {}", what, entries.size(),
                  token.size(), ByteTrie::kMaxKeyBytes);
    core::require(std::isfinite(score), ErrorKind::kInvalidModel,
                  "{}: the score of token {} is not finite", what, entries.size());
    entries.emplace_back(token, static_cast<std::int64_t>(entries.size()));
    spec.scores.push_back(score);
    lowest = std::min(lowest, score);
  }
  core::require(!unk_id || *unk_id < static_cast<std::int64_t>(vocabulary.size()),
                ErrorKind::kInvalidModel, "{}: unk_id {} is not an id of the {} tokens", what,
                unk_id.value_or(0), vocabulary.size());
  spec.usable.assign(vocabulary.size(), true);
  spec.user_defined.assign(vocabulary.size(), false);
  spec.unk = unk_id ? std::optional(static_cast<std::int32_t>(*unk_id)) : std::nullopt;
  spec.unknown_score = lowest - kUnknownPenalty;
  spec.byte_fallback = byte_fallback;
  return std::make_unique<Unigram>(TokenTable(entries, what), std::move(spec), what);
}

WordModelPtr make_sentencepiece_unigram(const SentencePieceVocabulary& vocabulary,
                                        std::string_view what) {
  TokenTable table = checked_piece_table(vocabulary, what);
  UnigramSpec spec;
  float lowest = std::numeric_limits<float>::max();
  float highest =
      std::numeric_limits<float>::min();  // not lowest(): what SentencePiece starts from
  for (std::size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    const PieceType type = vocabulary.types[i];
    spec.scores.push_back(vocabulary.scores[i]);
    spec.usable.push_back(type == PieceType::kNormal || type == PieceType::kUserDefined);
    spec.user_defined.push_back(type == PieceType::kUserDefined);
    if (type == PieceType::kNormal) {
      lowest = std::min(lowest, vocabulary.scores[i]);
      highest = std::max(highest, vocabulary.scores[i]);
    }
  }
  spec.unk = vocabulary.unk;
  spec.unknown_score = lowest - static_cast<float>(kUnknownPenalty);
  spec.byte_fallback = vocabulary.byte_fallback;
  spec.single_precision = true;
  spec.user_defined_per_byte = highest;
  return std::make_unique<Unigram>(std::move(table), std::move(spec), what);
}

}  // namespace nibble::text
