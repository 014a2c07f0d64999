#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "serve/body_source.h"
#include "serve/json_text.h"
#include "text/tokenizer.h"

/// Log probabilities of tokens, as completions and chats of OpenAI's API have them.
namespace nibble::serve {

/// The name of a token's text where it is no whole characters: "bytes:\xe2\x82".
std::string token_name(std::string_view piece);

/// How one token is written.
class TokenFormat {
 public:
  TokenFormat(const text::Tokenizer& tokenizer, int most_probable)
      : tokenizer_(&tokenizer), most_probable_(most_probable) {}

  std::string name(std::int32_t token) const { return token_name(tokenizer_->piece(token)); }
  /// Characters of its text.
  std::int64_t length(std::int32_t token) const;
  /// An element of a chat's "content".
  OrderedJson for_chat(const engine::TokenRecord& record) const;
  /// An element of a completion's "top_logprobs".
  OrderedJson most_probable(const engine::TokenRecord& record) const;
  bool has_most_probable() const { return most_probable_ > 0; }

 private:
  OrderedJson chance(const engine::TokenChance& chance) const;

  const text::Tokenizer* tokenizer_;
  int most_probable_;
};

/// JSON has no infinity: -9999 is the least.
double finite(float log_probability);

/// Of tokens that follow one another in a stream.
class LogProbabilities {
 public:
  LogProbabilities(const text::Tokenizer& tokenizer, bool chat, int most_probable)
      : format_(tokenizer, most_probable), chat_(chat) {}

  void add(std::span<const engine::TokenRecord> records) {
    records_.insert(records_.end(), records.begin(), records.end());
  }
  /// The object of what was added since the last time.
  OrderedJson take();
  bool empty() const { return records_.empty(); }

 private:
  TokenFormat format_;
  bool chat_;
  std::int64_t offset_ = 0;  // characters of text before the next token
  std::vector<engine::TokenRecord> records_;
};

/// The tokens of a text that are given at once. An echoed prompt begins with a token that nothing
/// predicts.
struct RecordedText {
  std::optional<std::int32_t> first;
  std::span<const engine::TokenRecord> prompt;
  std::span<const engine::TokenRecord> text;

  std::size_t size() const { return (first ? 1 : 0) + prompt.size() + text.size(); }
  /// Null for the first of an echoed prompt.
  const engine::TokenRecord* at(std::size_t i) const;
  std::int32_t token(std::size_t i) const;
};

/// Adds their object. What `text` and `format` refer to must outlive the sections.
void add_log_probabilities(BodySections& body, const RecordedText& text, bool chat,
                           const TokenFormat& format);

/// vLLM's "prompt_logprobs": for each token of a prompt an object of token ids, of its own and of
/// the `most_probable` ones in its place; null for the first token, which nothing predicts.
/// `records` are those of the tokens behind it.
void add_prompt_log_probabilities(BodySections& body, std::span<const engine::TokenRecord> records,
                                  int most_probable, const text::Tokenizer& tokenizer);

/// Memory of records.
std::size_t bytes_of(std::span<const engine::TokenRecord> records);

}  // namespace nibble::serve
