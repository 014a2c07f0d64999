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
/// kPanelInputs inputs of these are decoded into the L1 cache for all tokens of the block, less
/// their zeros where that fits in a signed byte. Then 2 x 16 tokens and 2 x 16 rows make the sums
/// of a few groups in C tiles and store them. Vectors scale and add them while tiles multiply the
/// next groups:
///
///   tiles     sums of groups 0, 1  |  sums of groups 2, 3  |  ...
///   vectors                        |  scale groups 0, 1    |  scale groups 2, 3
///
/// `Isa` gives vectors of 16 rows (lanes512.h).
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kAmxBlockTokens = 256;        // tokens of a block, at most
constexpr std::int64_t kAmxBlockBytes = 1280 << 10;  // of their codes, about
constexpr std::int64_t kAmxGroups = 2;               // groups that are scaled together
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
    zero[0][v] = zero[1][v] = Isa::broadcast(w.zero * 0x01010101);
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

/// Sums of at most kAmxGroups groups that wait to be scaled.
struct WaitingSums {
  const std::int32_t* sums = nullptr;  // [groups][2 * 16 tokens][V * 16 rows]
  float* totals = nullptr;             // [tokens][V * 16 rows]
  std::int64_t token = 0;
  std::int64_t tokens = 0;
  std::int64_t group = 0;
  std::int64_t groups = 0;
};

template <int V>
constexpr std::int64_t kAmxGroupSums = 2 * kAmxTokens* V* kTileRows;

/// Adds N groups to the totals of the tokens [from, to).
template <class Isa, int V, bool Signed, int N>
NIBBLE_INLINE void add_scaled_groups(const TiledWeight& w, const Block<Isa, V>& block,
                                     const TiledInput& x, const WaitingSums& waiting,
                                     std::int64_t from, std::int64_t to) {
  constexpr std::int64_t kRow = V * kTileRows;
  typename Isa::Float scale[N][V];
  typename Isa::Int zero[N][V];
  for (int n = 0; n < N; ++n) {
    for (int v = 0; v < V; ++v) {
      const std::int64_t at = (waiting.group + n) * kTileRows;
      scale[n][v] = Isa::load_scales(block.at[v].scales + at);
      if constexpr (!Signed) {
        zero[n][v] = block.at[v].zeros == nullptr ? Isa::negative_zero(w.zero)
                                                  : Isa::negative_zeros(block.at[v].zeros + at);
      }
    }
  }
  const std::int64_t groups = x.groups;
  const float* a_scales = x.scales + (waiting.token + from) * groups + waiting.group;
  const std::int32_t* a_sums = x.sums + (waiting.token + from) * groups + waiting.group;
  const std::int32_t* sums = waiting.sums + from * kRow;
  float* totals = waiting.totals + from * kRow;
#pragma GCC unroll 4
  for (std::int64_t i = from; i < to; ++i) {
    typename Isa::Float total[V];
    for (int v = 0; v < V; ++v) {
      total[v] = Isa::load_floats(totals + v * kTileRows);
    }
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) {
      const typename Isa::Float a_scale = Isa::broadcast(a_scales[n]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        typename Isa::Int sum = Isa::load(sums + n * kAmxGroupSums<V> + v * kTileRows);
        if constexpr (!Signed) {
          sum = Isa::add(sum, Isa::multiply_zero(zero[n][v], Isa::broadcast(a_sums[n])));
        }
        total[v] = Isa::fma(Isa::to_float(sum), Isa::mul(scale[n][v], a_scale), total[v]);
      }
    }
    for (int v = 0; v < V; ++v) {
      Isa::store(totals + v * kTileRows, total[v]);
    }
    a_scales += groups;
    a_sums += groups;
    sums += kRow;
    totals += kRow;
  }
}

/// The same for weights in blocks.
template <class Isa, int V, bool Signed>
NIBBLE_NOINLINE void add_scaled_blocks(const TiledWeight& w, const Block<Isa, V>& block,
                                       const TiledInput& x, const WaitingSums& waiting,
                                       std::int64_t from, std::int64_t to) {
  constexpr std::int64_t kRow = V * kTileRows;
  for (std::int64_t n = 0; n < waiting.groups; ++n) {
    const std::int64_t group = waiting.group + n;
    for (std::int64_t i = from; i < to; ++i) {
      const Tokens at = tokens_at(x, waiting.token + i, group, w.group_inputs);
      typename Isa::Int sums[V][1];
      typename Isa::Float total[V][1];
      for (int v = 0; v < V; ++v) {
        sums[v][0] = Isa::load(waiting.sums + n * kAmxGroupSums<V> + i * kRow + v * kTileRows);
        total[v][0] = Isa::load_floats(waiting.totals + i * kRow + v * kTileRows);
      }
      if constexpr (!Signed) {
        add_block_zeros<Isa, V, 1>(w, block, at, group, 0, sums);
      }
      add_block_scaled<Isa, V, 1>(w, block, at, group, 0, sums, total);
      for (int v = 0; v < V; ++v) {
        Isa::store(waiting.totals + i * kRow + v * kTileRows, total[v][0]);
      }
    }
  }
}

