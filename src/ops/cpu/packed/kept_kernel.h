#pragma once

#include <cstdint>

#include "ops/cpu/packed/tile_kernel.h"

/// Few tokens over a tile that keeps some of its groups (kept_tiles.h), for the variants that find
/// the activations where they lie. In an unnamed namespace, as tile_kernel.h.
namespace nibble::ops::cpu {
namespace {

/// total[v][i] += group g of a tile that keeps some of its groups of half a unit.
template <class Isa, int V, int M, class Half, class Source>
NIBBLE_INLINE void add_kept_group(const TiledWeight& w, const Block<Isa, V>& block,
                                  const Source& source, const TiledInput& x, std::int64_t token,
                                  const KeptGroups& kept, std::int64_t g,
                                  typename Isa::Float (&total)[V][M]) {
  // Counted from the start of the unit that the half of the tile is in.
  constexpr std::int64_t kSkipped = Half::kFirst * 2 * kQuad;
  const std::int64_t met = kept.groups[g];
  const std::int64_t at = token * x.groups + met - g;
  const std::int8_t* codes = x.codes + token * x.row_stride + met * kept.stride - kSkipped;
  const Tokens tokens = {codes, x.scales + at, x.sums + at, x.row_stride, x.groups};
  add_block_group<Isa, V, M, Half>(w, block, source, tokens, g, g / 2, codes, total);
}

/// M tokens over such a tile.
template <class Isa, class Source, int V, int M>
NIBBLE_NOINLINE void run_kept(const TiledWeight& w, const TiledInput& x, std::int64_t token,
                              const KeptGroups& kept, float* y, std::int64_t ldy) {
  const Block<Isa, V> block(w, 0);
  const Source source(w, block);
  prefetch_header(w, 0);
  typename Isa::Float total[V][M];
  for (int v = 0; v < V; ++v) {
    for (int i = 0; i < M; ++i) {
      total[v][i] = Isa::zero();
    }
  }
  std::int64_t g = 0;
  for (; g + 2 <= kept.count; g += 2) {
    add_kept_group<Isa, V, M, FirstHalf>(w, block, source, x, token, kept, g, total);
    add_kept_group<Isa, V, M, SecondHalf>(w, block, source, x, token, kept, g + 1, total);
  }
  if (g < kept.count) {
    add_kept_group<Isa, V, M, FirstHalf>(w, block, source, x, token, kept, g, total);
  }
  for (int i = 0; i < M; ++i) {
    for (int v = 0; v < V; ++v) {
      store<Isa>(total[v][i], block.at[v].units, Isa::kLanes,
                 y + (token + i) * ldy + v * Isa::kLanes);
    }
  }
}

template <class Isa, class Source, int V, int M>
void dispatch_kept(const TiledWeight& w, const TiledInput& x, std::int64_t token,
                   std::int64_t count, const KeptGroups& kept, float* y, std::int64_t ldy) {
  if constexpr (M > 1) {
    if (count < M) {
      return dispatch_kept<Isa, Source, V, M - 1>(w, x, token, count, kept, y, ldy);
    }
  }
  run_kept<Isa, Source, V, M>(w, x, token, kept, y, ldy);
}

}  // namespace
}  // namespace nibble::ops::cpu
