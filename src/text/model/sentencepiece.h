#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/model/model.h"

namespace nibble::text {

/// The numbers of sentencepiece_model.proto, which GGUF's token types share.
enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// The pieces of a SentencePiece model; equal lengths.
struct SentencePieceVocabulary {
  std::vector<std::string> pieces;
  std::vector<float> scores;
  std::vector<PieceType> types;
  std::optional<std::int32_t> unk;  // for characters without a piece
  bool byte_fallback = false;       // spell those with "<0xHH>" pieces
};

/// Merges the pair whose joined piece has the best score (SentencePiece's bpe_model).
WordModelPtr make_sentencepiece_bpe(const SentencePieceVocabulary& vocabulary,
                                    std::string_view what);

/// Both throw kInvalidModel for lengths that differ, scores that are not finite, and ids out of
/// range.
WordModelPtr make_sentencepiece_unigram(const SentencePieceVocabulary& vocabulary,
                                        std::string_view what);

/// Checks what both need and puts the pieces in a table.
TokenTable checked_piece_table(const SentencePieceVocabulary& vocabulary, std::string_view what);

}  // namespace nibble::text
