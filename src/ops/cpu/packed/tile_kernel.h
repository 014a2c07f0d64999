#pragma once

#include <cstdint>

#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"

/// The loops that the variants with vectors share; included by one file for each, in an unnamed
/// namespace. The instruction set gives vectors and the product of one unit:
///
///   Isa::multiply_unit<V, M, Pairs>(source, unit, a, stride, sums)
///
/// sums[v][i] += products of the inputs of token i that Pairs names: WholeUnit, FirstHalf or
/// SecondHalf of the unit's, which begin at `a`.
///
/// Where kPairsTokens says so, neighbouring tokens share their sums in an order of the instruction
/// set's own, which separate_tokens(sums) undoes at the end of a group.
///
/// Here are those for few tokens (`run_direct`): weights are decoded in registers on their way from
/// memory. panel_kernel.h has those for many.
namespace nibble::ops::cpu {
namespace {

/// Some tokens from one group on.
struct Tokens {
  const std::int8_t* codes;
  const float* scales;
  const std::int32_t* sums;
  std::int64_t row_stride;
  std::int64_t groups;
};

/// `inputs`: of a group.
NIBBLE_INLINE Tokens tokens_at(const TiledInput& x, std::int64_t token, std::int64_t group,
                               std::int64_t inputs) {
  const std::int64_t at = token * x.groups + group;
  return {x.codes + token * x.row_stride + group * inputs, x.scales + at, x.sums + at, x.row_stride,
          x.groups};
}

/// sums[v][i] = -zero * sum of the token's codes, where all rows have one zero.
template <class Isa, int V, int M>
NIBBLE_INLINE void begin_with_zero(typename Isa::Int zero, const Tokens& x, std::int64_t group,
                                   typename Isa::Int (&sums)[V][M]) {
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) {
    const typename Isa::Int product =
        Isa::multiply_zero(zero, Isa::broadcast(x.sums[i * x.groups + group]));
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      sums[v][i] = product;
    }
  }
}

/// sums[v][i] += -zero * sum of the token's codes.
template <class Isa, int V, int M>
NIBBLE_INLINE void add_zeros(const typename Isa::Int (&zero)[V], const Tokens& x,
                             std::int64_t group, typename Isa::Int (&sums)[V][M]) {
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) {
    const typename Isa::Int a_sum = Isa::broadcast(x.sums[i * x.groups + group]);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      sums[v][i] = Isa::add(sums[v][i], Isa::multiply_zero(zero[v], a_sum));
    }
  }
}

/// -zero * the sum of a whole row's codes, which may take more than 16 bits: its two digits of 16
/// bits are multiplied apart.
template <class Isa>
NIBBLE_INLINE typename Isa::Int multiply_zero_of_row(typename Isa::Int zero, std::int32_t a_sum) {
  const std::int32_t low = static_cast<std::int16_t>(a_sum);
  const std::int32_t high = (a_sum - low) / 65536;
  return Isa::add(Isa::multiply_zero(zero, Isa::broadcast(low)),
                  Isa::shift_up(Isa::multiply_zero(zero, Isa::broadcast(high))));
}

/// sums[v][i] += -zero * sum of the codes of the token's row.
template <class Isa, int V, int M>
NIBBLE_INLINE void add_zeros_of_row(const TiledWeight& w, const Block<Isa, V>& block,
                                    const Tokens& x, typename Isa::Int (&sums)[V][M]) {
  for (int v = 0; v < V; ++v) {
    const std::uint8_t* zeros = block.at[v].zeros;
    const typename Isa::Int zero =
        zeros == nullptr ? Isa::negative_zero(w.zero) : Isa::negative_zeros(zeros);
    for (int i = 0; i < M; ++i) {
      sums[v][i] = Isa::add(sums[v][i], multiply_zero_of_row<Isa>(zero, x.sums[i]));
    }
  }
}

/// total[v][i] = fma(sum, scale * a_scale, total[v][i]).
template <class Isa, int V, int M>
NIBBLE_INLINE void add_scaled(const Block<Isa, V>& block, const Tokens& x, std::int64_t group,
                              const typename Isa::Int (&sums)[V][M],
                              typename Isa::Float (&total)[V][M]) {
  typename Isa::Float scale[V];
  for (int v = 0; v < V; ++v) {
    scale[v] = Isa::load_scales(block.at[v].scales + group * kTileRows);
  }
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) {
    const typename Isa::Float a_scale = Isa::broadcast(x.scales[i * x.groups + group]);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      total[v][i] = Isa::fma(Isa::to_float(sums[v][i]), Isa::mul(scale[v], a_scale), total[v][i]);
    }
  }
}

