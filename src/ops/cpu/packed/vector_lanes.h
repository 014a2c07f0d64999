#pragma once

#include <cstdint>

#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"

/// What the vectors of every instruction set do alike, written with the compiler's own operators:
/// lanes256.h, lanes512.h and lanes128.h add what takes an instruction of its own.
namespace nibble::ops::cpu {
namespace {

/// `Registers` names the types: Int, integers of any width, and Float, as many bytes of floats.
template <class Registers>
struct VectorLanes {
  using Int = typename Registers::Int;
  using Float = typename Registers::Float;
  static constexpr int kLanes = sizeof(Int) / kQuad;
  static constexpr bool kLowers = false;  // whether negative_zero(0) is another number than 0

  static NIBBLE_INLINE Int broadcast(std::int32_t v) {
    return reinterpret_cast<Int>(Words{} + static_cast<std::uint32_t>(v));
  }
  /// 0 to 255, in each byte.
  static NIBBLE_INLINE Int broadcast_byte(int value) {
    return reinterpret_cast<Int>(in_each_byte(static_cast<std::uint32_t>(value)));
  }
  /// Four activation codes for all rows.
  static NIBBLE_INLINE Int broadcast_quad(const std::int8_t* p) {
    std::int32_t quad = 0;
    __builtin_memcpy(&quad, p, sizeof(quad));
    return broadcast(quad);
  }
  static NIBBLE_INLINE Int add(Int a, Int b) {
    return reinterpret_cast<Int>(reinterpret_cast<Words>(a) + reinterpret_cast<Words>(b));
  }
  /// 32-bit numbers times 2^16.
  static NIBBLE_INLINE Int shift_up(Int v) {
    return reinterpret_cast<Int>(reinterpret_cast<Words>(v) << 16);
  }
  static NIBBLE_INLINE Int bit_or(Int a, Int b) {
    return reinterpret_cast<Int>(reinterpret_cast<Words>(a) | reinterpret_cast<Words>(b));
  }
  static NIBBLE_INLINE Int bit_xor(Int a, Int b) {
    return reinterpret_cast<Int>(reinterpret_cast<Words>(a) ^ reinterpret_cast<Words>(b));
  }
  /// The `width` bits of each byte from bit `first` on.
  static NIBBLE_INLINE Int field(Int v, int first, int width) {
    return reinterpret_cast<Int>(reinterpret_cast<Words>(v) >> first &
                                 in_each_byte((1u << width) - 1));
  }
  /// The highest two bits of each byte of `low`, and bit `bit` of `high` above them.
  static NIBBLE_INLINE Int join(Int low, Int high, int bit) {
    return reinterpret_cast<Int>((reinterpret_cast<Words>(low) >> 6 & in_each_byte(3)) |
                                 (reinterpret_cast<Words>(high) >> (bit - 2) & in_each_byte(4)));
  }

  static NIBBLE_INLINE Float zero() { return Float{}; }
  static NIBBLE_INLINE Float broadcast(float v) { return v - Float{}; }
  static NIBBLE_INLINE Float to_float(Int v) {
    return __builtin_convertvector(reinterpret_cast<SignedWords>(v), Float);
  }
  static NIBBLE_INLINE Float mul(Float a, Float b) { return a * b; }
  /// a + p [kLanes], which may lie anywhere.
  static NIBBLE_INLINE Float add_floats(Float a, const float* p) {
    Float b;
    __builtin_memcpy(&b, p, sizeof(b));
    return a + b;
  }

 private:
  using Words [[gnu::vector_size(sizeof(Int))]] = std::uint32_t;
  using SignedWords [[gnu::vector_size(sizeof(Int))]] = std::int32_t;

  static NIBBLE_INLINE Words in_each_byte(std::uint32_t value) {
    return Words{} + value * 0x01010101u;
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
