#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>

#include "scaling/scaling_case.h"

namespace nibble::scaling {

std::string repeated(std::string_view unit, std::size_t bytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) {
    text += unit;
  }
  return text;
}

std::string different_words(std::size_t bytes, std::string_view separator) {
  std::string text;
  text.reserve(bytes + 16);
  for (std::size_t number = 0; text.size() < bytes; ++number) {
    for (std::size_t rest = number + 26; rest > 0; rest /= 26) {
      text += static_cast<char>('a' + rest % 26);
    }
    text += separator;
  }
  return text;
}

namespace {

// MurmurHash64A, the std::hash of libstdc++, mixes each word like this.
constexpr std::uint64_t kMix = 0xc6a4a7935bd1e995;

std::uint64_t inverse_of_mix() {
  std::uint64_t inverse = kMix;  // Newton's iteration modulo 2^64
  for (int i = 0; i < 6; ++i) {
    inverse *= 2 - kMix * inverse;
  }
  return inverse;
}

std::uint64_t mixed(std::uint64_t word) {
  word *= kMix;
  word ^= word >> 47;
  return word * kMix;
}

std::uint64_t unmixed(std::uint64_t word, std::uint64_t inverse) {
  word *= inverse;
  word ^= word >> 47;
  return word * inverse;
}

bool is_plain(std::uint64_t word) {
  for (int shift = 0; shift < 64; shift += 8) {
    const std::uint64_t byte = word >> shift & 0xff;
    if (byte <= 0x20 || byte >= 0x7f || byte == '"' || byte == '\\') {
      return false;
    }
  }
  return true;
}

// "abcdefgh" counted up.
std::uint64_t letters_of(std::uint64_t number) {
  std::uint64_t word = 0;
  for (int shift = 0; shift < 64; shift += 8, number /= 26) {
    word |= ('a' + number % 26) << shift;
  }
  return word;
}

}  // namespace

// For each first word the second one is chosen such that the state behind it is always the same.
// They are found one in some thousands, so what was found is kept.
std::vector<std::string> texts_of_one_hash(std::size_t count) {
  static_assert(std::endian::native == std::endian::little);
  static const std::uint64_t inverse = inverse_of_mix();
  constexpr std::uint64_t kSeed = 0xc70f6907;
  constexpr std::uint64_t kState = 0x6e6962626c65;  // any
  constexpr std::uint64_t kBegin = kSeed ^ 16 * kMix;
  static std::uint64_t number = 0;
  static std::vector<std::string> texts;
  for (; texts.size() < count; ++number) {
    const std::uint64_t first = letters_of(number);
    const std::uint64_t behind_first = (kBegin ^ mixed(first)) * kMix;
    const std::uint64_t second = unmixed(behind_first ^ kState, inverse);
    if (is_plain(second)) {
      std::string& text = texts.emplace_back(16, '\0');
      std::memcpy(text.data(), &first, 8);
      std::memcpy(text.data() + 8, &second, 8);
    }
  }
  return {texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace nibble::scaling