/// Which weights there are (formats/scheme.cpp): two of four codes are not stored in blocks, and
/// books have neither minima nor zeros.
template <class Source>
constexpr bool kMayBeInBlocks = !Source::kStoredAs.two_of_four;
template <class Source>
constexpr bool kMayHaveMinima =
    kMayBeInBlocks<Source>&& Source::kStoredAs.kind == CodeKind::kInteger;

/// What stands beside the codes of a weight in blocks: asked for each group, or known to the loops,
/// which then lose no time over it.
struct AnyBlocks {
  static NIBBLE_INLINE bool have_supers(const VectorPlace& at) { return at.supers != nullptr; }
  static NIBBLE_INLINE bool have_minima(const VectorPlace& at) { return at.minima != nullptr; }
  static NIBBLE_INLINE bool have_zeros(const VectorPlace& at) { return at.zeros != nullptr; }
};
struct BookBlocks : AnyBlocks {
  static constexpr bool have_minima(const VectorPlace&) { return false; }
  static constexpr bool have_zeros(const VectorPlace&) { return false; }
};
template <bool Supers, bool Minima>
struct KnownBlocks {
  static constexpr bool have_supers(const VectorPlace&) { return Supers; }
  static constexpr bool have_minima(const VectorPlace&) { return Minima; }
  static constexpr bool have_zeros(const VectorPlace&) { return false; }
};

/// Whether GGUF has such codes in blocks whose scales are multiples (Q2_K to Q6_K, IQ4_XS).
constexpr bool is_in_super_blocks(StoredAs codes, bool halves, bool minima) {
  switch (codes.kind) {
    case CodeKind::kInteger:
      return halves ? codes.bits == (minima ? 2 : 3) || (!minima && codes.bits == 8)
                    : minima && (codes.bits == 4 || codes.bits == 8);
    case CodeKind::kSharedTable:
      return codes.bits == 4 && !halves && !minima;
    default:
      return false;
  }
}

/// f(what is known of the blocks of w), groups of a unit or of half a unit.
template <class Source, bool Halves, class F>
NIBBLE_INLINE void with_blocks(const TiledWeight& w, F f) {
  const bool minima = w.minima_offset != 0;
  if constexpr (is_in_super_blocks(Source::kStoredAs, Halves, false)) {
    if (w.supers_offset != 0 && !minima) {
      return f(KnownBlocks<true, false>());
    }
  }
  if constexpr (is_in_super_blocks(Source::kStoredAs, Halves, true)) {
    if (w.supers_offset != 0 && minima) {
      return f(KnownBlocks<true, true>());
    }
  }
  if constexpr (kMayHaveMinima<Source>) {
    f(AnyBlocks());
  } else {
    f(BookBlocks());
  }
}

/// Scales or minima of group `group`.
template <class Isa>
NIBBLE_INLINE typename Isa::Float load_block_scales(const TiledWeight& w, const void* scales,
                                                    const std::uint16_t* supers, bool have_supers,
                                                    std::int64_t group) {
  if (!have_supers) {
    return Isa::load_scales(static_cast<const std::uint16_t*>(scales) + group * kTileRows);
  }
  return Isa::mul(Isa::load_multiples(static_cast<const std::int8_t*>(scales) + group * kTileRows),
                  Isa::load_scales(supers + (group >> w.super_shift) * kTileRows));
}

