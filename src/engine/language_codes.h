#pragma once

#include <string>
#include <string_view>

#include "engine/writing_options.h"
#include "text/model_input.h"
#include "text/tokenizer.h"

namespace nibble::engine {

/// Models of many languages know them by tokens as "en_XX": the tokenizer puts that of the source
/// around a text, and that of the target begins what is written (mBART, arXiv 2001.08210; mBART-50,
/// arXiv 2008.00401).

/// The token of a language. Throws kUsage, naming those that there are, where it has none.
std::int32_t language_token(const text::Tokenizer& tokenizer, std::string_view code);

/// Puts a language in the place of the one that the tokenizer has put around a text. Throws kUsage
/// where it puts none.
void set_source_language(text::ModelInput& input, const text::Tokenizer& tokenizer,
                         std::string_view code);

/// Lets what is written be in a language: its token is the start token of models whose start token
/// is a language (mBART), else the first token behind it (mBART-50).
void set_target_language(WritingOptions& options, const text::Tokenizer& tokenizer,
                         std::string_view code);

}  // namespace nibble::engine
