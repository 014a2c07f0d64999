#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nibble::formats::exchange {

/// Numbers of 2 to 8 bits in 32-bit words, one after another, LSB first: number i takes bits
/// [i * bits, (i + 1) * bits) of the words taken as one long number, and may straddle two. This is
/// how GPTQ and compressed-tensors pack. Words need not lie side by side: word w is element
/// w * stride. Reads only words that hold a bit of the number.
class WordStream {
 public:
  WordStream(std::span<const std::int32_t> words, std::int64_t stride, int bits)
      : words_(words), stride_(static_cast<std::size_t>(stride)), bits_(bits) {}

  std::uint8_t operator[](std::int64_t index) const {
    const auto bit = static_cast<std::size_t>(index) * static_cast<std::size_t>(bits_);
    const auto shift = static_cast<int>(bit % kWordBits);
    std::uint64_t value = word(bit / kWordBits);
    if (shift + bits_ > kWordBits) {
      value |= std::uint64_t{word(bit / kWordBits + 1)} << kWordBits;
    }
    return static_cast<std::uint8_t>((value >> shift) & ((1u << bits_) - 1));
  }

 private:
  static constexpr int kWordBits = 32;

  std::uint32_t word(std::size_t index) const {
    return static_cast<std::uint32_t>(words_[index * stride_]);
  }

  std::span<const std::int32_t> words_;
  std::size_t stride_;
  int bits_;
};

/// Writes what WordStream reads: number `index` into words that are zero there.
inline void put_number(std::span<std::int32_t> words, std::int64_t stride, int bits,
                       std::int64_t index, std::uint8_t value) {
  constexpr int kWordBits = 32;
  const auto bit = static_cast<std::size_t>(index) * static_cast<std::size_t>(bits);
  const auto shift = static_cast<int>(bit % kWordBits);
  const std::uint64_t shifted = std::uint64_t{value} << shift;
  const auto add = [&](std::size_t word, std::uint64_t part) {
    std::int32_t& target = words[word * static_cast<std::size_t>(stride)];
    target = static_cast<std::int32_t>(static_cast<std::uint32_t>(target) |
                                       static_cast<std::uint32_t>(part));
  };
  add(bit / kWordBits, shifted);
  if (shift + bits > kWordBits) {
    add(bit / kWordBits + 1, shifted >> kWordBits);
  }
}

/// Words that hold `count` numbers.
constexpr std::int64_t words_for(std::int64_t count, int bits) {
  return count / 32 * bits + (count % 32 * bits + 31) / 32;
}

}  // namespace nibble::formats::exchange
