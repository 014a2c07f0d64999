#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/model/sentencepiece.h"
#include "text/normalize/sentencepiece.h"

namespace nibble::text {

enum class SentencePieceKind { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

/// What a SentencePiece model file says (google/sentencepiece, sentencepiece_model.proto).
struct SentencePieceFile {
  SentencePieceVocabulary vocabulary;
  SentencePieceRules rules;  // without the user-defined symbols
  SentencePieceKind kind = SentencePieceKind::kUnigram;
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
  std::string pad_piece = "<pad>";
};

/// Reads and checks a model file; SentencePiece's own reader ends the process for some damaged
/// ones. Throws kInvalidModel for a damaged file, an empty or double piece, and not exactly one
/// unknown piece.
SentencePieceFile read_sentencepiece_file(std::string_view bytes, std::string_view what);

}  // namespace nibble::text
