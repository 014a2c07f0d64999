#include "text/tokenizer.h"

#include <algorithm>

#include "characters/utf8.h"
#include "core/error.h"
#include "text/tokenizer_parts.h"

namespace nibble::text {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

// One call of encode: walks through the text and collects ids.
class Encoding {
 public:
  Encoding(const TokenizerParts& parts, std::size_t bytes, bool parse_special)
      : parts_(parts), parse_special_(parse_special), budget_(bytes) {}

  std::vector<std::int32_t> run(std::string_view text, bool add_special) {
    if (add_special) {
      add(parts_.frames.single.before);
    }
    for (const AddedTokens::Piece& piece : parts_.added.split_raw(text, parse_special_)) {
      if (piece.id >= 0) {
        ids_.push_back(piece.id);
      } else {
        encode_raw(slice(text, piece.span), piece.span.begin == 0);
      }
    }
    if (add_special) {
      add(parts_.frames.single.behind);
    }
    return std::move(ids_);
  }

 private:
  void add(const std::vector<FrameToken>& tokens) {
    for (const FrameToken& token : tokens) {
      ids_.push_back(token.id);
    }
  }

  void encode_raw(std::string_view raw, bool at_origin) {
    std::string text(raw);
    if (parts_.normalizer) {
      const NormalizeScope scope{at_origin, max_normalized_bytes(raw.size()), &budget_};
      text = parts_.normalizer->apply(std::move(text), scope);
    }
    const auto pieces = parts_.added.split_normalized(text, parse_special_);
    for (const AddedTokens::Piece& piece : pieces) {
      if (piece.id >= 0) {
        ids_.push_back(piece.id);
        continue;
      }
      const bool first = at_origin && piece.span.begin == 0;
      if (piece.span.size() == text.size()) {
        encode_normalized(std::move(text), first);
        return;
      }
      encode_normalized(std::string(slice(text, piece.span)), first);
    }
  }

  void encode_normalized(std::string text, bool at_origin) {
    Words words;
    words.spans = {{0, text.size()}};
    words.text = std::move(text);
    words.at_origin = at_origin;
    words.budget = &budget_;
    if (parts_.pre_tokenizer) {
      parts_.pre_tokenizer->apply(words);
    }
    for (const Span& word : words.spans) {
      parts_.model->encode(slice(words.text, word), scratch_, ids_);
    }
  }

  const TokenizerParts& parts_;
  bool parse_special_;
  PatternBudget budget_;
  EncodeScratch scratch_;
  std::vector<std::int32_t> ids_;
};

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::make_unique<const TokenizerParts>(std::move(parts))) {}

Tokenizer::~Tokenizer() = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  core::require(text.size() <= kMaxTextBytes, core::ErrorKind::kFailed,
                "tokenizer: a text of {} bytes, more than {}: split it", text.size(),
                kMaxTextBytes);
  Encoding encoding(*parts_, text.size(), options.parse_special);
  if (characters::is_valid_utf8(text)) {
    return encoding.run(text, options.add_special);
  }
  const std::string repaired = characters::to_valid_utf8(text);
  return encoding.run(repaired, options.add_special);
}

std::optional<std::size_t> Tokenizer::most_bytes_of_a_token() const {
  using Keeps = PreTokenizer::Keeps;
  const Keeps keeps = parts_->pre_tokenizer ? parts_->pre_tokenizer->keeps() : Keeps::kText;
  const auto shrink =
      parts_->normalizer ? parts_->normalizer->max_shrink() : std::optional<std::size_t>(1);
  if (keeps == Keeps::kNotAll || !shrink ||
      !parts_->model->keeps_text(keeps == Keeps::kByteAlphabet)) {
    return std::nullopt;
  }
  std::size_t longest = parts_->model->tokens().longest();
  for (const AddedToken& token : parts_->added.all()) {
    if (token.lstrip || token.rstrip) {  // it takes any number of spaces along
      return std::nullopt;
    }
    longest =
        std::max({longest, token.content.size(), parts_->added.decoder_input(token.id).size()});
  }
  return longest * *shrink;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  Decoder::Run run(parts_->decoder);
  for (const std::int32_t id : ids) {
    const auto token = parts_->decoder_input(id);
    if (token && !(skip_special && parts_->is_special(id))) {
      run.push(*token);
    }
  }
  run.finish();
  return run.take();
}

std::string Tokenizer::piece(std::int32_t id) const {
  PatternBudget budget;
  return piece(id, budget);
}

std::string Tokenizer::piece(std::int32_t id, PatternBudget& budget) const {
  if (const AddedToken* added = parts_->added.find(id)) {
    return added->content;
  }
  const auto token = parts_->decoder_input(id);
  return token ? parts_->decoder.piece(std::string(*token), budget) : std::string();
}

std::int64_t Tokenizer::vocab_size() const {
  return parts_->vocab_size();
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  return parts_->id_of(token);
}

bool Tokenizer::is_special(std::int32_t id) const {
  return parts_->is_special(id);
}

std::optional<std::int32_t> Tokenizer::bos() const {
  return parts_->special.bos;
}
std::optional<std::int32_t> Tokenizer::eos() const {
  return parts_->special.eos;
}
std::optional<std::int32_t> Tokenizer::pad() const {
  return parts_->special.pad;
}
std::optional<std::int32_t> Tokenizer::unk() const {
  return parts_->special.unk;
}
std::optional<std::int32_t> Tokenizer::sep() const {
  return parts_->special.sep;
}
std::optional<std::int32_t> Tokenizer::cls() const {
  return parts_->special.cls;
}
std::optional<std::int32_t> Tokenizer::mask() const {
  return parts_->special.mask;
}

const std::vector<std::int32_t>& Tokenizer::end_tokens() const {
  return parts_->special.ends;
}

bool Tokenizer::adds_bos() const {
  const std::vector<FrameToken>& before = parts_->frames.single.before;
  return parts_->special.bos && !before.empty() && before.front().id == *parts_->special.bos;
}

const std::string& Tokenizer::chat_template() const {
  return parts_->chat_template;
}

}  // namespace nibble::text
