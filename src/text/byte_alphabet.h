#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nibble::text {

/// GPT-2's reversible alphabet (openai/gpt-2, encoder.py, bytes_to_unicode): each of the 256 bytes
/// is one visible character. The printable ones of Latin-1 stand for themselves; the 68 others, in
/// order, are U+0100, U+0101, ... So ' ' is U+0120 and line feed U+010A.

/// Appends the character of each byte, as UTF-8.
void append_byte_alphabet(std::string& out, std::string_view bytes);

/// The bytes that `characters` (valid UTF-8) stand for; nullopt if one is not of the alphabet.
std::optional<std::string> bytes_from_alphabet(std::string_view characters);

}  // namespace nibble::text
