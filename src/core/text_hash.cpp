#include "core/text_hash.h"

#include <bit>
#include <cstring>
#include <random>

namespace nibble::core {
namespace {

static_assert(std::endian::native == std::endian::little, "SipHash reads little-endian words");

constexpr std::size_t kWord = sizeof(std::uint64_t);

struct Key {
  std::uint64_t low;
  std::uint64_t high;
};

Key random_key() {
  std::random_device random;
  const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
  const std::uint64_t low = word();
  return {low, word()};
}

struct SipState {
  std::uint64_t a, b, c, d;

  void round() {
    a += b;
    c += d;
    b = std::rotl(b, 13) ^ a;
    d = std::rotl(d, 16) ^ c;
    a = std::rotl(a, 32);
    c += b;
    a += d;
    b = std::rotl(b, 17) ^ c;
    d = std::rotl(d, 21) ^ a;
    c = std::rotl(c, 32);
  }

  void add(std::uint64_t word) {
    d ^= word;
    round();
    a ^= word;
  }
};

}  // namespace

std::uint64_t siphash13(std::string_view text, std::uint64_t key_low, std::uint64_t key_high) {
  SipState state = {key_low ^ 0x736f6d6570736575, key_high ^ 0x646f72616e646f6d,
                    key_low ^ 0x6c7967656e657261, key_high ^ 0x7465646279746573};
  const std::uint64_t length = text.size();
  for (; text.size() >= kWord; text.remove_prefix(kWord)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), kWord);
    state.add(word);
  }
  std::uint64_t last = 0;
  if (!text.empty()) {
    std::memcpy(&last, text.data(), text.size());
  }
  state.add(last | length << 56);
  state.c ^= 0xff;
  state.round();
  state.round();
  state.round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

std::size_t TextHash::operator()(std::string_view text) const {
  static const Key key = random_key();
  return siphash13(text, key.low, key.high);
}

}  // namespace nibble::core
