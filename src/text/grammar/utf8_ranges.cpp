#include "text/grammar/utf8_ranges.h"

#include <algorithm>

namespace nibble::text {
namespace {

constexpr std::uint32_t kFirstSurrogate = 0xd800;
constexpr std::uint32_t kLastSurrogate = 0xdfff;
constexpr std::uint32_t kLastOfLength[] = {0x7f, 0x7ff, 0xffff, kLastCodePoint};

// Bytes of a code point that takes `length` of them.
std::vector<std::uint8_t> encoded(std::uint32_t point, int length) {
  constexpr std::uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(length));
  for (int i = length - 1; i > 0; --i) {
    bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(0x80 | (point & 0x3f));
    point >>= 6;
  }
  bytes[0] = static_cast<std::uint8_t>(kLead[length] | point);
  return bytes;
}

// All code points of [low, high] have `length` bytes.
void add(std::uint32_t low, std::uint32_t high, int length, std::vector<Utf8Sequence>& out) {
  for (int i = 1; i < length; ++i) {
    const std::uint32_t mask = (1u << (6 * i)) - 1;  // of the last i bytes
    if ((low & ~mask) == (high & ~mask)) {
      continue;
    }
    if ((low & mask) != 0) {
      add(low, low | mask, length, out);
      add((low | mask) + 1, high, length, out);
      return;
    }
    if ((high & mask) != mask) {
      add(low, (high & ~mask) - 1, length, out);
      add(high & ~mask, high, length, out);
      return;
    }
  }
  const auto first = encoded(low, length);
  const auto last = encoded(high, length);
  Utf8Sequence sequence;
  for (std::size_t i = 0; i < first.size(); ++i) {
    sequence.push_back({first[i], last[i]});
  }
  out.push_back(std::move(sequence));
}

}  // namespace

std::vector<Utf8Sequence> utf8_sequences(CodePointRange range) {
  std::vector<Utf8Sequence> sequences;
  std::uint32_t first = 0;
  for (int length = 1; length <= 4; ++length) {
    const std::uint32_t last = kLastOfLength[length - 1];
    const auto take = [&](std::uint32_t low, std::uint32_t high) {
      low = std::max(low, range.low);
      high = std::min(high, range.high);
      if (low <= high) {
        add(low, high, length, sequences);
      }
    };
    if (length == 3) {
      take(first, kFirstSurrogate - 1);
      take(kLastSurrogate + 1, last);
    } else {
      take(first, last);
    }
    first = last + 1;
  }
  return sequences;
}

}  // namespace nibble::text
