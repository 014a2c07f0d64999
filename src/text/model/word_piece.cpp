#include "text/model/word_piece.h"

#include <algorithm>

#include "core/error.h"
#include "text/byte_trie.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

std::int32_t require_unknown(const TokenTable& tokens, std::string_view unk_token,
                             std::string_view what) {
  const auto id = tokens.id_of(unk_token);
  core::require(id.has_value(), ErrorKind::kInvalidModel,
                "{}: the text needs unk_token '{}', which is not in the vocabulary", what,
                core::printable(unk_token));
  return *id;
}

std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
}

class WordPiece : public WordModel {
 public:
  WordPiece(TokenTable table, const WordPieceOptions& options, std::string_view what)
      : WordModel(std::move(table)), options_(options), what_(what) {
    std::vector<ByteTrie::Entry> first;
    std::vector<ByteTrie::Entry> continuing;
    for (std::int32_t id = 0; id < tokens().size(); ++id) {
      if (!tokens().has(id)) {
        continue;
      }
      const std::string_view token = tokens().token(id);
      core::require(token.size() <= ByteTrie::kMaxKeyBytes, ErrorKind::kInvalidModel,
                    "{}: the token with id {} has {} bytes, more than {}", what, id, token.size(),
                    ByteTrie::kMaxKeyBytes);
      if (!token.empty()) {
        first.push_back({token, id});
      }
      const std::string& prefix = options.continuing_subword_prefix;
      if (token.size() > prefix.size() && token.starts_with(prefix)) {
        continuing.push_back({token.substr(prefix.size()), id});
      }
    }
    first_ = ByteTrie(std::move(first));
    continuing_ = ByteTrie(std::move(continuing));
  }

  void encode(std::string_view word, EncodeScratch&,
              std::vector<std::int32_t>& ids) const override {
    const std::size_t before = ids.size();
    if (count_characters(word) <= options_.max_input_chars_per_word && spell(word, ids)) {
      return;
    }
    ids.resize(before);
    ids.push_back(require_unknown(tokens(), options_.unk_token, what_));
  }

 private:
  bool spell(std::string_view word, std::vector<std::int32_t>& ids) const {
    for (std::size_t at = 0; at < word.size();) {
      const auto found = (at == 0 ? first_ : continuing_).longest_prefix(word.substr(at));
      if (!found) {
        return false;
      }
      ids.push_back(found->value);
      at += found->bytes;
    }
    return true;
  }

  WordPieceOptions options_;
  std::string what_;
  ByteTrie first_;
  ByteTrie continuing_;  // tokens with the prefix, without it
};

class WordLevel : public WordModel {
 public:
  WordLevel(TokenTable table, std::string unk_token, std::string_view what)
      : WordModel(std::move(table)), unk_token_(std::move(unk_token)), what_(what) {}

  void encode(std::string_view word, EncodeScratch&,
              std::vector<std::int32_t>& ids) const override {
    const auto id = tokens().id_of(word);
    ids.push_back(id ? *id : require_unknown(tokens(), unk_token_, what_));
  }

 private:
  std::string unk_token_;
  std::string what_;
};

}  // namespace

WordModelPtr make_word_piece(TokenTable tokens, const WordPieceOptions& options,
                             std::string_view what) {
  return std::make_unique<WordPiece>(std::move(tokens), options, what);
}

WordModelPtr make_word_level(TokenTable tokens, std::string unk_token, std::string_view what) {
  return std::make_unique<WordLevel>(std::move(tokens), std::move(unk_token), what);
}

}  // namespace nibble::text
