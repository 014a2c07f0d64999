#pragma once

#include <cstdint>

#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"

/// Weights on their way into B tiles (amx_kernel.h): two panels in the L1 cache, of which one is
/// multiplied while the next one is decoded.
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kAmxPanelInputs = 512;

/// Whether weights less their zeros are signed bytes.
inline bool fits_signed(const TiledWeight& w) {
  if (w.zeros_offset != 0) {
    return w.kind == CodeKind::kInteger && w.bits <= 4;
  }
  return w.zero <= 128 && w.largest - w.zero <= 127;
}

/// Decodes `units` units of V tiles from `tile` on, quad after quad: panel [quads][V][64]. Signed:
/// less their zeros.
template <class Isa, class Bytes, int V, bool Signed>
NIBBLE_NOINLINE void unpack_units(const TiledWeight& w, std::int64_t tile, std::int64_t first,
                                  std::int64_t units, std::uint8_t* panel) {
  using Int = typename Isa::Int;
  const Block<Isa, V> block(w, tile);
  const Bytes bytes(w, block);
  const bool halves = w.group_inputs == kHalfUnit;
  Int zero[2][V];  // of the halves of a unit
  for (int v = 0; v < V; ++v) {
    zero[0][v] = zero[1][v] = Isa::broadcast_byte(w.zero);
  }
  const std::int64_t row_bytes = w.groups * w.group_bytes();
  for (std::int64_t unit = first; unit < first + units; ++unit) {
    // Behind the end of a row come the next V tiles.
    const std::int64_t ahead = unit * Bytes::kUnitBytes + kPrefetchBytes;
    const std::int64_t skipped = ahead < row_bytes ? 0 : (V - 1) * w.tile_bytes;
    for (int v = 0; v < V; ++v) {
      prefetch_unit<Bytes::kUnitBytes>(block.at[v].codes + skipped, unit, kPrefetchBytes);
    }
    if (Signed && w.zeros_offset != 0) {
      const std::int64_t group = unit * kUnit / w.group_inputs;
      for (int v = 0; v < V; ++v) {
        const std::uint8_t* at = block.at[v].zeros + group * kTileRows;
        zero[0][v] = Isa::bytes_of_rows(at);
        zero[1][v] = halves ? Isa::bytes_of_rows(at + kTileRows) : zero[0][v];
      }
    }
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairsPerUnit; ++pair, panel += std::int64_t{2} * V * kLineBytes) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        Int even;
        Int odd;
        bytes.load(v, unit, pair, even, odd);
        if constexpr (Signed) {
          even = Isa::subtract_bytes(even, zero[pair / 2][v]);
          odd = Isa::subtract_bytes(odd, zero[pair / 2][v]);
        }
        Isa::store(panel + v * kLineBytes, even);
        Isa::store(panel + (V + v) * kLineBytes, odd);
      }
    }
  }
}

using UnpackUnits = void (*)(const TiledWeight&, std::int64_t tile, std::int64_t first,
                             std::int64_t units, std::uint8_t* panel);

/// The panels of tiles [begin, end), V at a time, each row from its first input on.
template <int V>
class AmxPanels {
 public:
  /// `shares`: in so many parts the next panel is decoded.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): units are decoded before they are taken
  AmxPanels(const TiledWeight& w, UnpackUnits unpack, std::int64_t begin, std::int64_t end,
            std::int64_t shares)
      : w_(w), unpack_(unpack), end_(end), next_{begin} {
    const std::int64_t row = w.groups * w.group_inputs;
    inputs_ = w.group_inputs > kAmxPanelInputs ? kAmxPanelInputs
                                               : kAmxPanelInputs / w.group_inputs * w.group_inputs;
    row_units_ = row / kUnit;
    panel_units_ = inputs_ / kUnit;
    share_ = (panel_units_ + shares - 1) / shares;
  }

  /// Inputs of each panel but a row's last one.
  std::int64_t inputs() const { return inputs_; }

  /// The next panel. It stays until the one behind it is taken.
  const std::uint8_t* take() {
    decode(panel_units_);
    const std::uint8_t* taken = panels_[turn_];
    turn_ ^= 1;
    next_.unit += next_.decoded;
    next_.decoded = 0;
    if (next_.unit >= row_units_) {
      next_ = {next_.tile + V};
    }
    return taken;
  }

  /// Decodes one share of the panel behind the one that was taken.
  void decode_share() { decode(share_); }

 private:
  // What is decoded next: the panel of V tiles that begins with a unit.
  struct Next {
    std::int64_t tile = 0;
    std::int64_t unit = 0;
    std::int64_t decoded = 0;  // units that are there already
  };

  NIBBLE_INLINE void decode(std::int64_t most) {
    const std::int64_t in_row = row_units_ - next_.unit;
    const std::int64_t left = (in_row < panel_units_ ? in_row : panel_units_) - next_.decoded;
    const std::int64_t units = left < most ? left : most;
    if (units <= 0 || next_.tile >= end_) {
      return;
    }
    const std::int64_t first = next_.unit + next_.decoded;
    unpack_(w_, next_.tile, first, units,
            panels_[turn_] + next_.decoded * kUnitQuads * V * kLineBytes);
    next_.decoded += units;
  }

  const TiledWeight& w_;
  UnpackUnits unpack_;
  std::int64_t end_;
  std::int64_t inputs_ = 0;
  std::int64_t row_units_ = 0;
  std::int64_t panel_units_ = 0;
  std::int64_t share_ = 0;
  Next next_;
  int turn_ = 0;
  alignas(64) std::uint8_t panels_[2][kAmxPanelInputs * V * kTileRows];
};

}  // namespace
}  // namespace nibble::ops::cpu
