#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "characters/utf8.h"

namespace nibble::text {
namespace {

constexpr std::size_t kLargest = 0x143;  // the last of the 68 characters from U+0100 on

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
         (byte >= 0xae && byte <= 0xff);
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, kLargest + 1> byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.character[static_cast<std::size_t>(byte)] = character;
    alphabet.byte[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

void append_byte_alphabet(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) {
    characters::append_utf8(out, kAlphabet.character[static_cast<unsigned char>(byte)]);
  }
}

std::optional<std::string> bytes_from_alphabet(std::string_view characters) {
  std::string bytes;
  bytes.reserve(characters.size());
  for (std::size_t at = 0; at < characters.size();) {
    const characters::CodePoint c = characters::decode_utf8(characters, at);
    if (c.value > kLargest || kAlphabet.byte[c.value] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kAlphabet.byte[c.value]));
    at += c.bytes;
  }
  return bytes;
}

}  // namespace nibble::text
