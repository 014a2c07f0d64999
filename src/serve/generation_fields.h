#pragma once

#include "serve/json_request.h"
#include "serve/openai_requests.h"

namespace nibble::serve {

/// The fields that requests for text share, but those of the log probabilities and the number of
/// tokens.
GenerationOptions read_generation_options(const Fields& fields, const RequestLimits& limits);

/// Refuses fields that ask for what is not built: `fields` are names, and hold when they are there
/// and are neither null nor false nor empty.
void refuse_fields(const Fields& fields, std::initializer_list<const char*> names);

/// A text or its tokens. `param` names it.
Prompt read_prompt(const OrderedJson& json, const std::string& param, const RequestLimits& limits);

/// One of these, or an array of them; at most `count`.
std::vector<Prompt> read_prompts(const Fields& fields, const char* name, std::size_t count,
                                 const RequestLimits& limits);

}  // namespace nibble::serve
