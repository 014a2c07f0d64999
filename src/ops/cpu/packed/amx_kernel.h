#pragma once

#include <cstdint>

#include "ops/cpu/packed/amx_tiles.h"
#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"

/// Many tokens by AMX: tile registers of 16 rows x 64 bytes (Intel 64 and IA-32 Architectures
/// Software Developer's Manual, volume 1, chapter 18). A line of the layout is one row of a B tile.
///
///   A   [16 tokens] x [K codes]                 signed activations, as they lie in memory
///   B   [K / 4 quads] x [16 rows x 4 codes]     weights, decoded into a panel
///   C   [16 tokens] x [16 rows]                 32-bit sums of one group
///
/// K is 64, or 32 where a group has an odd number of units, or 16 where it is half a unit.
///
/// The codes of a block of tokens stay in the L2 cache while tiles of weights pass, two at a time.
/// kAmxPanelInputs inputs of these are decoded into the L1 cache for all tokens of the block, less
/// their zeros where that fits in a signed byte. Then 2 x 16 tokens and 2 x 16 rows make the sums
/// of a group in C tiles. Before these are stored, vectors scale and add the sums of the group
/// before it, so that no load waits for a store to the same line of a page:
///
///   tiles     multiply 1  |           |  store 1  |  multiply 2  |           |  store 2
///   vectors               |  scale 0  |           |              |  scale 1  |
///
/// `Isa` gives vectors of 16 rows (lanes512.h).
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kAmxPanelInputs = 512;
constexpr std::int64_t kAmxBlockTokens = 512;        // tokens of a block, at most
constexpr std::int64_t kAmxBlockBytes = 1280 << 10;  // of their codes, about
static_assert(kAmxTokens == kTokenRows);

/// Whether weights less their zeros are signed bytes.
inline bool fits_signed(const TiledWeight& w) {
  if (w.zeros_offset != 0) {
    return w.kind == CodeKind::kInteger && w.bits <= 4;
  }
  return w.zero <= 128 && w.largest - w.zero <= 127;
}

/// Weights of `groups` groups from `first` on, quad after quad: panel [quads][V][64].
template <class Isa, class Bytes, int V, bool Signed>
NIBBLE_NOINLINE void unpack_panel(const TiledWeight& w, const Block<Isa, V>& block,
                                  const Bytes& bytes, std::int64_t first, std::int64_t groups,
                                  std::uint8_t* panel) {
  using Int = typename Isa::Int;
  const bool halves = w.group_inputs == kHalfUnit;
  const std::int64_t units = halves ? 1 : w.units_per_group();
  Int zero[2][V];  // of the halves of a unit
  for (int v = 0; v < V; ++v) {
    zero[0][v] = zero[1][v] = Isa::broadcast_byte(w.zero);
  }
  std::int64_t unit = first * w.group_inputs / kUnit;
  for (std::int64_t g = first; g < first + groups; g += halves ? 2 : 1) {
    if (Signed && w.zeros_offset != 0) {
      for (int v = 0; v < V; ++v) {
        zero[0][v] = Isa::bytes_of_rows(block.at[v].zeros + g * kTileRows);
        zero[1][v] =
            halves ? Isa::bytes_of_rows(block.at[v].zeros + (g + 1) * kTileRows) : zero[0][v];
      }
    }
    for (std::int64_t u = 0; u < units; ++u, ++unit) {
      for (int v = 0; v < V; ++v) {
        prefetch_unit<Bytes::kUnitBytes>(block.at[v].codes, unit, kPrefetchBytes);
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
}

/// Sums of one group that wait to be scaled: of `tokens` tokens from `token` on.
template <int V>
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): tiles store the sums before they wait
struct WaitingSums {
  alignas(64) std::int32_t sums[2 * kAmxTokens * V * kTileRows];  // [tokens][V * 16 rows]
  float* totals = nullptr;                                        // [tokens][V * 16 rows]
  std::int64_t token = 0;
  std::int64_t tokens = 0;
  std::int64_t group = 0;
};

template <class Isa, int V, bool Signed>
NIBBLE_INLINE void add_scaled_group(const TiledWeight& w, const Block<Isa, V>& block,
                                    const TiledInput& x, const WaitingSums<V>& waiting) {
  constexpr std::int64_t kRow = V * kTileRows;
  typename Isa::Float scale[V];
  typename Isa::Int zero[V];
  for (int v = 0; v < V; ++v) {
    const std::int64_t at = waiting.group * kTileRows;
    scale[v] = Isa::load_scales(block.at[v].scales + at);
    if constexpr (!Signed) {
      zero[v] = block.at[v].zeros == nullptr ? Isa::negative_zero(w.zero)
                                             : Isa::negative_zeros(block.at[v].zeros + at);
    }
  }
  const std::int64_t groups = x.groups;
  const float* a_scales = x.scales + waiting.token * groups + waiting.group;
  const std::int32_t* a_sums = x.sums + waiting.token * groups + waiting.group;
  const std::int32_t* sums = waiting.sums;
  float* totals = waiting.totals;
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < waiting.tokens; ++i) {
    const typename Isa::Float a_scale = Isa::broadcast(*a_scales);
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      typename Isa::Int sum = Isa::load(sums + v * kTileRows);
      if constexpr (!Signed) {
        sum = Isa::add(sum, Isa::multiply_zero(zero[v], Isa::broadcast(*a_sums)));
      }
      Isa::store(totals + v * kTileRows, Isa::fma(Isa::to_float(sum), Isa::mul(scale[v], a_scale),
                                                  Isa::load_floats(totals + v * kTileRows)));
    }
    a_scales += groups;
    a_sums += groups;
    sums += kRow;
    totals += kRow;
  }
}