template <class Isa, int V, bool Signed>
NIBBLE_INLINE void add_waiting(const TiledWeight& w, const Block<Isa, V>& block,
                               const TiledInput& x, const WaitingSums& waiting, std::int64_t from,
                               std::int64_t to) {
  if (w.in_blocks()) {
    add_scaled_blocks<Isa, V, Signed>(w, block, x, waiting, from, to);
  } else if (waiting.groups == 1) {
    add_scaled_groups<Isa, V, Signed, 1>(w, block, x, waiting, from, to);
  } else {
    add_scaled_groups<Isa, V, Signed, 2>(w, block, x, waiting, from, to);
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

/// The two places of sums: one is filled while the other is scaled.
template <int V>
struct SumBuffers {
  alignas(64) std::int32_t sums[2][kAmxGroups * kAmxGroupSums<V>] = {};
  int next = 0;
};

/// Groups [first, first + count), whose weights are in the panel, of T x 16 tokens from `token` on,
/// of which the first `tokens` exist. Leaves the last of them waiting.
template <class Tiles, class Isa, int V, int T, bool Signed>
NIBBLE_NOINLINE void add_panel(const TiledWeight& w, const Block<Isa, V>& block,
                               const std::uint8_t* panel, const TiledInput& x, std::int64_t token,
                               std::int64_t tokens, std::int64_t first, std::int64_t count,
                               float* totals, SumBuffers<V>& buffers, WaitingSums& waiting) {
  const std::int64_t inputs = w.group_inputs;
  const std::int64_t step = amx_step(inputs);
  const std::int8_t* a = x.codes + token * x.row_stride + first * inputs;
  for (std::int64_t g = 0; g < count; g += kAmxGroups) {
    const std::int64_t groups = count - g < kAmxGroups ? count - g : kAmxGroups;
    std::int32_t* sums = buffers.sums[buffers.next];
    // Tokens that are scaled beside each step.
    const std::int64_t steps = groups * inputs / step;
    const std::int64_t each = (waiting.tokens + steps - 1) / steps;
    std::int64_t done = 0;
    for (std::int64_t n = 0; n < groups; ++n) {
      Tiles::template zero<0>();
      Tiles::template zero<1>();
      Tiles::template zero<2>();
      Tiles::template zero<3>();
      for (std::int64_t input = 0; input < inputs; input += step) {
        // No prefetcher of the processor sees such strides.
        for (std::int64_t row = 0; row < T * kAmxTokens; ++row) {
          __builtin_prefetch(a + row * x.row_stride + 2 * step);
        }
        multiply_step<Tiles, V, T, Signed>(panel, a, x.row_stride);
        panel += step / kQuad * V * kLineBytes;
        a += step;
        const std::int64_t end = waiting.tokens - done < each ? waiting.tokens : done + each;
        if (done < end) {
          add_waiting<Isa, V, Signed>(w, block, x, waiting, done, end);
          done = end;
        }
      }
      store_sums<Tiles, V, T>(sums + n * kAmxGroupSums<V>);
    }
    waiting = {sums, totals, token, tokens, first + g, groups};
    buffers.next ^= 1;
  }
}

/// Tokens [begin, begin + count) of V tiles, count <= kAmxBlockTokens.
template <class Tiles, class Isa, class Bytes, int V, bool Signed>
NIBBLE_NOINLINE void run_amx_block(const TiledWeight& w, const TiledInput& x, std::int64_t begin,
                                   std::int64_t count, std::int64_t tile, float* y,
                                   std::int64_t ldy) {
  constexpr std::int64_t kRow = V * kTileRows;
  alignas(64) std::uint8_t panel[kPanelInputs * kRow];
  alignas(64) float totals[kAmxBlockTokens * kRow];
  SumBuffers<V> buffers;
  WaitingSums waiting;
  for (std::int64_t i = 0; i < count * kRow; ++i) {
    totals[i] = 0.0f;
  }
  const Block<Isa, V> block(w, tile);
  const Bytes bytes(w, block);
  const std::int64_t groups_per_panel = kPanelInputs / w.group_inputs;
  for (std::int64_t g = 0; g < w.groups; g += groups_per_panel) {
    const std::int64_t groups = w.groups - g < groups_per_panel ? w.groups - g : groups_per_panel;
    unpack_panel<Isa, Bytes, V, Signed>(w, block, bytes, g, groups, panel);
    for (std::int64_t i = 0; i < count; i += 2 * kAmxTokens) {
      const std::int64_t left = count - i;
      if (left > kAmxTokens) {
        const std::int64_t tokens = left < 2 * kAmxTokens ? left : 2 * kAmxTokens;
        add_panel<Tiles, Isa, V, 2, Signed>(w, block, panel, x, begin + i, tokens, g, groups,
                                            totals + i * kRow, buffers, waiting);
      } else {
        add_panel<Tiles, Isa, V, 1, Signed>(w, block, panel, x, begin + i, left, g, groups,
                                            totals + i * kRow, buffers, waiting);
      }
    }
  }
  add_waiting<Isa, V, Signed>(w, block, x, waiting, 0, waiting.tokens);
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
