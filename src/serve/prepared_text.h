#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "engine/request.h"
#include "serve/answer.h"
#include "serve/openai_requests.h"
#include "serve/prompts.h"
#include "text/grammar/grammar.h"

namespace nibble::serve {

/// A request for texts, ready for the engine but for its grammar.
struct PreparedText {
  AnswerPlan plan;
  engine::Request request;                                             // without a prompt
  std::function<std::shared_ptr<const text::Grammar>()> make_grammar;  // null: none
};

/// `owner`: the number of the client's key. Keys share no cached prefixes: its timing would tell
/// one client what another has asked. Throws ApiError as Prompts::encode.
PreparedText prepare(const CompletionRequest& asked, const Prompts& prompts, std::size_t owner);

/// Calls of tools are looked for, or asked for by a grammar. Throws ApiError as Prompts::encode,
/// and for tools that may be called where `format` is kNone.
PreparedText prepare(const ChatRequest& asked, const Prompts& prompts, ToolFormat format,
                     std::size_t owner);

/// The name, the time and an id of its own.
void begin_answer(AnswerHead& head, const std::string& model);

}  // namespace nibble::serve