/// add_scaled() where scales may be multiples, and minima may stand beside them.
template <class Isa, int V, int M, class Blocks = AnyBlocks>
NIBBLE_INLINE void add_block_scaled(const TiledWeight& w, const Block<Isa, V>& block,
                                    const Tokens& x, std::int64_t group,
                                    const typename Isa::Int (&sums)[V][M],
                                    typename Isa::Float (&total)[V][M]) {
  using Float = typename Isa::Float;
  Float scale[V];
  for (int v = 0; v < V; ++v) {
    const VectorPlace& at = block.at[v];
    scale[v] = load_block_scales<Isa>(w, at.scales, at.supers, Blocks::have_supers(at), group);
  }
  if (!Blocks::have_minima(block.at[0])) {
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      const Float a_scale = Isa::broadcast(x.scales[i * x.groups + group]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        total[v][i] = Isa::fma(Isa::to_float(sums[v][i]), Isa::mul(scale[v], a_scale), total[v][i]);
      }
    }
    return;
  }
  Float minimum[V];
  for (int v = 0; v < V; ++v) {
    const VectorPlace& at = block.at[v];
    minimum[v] =
        load_block_scales<Isa>(w, at.minima, at.min_supers, Blocks::have_supers(at), group);
  }
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) {
    const Float a_scale = Isa::broadcast(x.scales[i * x.groups + group]);
    const Float a_sum = Isa::broadcast(static_cast<float>(x.sums[i * x.groups + group]));
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const Float sum = Isa::fma(Isa::to_float(sums[v][i]), scale[v], Isa::mul(minimum[v], a_sum));
      total[v][i] = Isa::fma(sum, a_scale, total[v][i]);
    }
  }
}

/// sums[v][i] += -zero * sum of the token's codes; with minima the zero is 0.
template <class Isa, int V, int M, class Blocks = AnyBlocks>
NIBBLE_INLINE void add_block_zeros(const TiledWeight& w, const Block<Isa, V>& block,
                                   const Tokens& x, std::int64_t group,
                                   typename Isa::Int (&sums)[V][M]) {
  if (!Isa::kLowers && Blocks::have_minima(block.at[0])) {
    return;
  }
  typename Isa::Int zero[V];
  for (int v = 0; v < V; ++v) {
    zero[v] = Blocks::have_zeros(block.at[0])
                  ? Isa::negative_zeros(block.at[v].zeros + group * kTileRows)
                  : Isa::negative_zero(w.zero);
  }
  add_zeros<Isa, V, M>(zero, x, group, sums);
}

/// total[v][i] += one group of a weight in blocks, which is the unit or a half of it.
template <class Isa, int V, int M, class Pairs, class Blocks = AnyBlocks, class Source>
NIBBLE_INLINE void add_block_group(const TiledWeight& w, const Block<Isa, V>& block,
                                   const Source& source, const Tokens& x, std::int64_t group,
                                   std::int64_t unit, const std::int8_t* a,
                                   typename Isa::Float (&total)[V][M]) {
  typename Isa::Int sums[V][M] = {};
  if constexpr (Isa::kZerosFirst) {
    add_block_zeros<Isa, V, M, Blocks>(w, block, x, group, sums);
  }
  Isa::template multiply_unit<V, M, Pairs>(source, unit, a, x.row_stride, sums);
  if constexpr (Isa::kPairsTokens) {
    Isa::template separate_tokens<V, M>(sums);
  }
  if constexpr (!Isa::kZerosFirst) {
    add_block_zeros<Isa, V, M, Blocks>(w, block, x, group, sums);
  }
  add_block_scaled<Isa, V, M, Blocks>(w, block, x, group, sums, total);
}

/// `add_groups` for weights in blocks: groups of a unit or of half a unit.
template <class Isa, int V, int M, bool Halves, class Blocks, class Source>
NIBBLE_INLINE void add_block_groups(const TiledWeight& w, const Block<Isa, V>& block,
                                    const Source& source, const Tokens& x,
                                    typename Isa::Float (&total)[V][M]) {
  const std::int8_t* a = x.codes;
  if constexpr (Halves) {
    for (std::int64_t g = 0; g < w.groups; g += 2, a += kUnit) {
      add_block_group<Isa, V, M, FirstHalf, Blocks>(w, block, source, x, g, g / 2, a, total);
      add_block_group<Isa, V, M, SecondHalf, Blocks>(w, block, source, x, g + 1, g / 2, a, total);
    }
  } else {
    for (std::int64_t g = 0; g < w.groups; ++g, a += kUnit) {
      add_block_group<Isa, V, M, WholeUnit, Blocks>(w, block, source, x, g, g, a, total);
    }
  }
}

