#pragma once

#include <string_view>

#include "core/json_type.h"
#include "text/load/tokenizer_config.h"
#include "text/tokenizer_parts.h"
#include "text/vocabulary.h"

namespace nibble::text {

/// One function for each kind of file. All throw kInvalidModel for what is malformed, or not
/// supported, naming `what`.

/// A tokenizer.json.
TokenizerParts load_tokenizer_json(std::string_view text, const TokenizerConfig& config,
                                   std::string_view what);

/// A SentencePiece tokenizer.model.
TokenizerParts load_sentencepiece(std::string_view bytes, const TokenizerConfig& config,
                                  std::string_view what);

/// A vocab.json and a merges.txt, with the pre-tokenizer of the class that the config names (GPT-2
/// if it names none).
TokenizerParts load_vocab_and_merges(std::string_view vocab_json, std::string_view merges,
                                     const TokenizerConfig& config, std::string_view what);

/// A vocab.txt: one token of WordPiece per line.
TokenizerParts load_vocab_txt(std::string_view text, const TokenizerConfig& config,
                              std::string_view what);

/// The tokenizer.ggml.* keys of a GGUF file.
TokenizerParts load_gguf_vocabulary(const Vocabulary& vocabulary);

/// What all kinds of SentencePiece vocabularies decode with: visible spaces become spaces, byte
/// pieces become bytes, and the space that was put before the text goes again.
Decoder make_sentencepiece_decoder(bool drops_first_space);

}  // namespace nibble::text
