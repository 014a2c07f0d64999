#pragma once

#include <cstdint>

#include "ops/cpu/packed/tile_layout.h"

/// Shapes of AMX tile registers, for amx_kernel.h and for the limit of the machine.
///
/// `Tiles` is the hardware, or what stands in for it in tests:
///   configure(config), release()
///   zero<T>(), load<T>(p, stride), store<T>(p, stride)
///   multiply<C, A, B, Signed>()     C += A B; bytes of A are signed, those of B as told
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kAmxTokens = 16;  // rows of an A tile
constexpr std::int64_t kAmxInputs = 64;  // bytes of its rows, at most
constexpr int kAmxFirstA = 4;            // tiles 0..3 are C
constexpr int kAmxFirstB = 6;

/// The shapes of all tiles, as LDTILECFG reads them.
struct alignas(64) AmxConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(AmxConfig) == 64);

/// C tiles 2 t + v, A tiles t and B tiles v, for steps of `inputs` inputs.
inline AmxConfig amx_config(std::int64_t inputs) {
  AmxConfig config;
  const auto set = [&](int tile, std::int64_t rows, std::int64_t row_bytes) {
    config.rows[tile] = static_cast<std::uint8_t>(rows);
    config.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
  };
  for (int i = 0; i < 2; ++i) {
    set(2 * i, kAmxTokens, kLineBytes);
    set(2 * i + 1, kAmxTokens, kLineBytes);
    set(kAmxFirstA + i, kAmxTokens, inputs);
    set(kAmxFirstB + i, inputs / kQuad, kLineBytes);
  }
  return config;
}

/// Inputs that tiles take at once from groups of `inputs`, padded.
constexpr std::int64_t amx_step(std::int64_t inputs) {
  return inputs % kAmxInputs == 0 ? kAmxInputs : inputs % kUnit == 0 ? kUnit : kHalfUnit;
}

/// Tile registers are configured while this lives: no other code of the thread meets them.
template <class Tiles>
class AmxScope {
 public:
  explicit AmxScope(std::int64_t inputs) { Tiles::configure(amx_config(inputs)); }
  ~AmxScope() { Tiles::release(); }
  AmxScope(const AmxScope&) = delete;
  AmxScope& operator=(const AmxScope&) = delete;
};

}  // namespace
}  // namespace nibble::ops::cpu