/// The same for groups of several units, which have minima, and scales that are no multiples.
template <class Isa, int V, int M, class Source>
NIBBLE_INLINE void add_wide_block_groups(const TiledWeight& w, const Block<Isa, V>& block,
                                         const Source& source, const Tokens& x,
                                         typename Isa::Float (&total)[V][M]) {
  using Blocks = KnownBlocks<false, true>;
  const std::int64_t units = w.units_per_group();
  const std::int8_t* a = x.codes;
  std::int64_t unit = 0;
  for (std::int64_t g = 0; g < w.groups; ++g) {
    typename Isa::Int sums[V][M] = {};
    if constexpr (Isa::kZerosFirst) {
      add_block_zeros<Isa, V, M, Blocks>(w, block, x, g, sums);
    }
    for (std::int64_t u = 0; u < units; ++u, ++unit, a += kUnit) {
      Isa::template multiply_unit<V, M, WholeUnit>(source, unit, a, x.row_stride, sums);
    }
    if constexpr (Isa::kPairsTokens) {
      Isa::template separate_tokens<V, M>(sums);
    }
    if constexpr (!Isa::kZerosFirst) {
      add_block_zeros<Isa, V, M, Blocks>(w, block, x, g, sums);
    }
    add_block_scaled<Isa, V, M, Blocks>(w, block, x, g, sums, total);
  }
}

/// `add_groups` for groups of one unit, whose sums then need not go through memory, or of any
/// number.
template <class Isa, int V, int M, bool OneUnit, class Source>
NIBBLE_INLINE void add_groups_of(const TiledWeight& w, const Block<Isa, V>& block,
                                 const Source& source, const Tokens& x,
                                 typename Isa::Float (&total)[V][M]) {
  using Int = typename Isa::Int;
  Int zero[V];
  for (int v = 0; v < V; ++v) {
    zero[v] = Isa::negative_zero(w.zero);
  }
  const std::int64_t units = OneUnit ? 1 : w.units_per_group();
  const std::int8_t* a = x.codes;
  std::int64_t unit = 0;
  for (std::int64_t g = 0; g < w.groups; ++g) {
    if (block.at[0].zeros != nullptr) {
      for (int v = 0; v < V; ++v) {
        zero[v] = Isa::negative_zeros(block.at[v].zeros + g * kTileRows);
      }
    }
    Int sums[V][M] = {};
    if constexpr (Isa::kZerosFirst) {
      if (block.at[0].zeros == nullptr) {
        begin_with_zero<Isa, V, M>(zero[0], x, g, sums);
      } else {
        add_zeros<Isa, V, M>(zero, x, g, sums);
      }
    }
    for (std::int64_t u = 0; u < units; ++u, ++unit, a += kUnit) {
      Isa::template multiply_unit<V, M, WholeUnit>(source, unit, a, x.row_stride, sums);
    }
    if constexpr (Isa::kPairsTokens) {
      Isa::template separate_tokens<V, M>(sums);
    }
    if constexpr (!Isa::kZerosFirst) {
      add_zeros<Isa, V, M>(zero, x, g, sums);
    }
    add_scaled<Isa, V, M>(block, x, g, sums, total);
  }
}

/// `add_groups` for whole rows: one sum for all units.
template <class Isa, int V, int M, class Source>
NIBBLE_INLINE void add_row(const TiledWeight& w, const Block<Isa, V>& block, const Source& source,
                           const Tokens& x, typename Isa::Float (&total)[V][M]) {
  typename Isa::Int sums[V][M] = {};
  if constexpr (Isa::kZerosFirst) {
    add_zeros_of_row<Isa, V, M>(w, block, x, sums);
  }
  const std::int64_t units = w.units_per_group();
  const std::int8_t* a = x.codes;
  for (std::int64_t unit = 0; unit < units; ++unit, a += kUnit) {
    Isa::template multiply_unit<V, M, WholeUnit>(source, unit, a, x.row_stride, sums);
  }
  if constexpr (Isa::kPairsTokens) {
    Isa::template separate_tokens<V, M>(sums);
  }
  if constexpr (!Isa::kZerosFirst) {
    add_zeros_of_row<Isa, V, M>(w, block, x, sums);
  }
  add_scaled<Isa, V, M>(block, x, 0, sums, total);
}

/// `add_groups` for weights in blocks.
template <class Isa, int V, int M, class Source>
NIBBLE_INLINE void add_blocks(const TiledWeight& w, const Block<Isa, V>& block,
                              const Source& source, const Tokens& x,
                              typename Isa::Float (&total)[V][M]) {
  if (w.group_inputs == kHalfUnit) {
    return with_blocks<Source, true>(w, [&](auto blocks) NIBBLE_INLINE_LAMBDA {
      add_block_groups<Isa, V, M, true, decltype(blocks)>(w, block, source, x, total);
    });
  }
  if constexpr (kMayHaveMinima<Source>) {
    if (w.group_inputs > kUnit) {
      return add_wide_block_groups<Isa, V, M>(w, block, source, x, total);
    }
  }
  with_blocks<Source, false>(w, [&](auto blocks) NIBBLE_INLINE_LAMBDA {
    add_block_groups<Isa, V, M, false, decltype(blocks)>(w, block, source, x, total);
  });
}

