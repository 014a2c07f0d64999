#pragma once

#include <cstdint>

#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/tiles/tile_config.h"

/// Shapes of the tile registers of amx_kernel.h, and of the limit of the machine.
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kAmxTokens = kTileRegisterRows;   // rows of an A tile
constexpr std::int64_t kAmxInputs = kTileRegisterBytes;  // bytes of its rows, at most
constexpr int kAmxFirstA = 4;                            // tiles 0..3 are C
constexpr int kAmxFirstB = 6;

/// C tiles 2 t + v, A tiles t and B tiles v, for steps of `inputs` inputs.
inline TileConfig amx_config(std::int64_t inputs) {
  TileConfig config;
  for (int i = 0; i < 2; ++i) {
    config.set(2 * i, kAmxTokens, kLineBytes);
    config.set(2 * i + 1, kAmxTokens, kLineBytes);
    config.set(kAmxFirstA + i, kAmxTokens, inputs);
    config.set(kAmxFirstB + i, inputs / kQuad, kLineBytes);
  }
  return config;
}

/// Inputs that tiles take at once from groups of `inputs`, padded.
constexpr std::int64_t amx_step(std::int64_t inputs) {
  return inputs % kAmxInputs == 0 ? kAmxInputs : inputs % kUnit == 0 ? kUnit : kHalfUnit;
}

}  // namespace
}  // namespace nibble::ops::cpu
