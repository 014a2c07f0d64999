#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "serve/body_source.h"
#include "serve/openai_responses.h"
#include "serve/tool_calls.h"
#include "text/tokenizer.h"

namespace nibble::serve {

/// One of the texts that were asked for.
struct Choice {
  std::size_t prompt = 0;  // number of its prompt
  std::string text;
  std::string finish_reason;                 // "stop", "length", "tool_calls"
  std::vector<ToolCall> tool_calls;          // of chats
  std::vector<engine::TokenRecord> records;  // where log probabilities were asked for
};

/// What is said of a prompt.
struct AnsweredPrompt {
  std::string echo;                          // its text, where it is repeated
  std::int32_t first_token = 0;              // of it
  std::vector<engine::TokenRecord> records;  // of the tokens behind that, where asked for
};

/// An answer that is not streamed.
struct WholeAnswer {
  AnswerHead head;
  std::vector<AnsweredPrompt> prompts;
  std::vector<Choice> choices;
  Usage usage;
  bool echo = false;                            // prompts stand before the texts
  std::optional<int> log_probabilities;         // as they were asked for
  std::optional<int> prompt_log_probabilities;  // the same
};

/// Its body. The tokenizer must outlive it.
std::shared_ptr<BodySource> body_of(WholeAnswer answer, const text::Tokenizer& tokenizer);

/// Embeddings as arrays of numbers, or as base64 of little-endian float32.
std::shared_ptr<BodySource> embeddings_body(const std::string& model,
                                            std::vector<std::vector<float>> embeddings, bool base64,
                                            std::int64_t tokens);

/// RFC 4648, with padding.
std::string base64_of(std::string_view bytes);

}  // namespace nibble::serve
