#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nibble::text {

/// The tokenizer of a GGUF file: its `tokenizer.ggml.*` keys, unchanged. Everything in it is
/// checked by Tokenizer::from_vocabulary; a key that the file lacks stays empty.
struct Vocabulary {
  std::string model;                // "llama", "gpt2", "bert" or "t5"
  std::string pre;                  // how "gpt2" text is cut into words, e.g. "llama-bpe"
  std::vector<std::string> tokens;  // by id
  std::vector<float> scores;        // by id; "llama" and "t5"
  std::vector<std::int32_t>
      token_types;  // by id: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<std::string> merges;   // "left right" by rank; "gpt2"
  std::string precompiled_charsmap;  // "t5"

  // UINT32_MAX means none, as in files of llama.cpp.
  std::optional<std::uint64_t> bos_id;      // bos_token_id
  std::optional<std::uint64_t> eos_id;      // eos_token_id
  std::optional<std::uint64_t> eot_id;      // eot_token_id
  std::optional<std::uint64_t> eom_id;      // eom_token_id
  std::optional<std::uint64_t> unknown_id;  // unknown_token_id
  std::optional<std::uint64_t> pad_id;      // padding_token_id
  std::optional<std::uint64_t> sep_id;      // seperator_token_id (so spelled)
  std::optional<std::uint64_t> cls_id;      // cls_token_id
  std::optional<std::uint64_t> mask_id;     // mask_token_id

  std::optional<bool> add_bos;                   // add_bos_token
  std::optional<bool> add_eos;                   // add_eos_token
  std::optional<bool> add_space_prefix;          // add_space_prefix
  std::optional<bool> remove_extra_whitespaces;  // remove_extra_whitespaces
  std::string chat_template;                     // tokenizer.chat_template
};

}  // namespace nibble::text
