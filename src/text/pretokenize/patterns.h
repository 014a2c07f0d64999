#pragma once

#include <span>
#include <string_view>

namespace nibble::text {

/// openai/gpt-2, encoder.py.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Llama 3 and cl100k: numbers in groups of up to three digits.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Qwen 2: as Llama 3, with each digit on its own.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// What a value of GGUF's `tokenizer.ggml.pre` stands for: how text is cut before byte-level
/// merges.
struct NamedSplit {
  std::string_view name;
  std::span<const std::string_view>
      patterns;                // each cuts what the ones before it left, isolating its matches
  bool ignore_merges = false;  // a word that is a token is that token
  bool adds_bos = false;       // unless tokenizer.ggml.add_bos_token says otherwise
  bool nfc = false;            // the model's own tokenizer normalizes to NFC first
};

/// nullptr for a name that is not known.
const NamedSplit* find_named_split(std::string_view name);

}  // namespace nibble::text
