#pragma once

#include <cstdint>
#include <utility>

#include "ops/cpu/packed/panel_kernel.h"
#include "ops/cpu/packed/quantize_row.h"
#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"
#include "ops/cpu/packed/variants.h"

/// How an instruction set becomes a variant; included by the files of one instruction set each.
namespace nibble::ops::cpu {
namespace {

/// Tiles one after another, V vectors for each, with weights from `Source`.
template <class Isa, class Source, int V>
struct EachTile {
  static void run(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
                  float* y, std::int64_t ldy) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      run_block<Isa, Source, V>(w, x, tile, y, ldy);
    }
  }
};

/// Tiles by the loops for what the weight is stored as.
template <template <class> class Tiles>
void run_by_kind(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
                 float* y, std::int64_t ldy) {
  with_codes(w, [&](auto codes) { Tiles<decltype(codes)>::run(w, x, begin, end, y, ldy); });
}

/// One product into each of the sums; written out, so that no loop stands between them.
template <class Isa, int... Chains>
NIBBLE_INLINE void add_products(typename Isa::Int (&sums)[sizeof...(Chains)],
                                typename Isa::Int weights, typename Isa::Int a,
                                std::integer_sequence<int, Chains...>) {
  (Isa::add_product(sums[Chains], weights, a), ...);
}

/// `rounds` of one product into each of some chains. The sums are only named by constant indices:
/// else they would lie in memory, and be stored in every round.
template <class Isa, int... Chains>
NIBBLE_INLINE void multiply_chains(std::int64_t rounds,
                                   std::integer_sequence<int, Chains...> chains) {
  using Int = typename Isa::Int;
  const Int weights = Isa::broadcast(0x0f0f0f0f);
  const Int a = Isa::broadcast(0x03030303);
  Int sums[sizeof...(Chains)] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
    add_products<Isa>(sums, weights, a, chains);
  }
  const Int results[] = {sums[Chains]...};
  asm volatile("" : : "m"(results));
}

/// Isa::add_product() on registers alone, in Isa::kChains chains that hide its latency.
template <class Isa>
std::int64_t multiply_registers(std::int64_t rounds) {
  multiply_chains<Isa>(rounds, std::make_integer_sequence<int, Isa::kChains>());
  return rounds * Isa::kChains * Isa::kProducts;
}

using RunTiles = decltype(Variant::run);

/// The variant that `run` makes of an instruction set.
template <class Isa>
Variant variant_of(const char* name, const char* needs, bool (*runs_here)(), RunTiles run) {
  return {name, needs, runs_here, run, quantize_row, multiply_registers<Isa>, Isa::direct_limit};
}

}  // namespace
}  // namespace nibble::ops::cpu
