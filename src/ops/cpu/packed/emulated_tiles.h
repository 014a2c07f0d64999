#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "ops/cpu/packed/amx_kernel.h"

/// AMX tile registers in plain C++, for the tests of amx_kernel.h on machines without them. Where
/// the CPU would raise #UD (Software Developer's Manual, volume 2: LDTILECFG, TILELOADD, TDPBSSD),
/// this throws std::logic_error.
namespace nibble::ops::cpu {
namespace {

class EmulatedTiles {
 public:
  static bool is_configured() { return state().configured; }

  static void configure(const AmxConfig& config) {
    check(config.palette == 1 && config.start_row == 0, "palette");
    std::uint8_t bytes[sizeof(AmxConfig)];
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
    State& s = configured();
    check(s.rows[C] == s.rows[A] && s.row_bytes[C] == s.row_bytes[B] &&
              s.row_bytes[A] == 4 * s.rows[B],
          "shapes of a product");
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
  static void check(bool holds, const char* what) {
    if (!holds) {
      throw std::logic_error(what);
    }
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
