#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/decode/decoder.h"
#include "text/frame.h"
#include "text/model/model.h"
#include "text/normalize/normalizer.h"
#include "text/pretokenize/pre_tokenizer.h"

namespace nibble::text {

/// The tokens with a role.
struct SpecialIds {
  std::optional<std::int32_t> bos;
  std::optional<std::int32_t> eos;
  std::optional<std::int32_t> pad;
  std::optional<std::int32_t> unk;
  std::optional<std::int32_t> sep;
  std::optional<std::int32_t> cls;
  std::optional<std::int32_t> mask;
  std::vector<std::int32_t> ends;  // ascending, no id twice
};

/// What a tokenizer consists of; every loader fills one of these. Text passes from top to bottom,
/// and ids come back through the decoder.
struct TokenizerParts {
  AddedTokens added;
  NormalizerPtr normalizer;       // may be null
  PreTokenizerPtr pre_tokenizer;  // may be null: the text is one word
  WordModelPtr model;
  Frames frames;                              // around texts that are encoded with add_special
  std::optional<std::int64_t> longest_input;  // tokens, with those of the frame
  bool truncates_left = false;                // what is longer loses its beginning
  Decoder decoder{std::vector<DecodeStagePtr>{}};
  SpecialIds special;
  std::string chat_template;

  /// One more than the largest id of the model and of the added tokens.
  std::int64_t vocab_size() const;
  std::optional<std::int32_t> id_of(std::string_view token) const;
  /// What a decoder gets for an id; nullopt if the id has no token.
  std::optional<std::string_view> decoder_input(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
};

}  // namespace nibble::text
