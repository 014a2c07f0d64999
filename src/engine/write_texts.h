#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/text_search.h"
#include "engine/text_to_text.h"
#include "text/tokenizer.h"

namespace nibble::engine {

/// Reads `sources`, with the special tokens that the model wants, and writes a text for each, all
/// together: a step computes the beams of all texts that are not finished. What is written of one
/// does not depend on the others. Throws as TextToText.
std::vector<WrittenText> write_texts(TextToText& model,
                                     std::span<const std::span<const std::int32_t>> sources,
                                     const WritingOptions& options);

/// Whether a text ends with an end token, not at the length that it may have.
bool is_ended(const WrittenText& text, const WritingOptions& options);

/// What the tokens say, without start, end and control tokens.
std::string text_of(const WrittenText& text, const WritingOptions& options,
                    const text::Tokenizer& tokenizer);

}  // namespace nibble::engine