/// The same for weights in blocks.
template <class Isa, int V, bool Signed>
NIBBLE_NOINLINE void add_scaled_block(const TiledWeight& w, const Block<Isa, V>& block,
                                      const TiledInput& x, const WaitingSums<V>& waiting) {
  constexpr std::int64_t kRow = V * kTileRows;
  for (std::int64_t i = 0; i < waiting.tokens; ++i) {
    const Tokens at = tokens_at(x, waiting.token + i, 0, w.group_inputs);
    typename Isa::Int sums[V][1];
    typename Isa::Float total[V][1];
    for (int v = 0; v < V; ++v) {
      sums[v][0] = Isa::load(waiting.sums + i * kRow + v * kTileRows);
      total[v][0] = Isa::load_floats(waiting.totals + i * kRow + v * kTileRows);
    }
    if constexpr (!Signed) {
      add_block_zeros<Isa, V, 1>(w, block, at, waiting.group, sums);
    }
    add_block_scaled<Isa, V, 1>(w, block, at, waiting.group, sums, total);
    for (int v = 0; v < V; ++v) {
      Isa::store(waiting.totals + i * kRow + v * kTileRows, total[v][0]);
    }
  }
}

template <class Isa, int V, bool Signed>
NIBBLE_INLINE void add_waiting(const TiledWeight& w, const Block<Isa, V>& block,
                               const TiledInput& x, const WaitingSums<V>& waiting) {
  if (w.in_blocks()) {
    add_scaled_block<Isa, V, Signed>(w, block, x, waiting);
  } else {
    add_scaled_group<Isa, V, Signed>(w, block, x, waiting);
  }
}

/// C += A B for T x V tiles and one step.
template <class Tiles, int V, int T, bool Signed>
NIBBLE_INLINE void multiply_step(const std::uint8_t* quads, const std::int8_t* a,
                                 std::int64_t stride) {
  constexpr std::int64_t kPanelStride = V * kLineBytes;
  constexpr int kSecond = kAmxFirstA + 1;  // the second tile of A, and of B
  constexpr int kRight = kAmxFirstB + 1;
  Tiles::template load<kAmxFirstB>(quads, kPanelStride);
  Tiles::template load<kAmxFirstA>(a, stride);
  Tiles::template multiply<0, kAmxFirstA, kAmxFirstB, Signed>();
  if constexpr (V == 2) {
    Tiles::template load<kRight>(quads + kLineBytes, kPanelStride);
    Tiles::template multiply<1, kAmxFirstA, kRight, Signed>();
  }
  if constexpr (T == 2) {
    Tiles::template load<kSecond>(a + kAmxTokens * stride, stride);
    Tiles::template multiply<2, kSecond, kAmxFirstB, Signed>();
  }
  if constexpr (V == 2 && T == 2) {
    Tiles::template multiply<3, kSecond, kRight, Signed>();
  }
}

/// sums [2 * 16 tokens][V * 16 rows] = T x V C tiles.
template <class Tiles, int V, int T>
NIBBLE_INLINE void store_sums(std::int32_t* sums) {
  std::int32_t* second = sums + kAmxTokens * V * kTileRows;
  Tiles::template store<0>(sums, V * kLineBytes);
  if constexpr (V == 2) {
    Tiles::template store<1>(sums + kTileRows, V * kLineBytes);
  }
  if constexpr (T == 2) {
    Tiles::template store<2>(second, V * kLineBytes);
  }
  if constexpr (V == 2 && T == 2) {
    Tiles::template store<3>(second + kTileRows, V * kLineBytes);
  }
}

/// Groups [first, first + count), whose weights are in the panel, of T x 16 tokens from `token` on,
/// of which the first `tokens` exist. While tiles multiply, vectors scale the sums that wait; the
/// new ones take their place, and the last of them wait in turn.
template <class Tiles, class Isa, int V, int T, bool Signed>
NIBBLE_NOINLINE void add_panel(const TiledWeight& w, const Block<Isa, V>& block,
                               const std::uint8_t* panel, const TiledInput& x, std::int64_t token,
                               std::int64_t tokens, std::int64_t first, std::int64_t count,
                               float* totals, WaitingSums<V>& waiting) {
  const std::int64_t inputs = w.group_inputs;
  const std::int64_t step = amx_step(inputs);
  const std::int64_t stride = x.row_stride;
  const std::int8_t* a = x.codes + token * stride + first * inputs;
  for (std::int64_t g = 0; g < count; ++g) {
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    Tiles::template zero<2>();
    Tiles::template zero<3>();
    for (std::int64_t input = 0; input < inputs; input += step) {
      multiply_step<Tiles, V, T, Signed>(panel, a, stride);
      panel += step / kQuad * V * kLineBytes;
      a += step;
    }
    add_waiting<Isa, V, Signed>(w, block, x, waiting);
    store_sums<Tiles, V, T>(waiting.sums);
    waiting.totals = totals;
    waiting.token = token;
    waiting.tokens = tokens;
    waiting.group = first + g;
  }
}

