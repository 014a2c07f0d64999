#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nibble/nibble.h>

#include "engine/request.h"

/// Texts that were written, as a caller is given them.
struct nibble_texts {
  struct Text {
    std::string text;
    std::vector<std::int32_t> tokens;
    std::string finish_reason;
    std::size_t prompt_tokens = 0;
    std::string log_probabilities = "[]";
    std::string tool_calls = "[]";
  };
  std::vector<Text> texts;
};

namespace nibble::capi {

/// What an engine gave for a prompt. Throws what made the generation fail.
nibble_texts::Text text_of(const engine::Completion& completion, std::size_t prompt_tokens);

}  // namespace nibble::capi
