#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace nibble::text {

class PatternBudget;
struct TokenizerParts;

struct EncodeOptions {
  bool add_special =
      false;  // with the tokens that the model expects around a text (BOS, [CLS], ...)
  bool parse_special =
      true;  // control tokens written in the text become their ids; else plain text
};

/// Turns text into token ids and back, with the results of the tokenizer that the model was trained
/// with. Immutable; any number of threads may use it at once.
class Tokenizer {
 public:
  /// The tokenizer of a model folder: tokenizer.json, else tokenizer.model (SentencePiece), else
  /// vocab.json with merges.txt, else vocab.txt (WordPiece). tokenizer_config.json,
  /// special_tokens_map.json, generation_config.json, config.json and chat_template.jinja are read
  /// if they are there. Throws kIo for files that cannot be read and kInvalidModel for those that
  /// are malformed or ask for what is not supported, by name.
  static std::shared_ptr<const Tokenizer> from_folder(const std::filesystem::path& folder);

  /// The contents of a tokenizer.json and of a tokenizer_config.json (may be empty). `what` names
  /// the first in messages. Truncation and padding settings are ignored, as transformers does.
  static std::shared_ptr<const Tokenizer> from_json(std::string_view tokenizer_json,
                                                    std::string_view config_json,
                                                    std::string_view what);

  /// The contents of a SentencePiece tokenizer.model, of type BPE or unigram.
  static std::shared_ptr<const Tokenizer> from_sentencepiece(std::string_view model_bytes,
                                                             std::string_view config_json,
                                                             std::string_view what);

  /// The vocabulary of a GGUF file.
  static std::shared_ptr<const Tokenizer> from_vocabulary(const Vocabulary& vocabulary);

  explicit Tokenizer(TokenizerParts parts);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// The ids of a text. Bytes that are not UTF-8 are read as U+FFFD, one for each maximal invalid
  /// part. Throws kFailed when a pattern of the file gives up on the text (regex.h says when) and
  /// kInvalidModel when a character has no token and the vocabulary names none for that.
  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The most bytes of a text that one id can stand for, so that a text of n bytes has n divided by
  /// this ids at the least; nothing where an id can stand for any number of them.
  std::optional<std::size_t> most_bytes_of_a_token() const;

  /// The text of ids, as Hugging Face's tokenizers give it, in valid UTF-8. `skip_special` leaves
  /// control tokens out. Ids without a token stand for nothing.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const;

  /// The bytes that a token stands for on its own: may be a part of a character; a leading space is
  /// kept. Empty for an id without a token.
  std::string piece(std::int32_t id) const;
  /// The same for one of many tokens, whose patterns have a budget together.
  std::string piece(std::int32_t id, PatternBudget& budget) const;

  /// One more than the largest id.
  std::int64_t vocab_size() const;
  /// The id of a token as the vocabulary writes it ("\u0120the", "<|im_end|>").
  std::optional<std::int32_t> id_of(std::string_view token) const;
  /// Whether an id is a control token, left out of decoded text.
  bool is_special(std::int32_t id) const;

  std::optional<std::int32_t> bos() const;
  std::optional<std::int32_t> eos() const;
  std::optional<std::int32_t> pad() const;
  std::optional<std::int32_t> unk() const;
  std::optional<std::int32_t> sep() const;
  std::optional<std::int32_t> cls() const;
  std::optional<std::int32_t> mask() const;
  /// The ids at which a generated text ends: eos, those that generation_config.json names, and
  /// control tokens known to end a turn ("<|eot_id|>", "<|im_end|>", ...). Ascending.
  const std::vector<std::int32_t>& end_tokens() const;
  /// Whether encode with add_special starts with bos().
  bool adds_bos() const;

  /// The Jinja template of a chat; empty if the model has none.
  const std::string& chat_template() const;

  /// For this folder's own use.
  const TokenizerParts& parts() const { return *parts_; }

 private:
  std::unique_ptr<const TokenizerParts> parts_;
};

}  // namespace nibble::text
