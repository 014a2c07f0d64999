#pragma once

#include "io/gguf_writer.h"
#include "models/model.h"
#include "text/vocabulary.h"

namespace nibble::models {

/// The tokenizer of a model as GGUF has it: that of the GGUF file it came from, or a byte-level BPE
/// of tokenizer.json whose split pattern llama.cpp knows by name. Ids without a token, up to the
/// rows of the embedding, are unused ones. Throws kInvalidModel for all others.
text::Vocabulary vocabulary_of(const Model& model);

/// The tokenizer.ggml.* keys.
void add_vocabulary(const text::Vocabulary& vocabulary, io::GgufKeys& keys);

}  // namespace nibble::models
