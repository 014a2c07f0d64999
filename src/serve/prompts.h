#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/openai_requests.h"
#include "serve/tool_format.h"
#include "text/chat_template.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

namespace nibble::serve {

/// Makes of requests what the engine reads: tokens and grammars. Immutable; any thread.
class Prompts {
 public:
  /// `template_source` may be empty: then there is no chat. Nor is there with one that is no
  /// template; template_error() says why.
  Prompts(std::shared_ptr<const text::Tokenizer> tokenizer, const std::string& template_source,
          std::int64_t context);

  /// The tokens of a prompt. Throws ApiError for one that is empty or fills the context
  /// (context_length_exceeded), also, before it is encoded, where its bytes alone say so.
  std::vector<std::int32_t> encode(const Prompt& prompt, bool add_special,
                                   const std::string& param) const;

  /// The tokens of a conversation, as the model's template writes it. What messages say never
  /// becomes a control token: a text in which the tokenizer finds one is encoded apart, as plain
  /// text. Throws ApiError, also when the template refuses the messages or exceeds its budget.
  std::vector<std::int32_t> encode(const ChatRequest& request) const;

  /// The same without regard to the context.
  std::vector<std::int32_t> tokens_of(const ChatRequest& request) const;
  std::vector<std::int32_t> tokens_of(const TokenizeRequest& request) const;

  /// By what the template says.
  ToolFormat tool_format() const { return tool_format_; }

  const std::string& template_error() const { return template_error_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  std::int64_t context() const { return context_; }

 private:
  class Guard;

  std::string render(const ChatRequest& request, const OrderedJson& messages) const;
  void check_length(std::size_t tokens, const std::string& param) const;
  void check_bytes(std::size_t bytes, const std::string& param) const;

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> template_;
  std::string template_error_;  // why there is none
  bool shows_tools_ = false;
  ToolFormat tool_format_ = ToolFormat::kNone;
  std::int64_t context_;
  std::size_t max_bytes_;  // longer texts do not fit the context
};

/// What the text must be; null for anything. Throws ApiError naming the field.
std::shared_ptr<const text::Grammar> make_grammar(const Constraint& constraint);

}  // namespace nibble::serve