/// total[v][i] += all groups of V vectors and M tokens, one after another.
template <class Isa, int V, int M, class Source>
NIBBLE_INLINE void add_groups(const TiledWeight& w, const Block<Isa, V>& block,
                              const Source& source, const Tokens& x,
                              typename Isa::Float (&total)[V][M]) {
  if constexpr (kMayBeInBlocks<Source>) {
    if (w.in_blocks()) {
      return add_blocks<Isa, V, M>(w, block, source, x, total);
    }
  }
  if (w.sums_whole_rows()) {
    add_row<Isa, V, M>(w, block, source, x, total);
  } else if (w.group_inputs == kUnit) {
    add_groups_of<Isa, V, M, true>(w, block, source, x, total);
  } else {
    add_groups_of<Isa, V, M, false>(w, block, source, x, total);
  }
}

/// y = total * unit for the rows of one vector, from `row` on, and their bias.
template <class Isa>
NIBBLE_INLINE void store(const TiledWeight& w, std::int64_t row, typename Isa::Float total,
                         const float* units, float* y) {
  const typename Isa::Float result = Isa::mul(total, Isa::load_floats(units));
  const std::int64_t rows = w.n - row;
  if (rows >= Isa::kLanes) {
    Isa::store(y, w.bias == nullptr ? result : Isa::add_floats(result, w.bias + row));
    return;
  }
  alignas(64) float lanes[Isa::kLanes];
  Isa::store(lanes, result);
  for (std::int64_t r = 0; r < rows; ++r) {
    y[r] = w.bias == nullptr ? lanes[r] : lanes[r] + w.bias[row + r];
  }
}

/// What lies as far ahead of a tile's header as prefetch_unit() looks ahead of its codes; the code
/// stream skips it.
NIBBLE_INLINE void prefetch_header(const TiledWeight& w, std::int64_t tile) {
  for (std::int64_t byte = 0; byte < w.codes_offset; byte += kLineBytes) {
    __builtin_prefetch(w.tiles + tile * w.tile_bytes + kPrefetchBytes + byte);
  }
}

/// M tokens over whole rows, weights straight from memory.
template <class Isa, class Source, int V, int M>
NIBBLE_NOINLINE void run_direct(const TiledWeight& w, const TiledInput& x, std::int64_t token,
                                std::int64_t tile, float* y, std::int64_t ldy) {
  const Block<Isa, V> block(w, tile);
  const Source source(w, block);
  prefetch_header(w, tile);
  typename Isa::Float total[V][M];
  for (int v = 0; v < V; ++v) {
    for (int i = 0; i < M; ++i) {
      total[v][i] = Isa::zero();
    }
  }
  add_groups<Isa, V, M>(w, block, source, tokens_at(x, token, 0, w.group_inputs), total);
  for (int i = 0; i < M; ++i) {
    for (int v = 0; v < V; ++v) {
      const std::int64_t row = tile * kTileRows + v * Isa::kLanes;
      store<Isa>(w, row, total[v][i], block.at[v].units, y + (token + i) * ldy + row);
    }
  }
}

template <class Isa, class Source, int V, int M>
void dispatch_direct(const TiledWeight& w, const TiledInput& x, std::int64_t token,
                     std::int64_t count, std::int64_t tile, float* y, std::int64_t ldy) {
  if constexpr (M > 1) {
    if (count < M) {
      return dispatch_direct<Isa, Source, V, M - 1>(w, x, token, count, tile, y, ldy);
    }
  }
  run_direct<Isa, Source, V, M>(w, x, token, tile, y, ldy);
}

/// Tokens of each register tile when `count` tokens are cut into tiles of at most `most`: even
/// tiles, 5 tokens are 3 + 2 and not 4 + 1.
NIBBLE_INLINE std::int64_t even_step(std::int64_t count, std::int64_t most) {
  const std::int64_t tiles = (count + most - 1) / most;
  return (count + tiles - 1) / tiles;
}

}  // namespace
}  // namespace nibble::ops::cpu
