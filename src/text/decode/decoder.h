#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_type.h"
#include "text/regex/regex.h"

namespace nibble::text {

/// One end of a pipe between two stages of a decoder: takes tokens in pieces.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  /// More of the current token.
  virtual void text(std::string_view part) = 0;
  /// The current token is complete.
  virtual void end_token() = 0;
  /// There are no more tokens.
  virtual void finish() = 0;
};

using TokenSinkPtr = std::unique_ptr<TokenSink>;

/// A stage: rewrites a stream of tokens. It hands on text as soon as it is certain, so that the
/// same code decodes a whole text and a stream. Immutable, thread-safe; what it must remember of a
/// stream lives in the sink that it opens.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  /// A sink for one stream, which writes to `next`.
  virtual TokenSinkPtr open(TokenSink& next) const = 0;
  /// The bytes of a token on its own, wherever it may stand.
  virtual std::string piece(std::string token, PatternBudget&) const { return token; }
};

using DecodeStagePtr = std::unique_ptr<const DecodeStage>;

/// Turns the strings of tokens into text.
class Decoder {
 public:
  /// Without stages tokens are joined by spaces, as Hugging Face's tokenizers do.
  explicit Decoder(std::vector<DecodeStagePtr> stages) : stages_(std::move(stages)) {}

  /// Decodes one stream of tokens.
  class Run {
   public:
    explicit Run(const Decoder& decoder);
    ~Run();
    void push(std::string_view token);
    void finish();
    /// The text that has become certain since the last call; whole characters.
    std::string take();

   private:
    class Output;
    std::unique_ptr<Output> output_;
    std::vector<TokenSinkPtr> sinks_;  // the first stage's last
  };

  std::string piece(std::string token, PatternBudget& budget) const;

 private:
  std::vector<DecodeStagePtr> stages_;
};

/// The "decoder" of a tokenizer.json as its stages, "Sequence" resolved; none for null. Throws
/// kInvalidModel for an unknown or malformed one, naming it.
std::vector<DecodeStagePtr> decode_stages_from_json(const core::Json& json, std::string_view what);

/// Characters of the byte alphabet back to bytes; all tokens become one.
DecodeStagePtr make_byte_level_stage();
/// `replacement` (one character) becomes a space, or nothing in the first token if `drops_first`.
DecodeStagePtr make_metaspace_stage(std::string replacement, bool drops_first);
/// Joins word pieces; with `cleanup`, English punctuation and contractions lose the space before.
DecodeStagePtr make_word_piece_stage(std::string prefix, bool cleanup);
DecodeStagePtr make_replace_stage(std::string pattern, std::string content);
DecodeStagePtr make_replace_regex_stage(std::string_view pattern, std::string content,
                                        std::string_view what);
/// Runs of "<0xHH>" tokens become characters, or one U+FFFD for each byte when they are not UTF-8.
DecodeStagePtr make_byte_fallback_stage();
/// All tokens become one.
DecodeStagePtr make_fuse_stage();
/// Removes up to `start` and `stop` characters `content` from the ends of each token.
DecodeStagePtr make_strip_stage(std::string content, std::size_t start, std::size_t stop);

}  // namespace nibble::text
