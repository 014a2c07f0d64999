#pragma once

#include <string_view>

#include "core/json_type.h"
#include "text/vocabulary.h"

namespace nibble::models {

/// The file that carries a GGUF tokenizer in the folder of a model compressed from a GGUF file.
inline constexpr std::string_view kVocabularyFile = "tokenizer.gguf.json";

/// All fields of the vocabulary. Throws kInvalidModel when a token is not UTF-8.
std::string vocabulary_to_text(const text::Vocabulary& vocabulary);

/// Throws kInvalidModel naming the field.
text::Vocabulary vocabulary_from_json(const core::Json& json);

}  // namespace nibble::models
