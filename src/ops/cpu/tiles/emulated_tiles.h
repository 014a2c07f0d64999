#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "ops/cpu/tiles/flushed_floats.h"
#include "ops/cpu/tiles/tile_config.h"

/// AMX tile registers in plain C++, for the tests of kernels on machines without them: what
/// Software Developer's Manual, volume 2, says of LDTILECFG, TILELOADD, TDPBSSD, TDPBF16PS. Where
/// the CPU would raise #UD, this throws std::logic_error. It may be compiled for one instruction
/// set.
namespace nibble::ops::cpu {
namespace {

class EmulatedTiles {
 public:
  static bool is_configured() { return state().configured; }

  static void configure(const TileConfig& config) {
    check(config.palette == 1 && config.start_row == 0, "palette");
    std::uint8_t bytes[sizeof(TileConfig)];
    std::memcpy(bytes, &config, sizeof(bytes));
    State& s = state();
    s = {};
    for (int tile = 0; tile < kTiles; ++tile) {
      s.row_bytes[tile] = bytes[16 + 2 * tile] | bytes[17 + 2 * tile] << 8;
      s.rows[tile] = bytes[48 + tile];
      check(s.rows[tile] >= 1 && s.rows[tile] <= kRows, "rows");
      check(s.row_bytes[tile] >= 1 && s.row_bytes[tile] <= kRowBytes, "bytes of a row");
    }
    s.configured = true;
  }
  static void release() { state() = {}; }

  template <int T>
  static void zero() {
    std::memset(configured().data[T], 0, sizeof(State::data[T]));
  }
  template <int T>
  static void load(const void* p, std::int64_t stride) {
    zero<T>();
    State& s = configured();
    for (int row = 0; row < s.rows[T]; ++row) {
      std::memcpy(s.data[T][row], static_cast<const std::uint8_t*>(p) + row * stride,
                  static_cast<std::size_t>(s.row_bytes[T]));
    }
  }
  template <int T>
  static void store(void* p, std::int64_t stride) {
    const State& s = configured();
    for (int row = 0; row < s.rows[T]; ++row) {
      std::memcpy(static_cast<std::uint8_t*>(p) + row * stride, s.data[T][row],
                  static_cast<std::size_t>(s.row_bytes[T]));
    }
  }
  template <int C, int A, int B, bool Signed>
  static void multiply() {
    static_assert(C != A && C != B && A != B);
    State& s = product_of(C, A, B);
    for (int m = 0; m < s.rows[C]; ++m) {
      std::int32_t sums[kRowBytes / 4];
      std::memcpy(sums, s.data[C][m], sizeof(sums));
      for (int k = 0; k < s.rows[B]; ++k) {
        for (int byte = 0; byte < s.row_bytes[B]; ++byte) {
          const auto a = static_cast<std::int8_t>(s.data[A][m][4 * k + byte % 4]);
          const std::uint8_t b = s.data[B][k][byte];
          sums[byte / 4] += a * (Signed ? static_cast<std::int8_t>(b) : b);
        }
      }
      std::memcpy(s.data[C][m], sums, sizeof(sums));
    }
  }
  /// Sums round to nearest even; what is subnormal counts as 0, wherever it comes up.
  template <int C, int A, int B>
  static void multiply_bf16() {
    static_assert(C != A && C != B && A != B);
    State& s = product_of(C, A, B);
    for (int m = 0; m < s.rows[C]; ++m) {
      float sums[kRowBytes / 4];
      std::memcpy(sums, s.data[C][m], sizeof(sums));
      for (int n = 0; n < s.row_bytes[C] / 4; ++n) {
        float of_parity[2] = {};
        for (int k = 0; k < s.rows[B]; ++k) {
          for (int i = 0; i < 2; ++i) {
            const float a = bf16_at(&s.data[A][m][4 * k + 2 * i]);
            const float b = bf16_at(&s.data[B][k][4 * n + 2 * i]);
            of_parity[i] = flushed_multiply_add(a, b, of_parity[i]);
          }
        }
        sums[n] = flushed_sum(sums[n], flushed_sum(of_parity[0], of_parity[1]));
      }
      std::memcpy(s.data[C][m], sums, sizeof(sums));
    }
  }

 private:
  static constexpr int kTiles = 8;
  static constexpr int kRows = 16;
  static constexpr int kRowBytes = 64;

  struct State {
    bool configured = false;
    int rows[kTiles] = {};
    int row_bytes[kTiles] = {};
    std::uint8_t data[kTiles][kRows][kRowBytes] = {};
  };
  static State& state() {
    thread_local State state;
    return state;
  }
  static State& configured() {
    check(state().configured, "tiles without a configuration");
    return state();
  }
  static State& product_of(int c, int a, int b) {
    State& s = configured();
    check(s.rows[c] == s.rows[a] && s.row_bytes[c] == s.row_bytes[b] &&
              s.row_bytes[a] == 4 * s.rows[b],
          "shapes of a product");
    return s;
  }
  static float bf16_at(const std::uint8_t* p) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(p[0] | p[1] << 8) << 16);
  }
  static void check(bool holds, const char* what) {
    if (!holds) {
      throw std::logic_error(what);
    }
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
