#pragma once

#include <bit>
#include <cstdint>

namespace nibble::ops::cuda {

/// A divisor that the host knows before a kernel runs, for numbers from 0 to 2^31 - 1: a product
/// and a shift in place of the 20 to 30 instructions of a division (Granlund and Montgomery 1994,
/// "Division by invariant integers using multiplication", section 4).
class Divisor {
 public:
  /// `value` > 0.
  constexpr explicit Divisor(int value) : value_(value), shift_(31 + std::bit_width(bits() - 1)) {
    factor_ = static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + bits() - 1) / bits());
  }

  constexpr int value() const { return value_; }
  /// number / value(), rounded down.
  constexpr int quotient(int number) const {
    return static_cast<int>(std::uint64_t{static_cast<std::uint32_t>(number)} * factor_ >> shift_);
  }

 private:
  constexpr std::uint32_t bits() const { return static_cast<std::uint32_t>(value_); }

  int value_;
  int shift_;
  std::uint32_t factor_ = 0;
};

}  // namespace nibble::ops::cuda