/// Tokens [begin, begin + count) of V tiles, count <= kAmxBlockTokens.
template <class Tiles, class Isa, class Bytes, int V, bool Signed>
NIBBLE_NOINLINE void run_amx_block(const TiledWeight& w, const TiledInput& x, std::int64_t begin,
                                   std::int64_t count, std::int64_t tile, float* y,
                                   std::int64_t ldy) {
  constexpr std::int64_t kRow = V * kTileRows;
  alignas(64) std::uint8_t panel[kAmxPanelInputs * kRow];
  alignas(64) float totals[kAmxBlockTokens * kRow];
  WaitingSums<V> waiting;
  for (std::int64_t i = 0; i < count * kRow; ++i) {
    totals[i] = 0.0f;
  }
  const Block<Isa, V> block(w, tile);
  const Bytes bytes(w, block);
  const std::int64_t groups_per_panel = kAmxPanelInputs / w.group_inputs;
  for (std::int64_t g = 0; g < w.groups; g += groups_per_panel) {
    const std::int64_t groups = w.groups - g < groups_per_panel ? w.groups - g : groups_per_panel;
    unpack_panel<Isa, Bytes, V, Signed>(w, block, bytes, g, groups, panel);
    for (std::int64_t i = 0; i < count; i += 2 * kAmxTokens) {
      const std::int64_t left = count - i;
      if (left > kAmxTokens) {
        const std::int64_t tokens = left < 2 * kAmxTokens ? left : 2 * kAmxTokens;
        add_panel<Tiles, Isa, V, 2, Signed>(w, block, panel, x, begin + i, tokens, g, groups,
                                            totals + i * kRow, waiting);
      } else {
        add_panel<Tiles, Isa, V, 1, Signed>(w, block, panel, x, begin + i, left, g, groups,
                                            totals + i * kRow, waiting);
      }
    }
  }
  add_waiting<Isa, V, Signed>(w, block, x, waiting);
  for (std::int64_t i = 0; i < count; ++i) {
    for (int v = 0; v < V; ++v) {
      const std::int64_t row = (tile + v) * kTileRows;
      store<Isa>(Isa::load_floats(totals + i * kRow + v * kTileRows), block.at[v].units, w.n - row,
                 y + (begin + i) * ldy + row);
    }
  }
}

/// Tokens of a block: even blocks, multiples of what two A tiles hold.
inline std::int64_t amx_block_tokens(std::int64_t tokens, std::int64_t row_bytes) {
  constexpr std::int64_t kStep = 2 * kAmxTokens;
  const std::int64_t fit = kAmxBlockBytes / row_bytes / kStep * kStep;
  const std::int64_t most = fit < kStep ? kStep : fit < kAmxBlockTokens ? fit : kAmxBlockTokens;
  return (even_step(tokens, most) + kStep - 1) / kStep * kStep;
}

template <class Tiles, class Isa, class Codes, bool Signed>
void run_amx_all(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
                 float* y, std::int64_t ldy) {
  using One = typename Codes::template Source<Isa, 1>;
  using Two = typename Codes::template Source<Isa, 2>;
  const std::int64_t most = amx_block_tokens(x.m, x.row_stride);
  for (std::int64_t token = 0; token < x.m; token += most) {
    const std::int64_t count = x.m - token < most ? x.m - token : most;
    std::int64_t tile = begin;
    for (; tile + 2 <= end; tile += 2) {
      run_amx_block<Tiles, Isa, Two, 2, Signed>(w, x, token, count, tile, y, ldy);
    }
    if (tile < end) {
      run_amx_block<Tiles, Isa, One, 1, Signed>(w, x, token, count, tile, y, ldy);
    }
  }
}

/// Tiles [begin, end) of all tokens, any number of them; as Variant::run.
template <class Tiles, class Isa>
void run_amx(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
             float* y, std::int64_t ldy) {
  const AmxScope<Tiles> scope(amx_step(w.group_inputs));
  with_codes(w, [&](auto codes) {
    if (fits_signed(w)) {
      run_amx_all<Tiles, Isa, decltype(codes), true>(w, x, begin, end, y, ldy);
    } else {
      run_amx_all<Tiles, Isa, decltype(codes), false>(w, x, begin, end, y, ldy);
    }
  });
}

}  // namespace
}  // namespace nibble::ops::cpu
