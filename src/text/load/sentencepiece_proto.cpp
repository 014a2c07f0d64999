#include "text/load/sentencepiece_proto.h"

#include <bit>
#include <unordered_set>

#include "core/error.h"
#include "core/text_hash.h"
#include "text/load/protobuf.h"
#include "text/model/byte_tokens.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kBytes = 2;
constexpr std::uint32_t kFourBytes = 5;

void require_type(const ProtobufField& field, std::uint32_t wire_type, std::string_view name,
                  std::string_view what) {
  core::require(field.wire_type == wire_type, ErrorKind::kInvalidModel,
                "{}: the field {} has the wire type {}, must be {}", what, name, field.wire_type,
                wire_type);
}

bool read_flag(const ProtobufField& field, std::string_view name, std::string_view what) {
  require_type(field, kVarint, name, what);
  return field.number_value != 0;
}

std::string read_string(const ProtobufField& field, std::string_view name, std::string_view what) {
  require_type(field, kBytes, name, what);
  return std::string(field.bytes);
}

PieceType read_piece_type(const ProtobufField& field, std::size_t piece, std::string_view what) {
  require_type(field, kVarint, "type", what);
  core::require(field.number_value >= 1 && field.number_value <= 6, ErrorKind::kInvalidModel,
                "{}: piece {} has the type {}, must be 1 to 6", what, piece, field.number_value);
  return static_cast<PieceType>(field.number_value);
}

void read_piece(std::string_view message, SentencePieceVocabulary& vocabulary,
                std::string_view what) {
  const std::size_t index = vocabulary.pieces.size();
  std::string piece;
  float score = 0;
  PieceType type = PieceType::kNormal;
  ProtobufReader reader(message, what);
  while (const auto field = reader.next()) {
    if (field->number == 1) {
      piece = read_string(*field, "piece", what);
    } else if (field->number == 2) {
      require_type(*field, kFourBytes, "score", what);
      score = std::bit_cast<float>(static_cast<std::uint32_t>(field->number_value));
    } else if (field->number == 3) {
      type = read_piece_type(*field, index, what);
    }
  }
  core::require(!piece.empty(), ErrorKind::kInvalidModel, "{}: piece {} is empty", what, index);
  vocabulary.pieces.push_back(std::move(piece));
  vocabulary.scores.push_back(score);
  vocabulary.types.push_back(type);
}

void read_trainer_spec(std::string_view message, SentencePieceFile& file, std::string_view what) {
  ProtobufReader reader(message, what);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 3:
        require_type(*field, kVarint, "model_type", what);
        core::require(field->number_value >= 1 && field->number_value <= 4,
                      ErrorKind::kInvalidModel, "{}: model_type {} is unknown", what,
                      field->number_value);
        file.kind = static_cast<SentencePieceKind>(field->number_value);
        break;
      case 24:
        file.rules.treat_whitespace_as_suffix =
            read_flag(*field, "treat_whitespace_as_suffix", what);
        break;
      case 35:
        file.vocabulary.byte_fallback = read_flag(*field, "byte_fallback", what);
        break;
      case 46:
        file.bos_piece = read_string(*field, "bos_piece", what);
        break;
      case 47:
        file.eos_piece = read_string(*field, "eos_piece", what);
        break;
      case 48:
        file.pad_piece = read_string(*field, "pad_piece", what);
        break;
      default:
        break;
    }
  }
}

void read_normalizer_spec(std::string_view message, SentencePieceRules& rules,
                          std::string_view what) {
  ProtobufReader reader(message, what);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 2:
        rules.charsmap = read_string(*field, "precompiled_charsmap", what);
        break;
      case 3:
        rules.add_dummy_prefix = read_flag(*field, "add_dummy_prefix", what);
        break;
      case 4:
        rules.remove_extra_whitespaces = read_flag(*field, "remove_extra_whitespaces", what);
        break;
      case 5:
        rules.escape_whitespaces = read_flag(*field, "escape_whitespaces", what);
        break;
      default:
        break;
    }
  }
}

// What SentencePiece itself demands of the pieces.
void check_pieces(SentencePieceVocabulary& vocabulary, std::string_view what) {
  core::require(!vocabulary.pieces.empty(), ErrorKind::kInvalidModel,
                "{}: no pieces: not a SentencePiece model", what);
  std::unordered_set<std::string_view, core::TextHash> seen;
  std::size_t byte_pieces = 0;
  for (std::size_t i = 0; i < vocabulary.pieces.size(); ++i) {
    const std::string& piece = vocabulary.pieces[i];
    core::require(seen.insert(piece).second, ErrorKind::kInvalidModel,
                  "{}: the piece '{}' stands twice", what, core::printable(piece));
    if (vocabulary.types[i] == PieceType::kUnknown) {
      core::require(!vocabulary.unk, ErrorKind::kInvalidModel, "{}: two unknown pieces", what);
      vocabulary.unk = static_cast<std::int32_t>(i);
    } else if (vocabulary.types[i] == PieceType::kByte) {
      core::require(byte_of_token(piece, false) >= 0, ErrorKind::kInvalidModel,
                    "{}: the byte piece '{}' is not <0xHH>", what, core::printable(piece));
      ++byte_pieces;
    }
  }
  core::require(vocabulary.unk.has_value(), ErrorKind::kInvalidModel, "{}: no unknown piece", what);
  core::require(!vocabulary.byte_fallback || byte_pieces == 256, ErrorKind::kInvalidModel,
                "{}: byte_fallback with {} byte pieces, must be 256", what, byte_pieces);
}

}  // namespace

SentencePieceFile read_sentencepiece_file(std::string_view bytes, std::string_view what) {
  SentencePieceFile file;
  ProtobufReader reader(bytes, what);
  while (const auto field = reader.next()) {
    if (field->number < 1 || field->number > 3) {
      continue;
    }
    require_type(*field, kBytes, "of the model", what);
    if (field->number == 1) {
      core::require(file.vocabulary.pieces.size() < static_cast<std::size_t>(kMaxVocabulary),
                    ErrorKind::kInvalidModel, "{}: more than {} pieces", what, kMaxVocabulary);
      read_piece(field->bytes, file.vocabulary, what);
    } else if (field->number == 2) {
      read_trainer_spec(field->bytes, file, what);
    } else {
      read_normalizer_spec(field->bytes, file.rules, what);
    }
  }
  check_pieces(file.vocabulary, what);
  return file;
}

}  // namespace nibble::text
