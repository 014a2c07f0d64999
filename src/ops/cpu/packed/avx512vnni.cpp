#include "ops/cpu/cpu_features.h"
#include "ops/cpu/packed/lanes512.h"
#include "ops/cpu/packed/tile_sources.h"
#include "ops/cpu/packed/variant_of.h"

// vpdpbusd on 16 rows: a vector is a tile.
//
//   few tokens    one tile, sums [8 tokens]; activation quads are broadcast by the instruction's
//   memory operand many tokens   two neighbouring tiles, sums [2 tiles][6 tokens]: 2 weight loads
//   and 6 broadcasts for 12 products
namespace nibble::ops::cpu {
namespace {

struct Avx512Vnni : Lanes512 {
  static constexpr bool kZerosFirst = true;
  static constexpr int kDirectTokens = 8;
  /// The most tokens for which weights are decoded on their way. Panels save instructions beside
  /// the products, for which there is time where a product takes two turns.
  static std::int64_t direct_limit(std::int64_t group_inputs) {
    if (!cpu_features().halves512 || group_inputs < kUnit) {
      return 16;
    }
    return group_inputs == kUnit ? 48 : 64;
  }
  static constexpr int kPanelTokens = 6;
  static constexpr std::int64_t kTokenBlock = 72;
  static constexpr int kChains = 12;  // of products: latency 4 or 5, at most two each cycle
  static constexpr int kProducts = 64;

  /// sum += products of a quad. In assembly because GCC 12 copies the accumulator of the intrinsic.
  static NIBBLE_INLINE void add_product(Int& sum, Int weights, Int a) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(a));
  }
  /// The same with a quad of activations in memory, broadcast to all rows.
  static NIBBLE_INLINE void add_product(Int& sum, Int weights, const std::int8_t* a) {
    using Quad = std::int8_t[kQuad];
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(sum)
        : "v"(weights), "m"(*reinterpret_cast<const Quad*>(a)));
  }
  /// sum += products of a unit with one token: even and odd quads have a sum each, so that no
  /// product waits for the one before.
  template <class Pairs, class Source>
  static NIBBLE_INLINE void multiply_in_turns(const Source& source, std::int64_t unit,
                                              const std::int8_t* a, Int& sum) {
    Int odd = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int pair = Pairs::kFirst; pair < Pairs::kEnd; ++pair) {
      Int w[2][1];
      source.load(0, unit, pair, w);
      add_product(sum, w[0][0], a + std::int64_t{2} * pair * kQuad);
      add_product(odd, w[1][0], a + (std::int64_t{2} * pair + 1) * kQuad);
    }
    sum = add(sum, odd);
  }
  /// sums[tile][token] += products of a unit.
  template <int V, int M, class Pairs, class Source>
  static NIBBLE_INLINE void multiply_unit(const Source& source, std::int64_t unit,
                                          const std::int8_t* a, std::int64_t stride,
                                          Int (&sums)[V][M]) {
    if constexpr (Pairs::kFirst == 0) {
      source.prefetch(unit);
    }
    if constexpr (V * M == 1) {
      return multiply_in_turns<Pairs>(source, unit, a, sums[0][0]);
    }
#pragma GCC unroll 4
    for (int pair = Pairs::kFirst; pair < Pairs::kEnd; ++pair) {
      Int w[2][V];
      source.load(0, unit, pair, w);
#pragma GCC unroll 2
      for (int quad = 0; quad < 2; ++quad) {
#pragma GCC unroll 8
        for (int i = 0; i < M; ++i) {
          const std::int8_t* codes = a + i * stride + (2 * pair + quad) * kQuad;
          if constexpr (V == 1) {
            add_product(sums[0][i], w[quad][0], codes);
          } else {
            const Int both = broadcast_quad(codes);
            add_product(sums[0][i], w[quad][0], both);
            add_product(sums[1][i], w[quad][1], both);
          }
        }
      }
    }
  }
};

/// Two tiles at a time where there are many tokens.
template <class Codes>
struct Tiles {
  template <int V>
  using Source = Whole<typename Codes::template Source<Avx512Vnni, V>, V>;

  static void run(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
                  float* y, std::int64_t ldy) {
    std::int64_t tile = begin;
    if (x.m > Avx512Vnni::direct_limit(w.group_inputs)) {
      for (; tile + 2 <= end; tile += 2) {
        run_panels<Avx512Vnni, Source<2>, 2>(w, x, tile, y, ldy);
      }
    }
    EachTile<Avx512Vnni, Source<1>, 1>::run(w, x, tile, end, y, ldy);
  }
};

/// 8-bit codes are what the products take, and need no panel: with many tokens, two tiles pass all
/// inputs for some tokens after the others. Weights in blocks have panels of decoded scales. Their
/// lines come from the L2 cache then, two for 2 * kInPlaceTokens products.
template <>
struct Tiles<Integers<8>> {
  template <int V>
  using Source = Whole<CodeSource<Avx512Vnni, V, 8>, V>;
  static constexpr int kInPlaceTokens = 6;

  static void run(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
                  float* y, std::int64_t ldy) {
    std::int64_t tile = begin;
    if (x.m > Avx512Vnni::direct_limit(w.group_inputs)) {
      for (; tile + 2 <= end; tile += 2) {
        if (w.in_blocks()) {
          run_panels<Avx512Vnni, Source<2>, 2>(w, x, tile, y, ldy);
        } else {
          run_two(w, x, tile, y, ldy);
        }
      }
    }
    EachTile<Avx512Vnni, Source<1>, 1>::run(w, x, tile, end, y, ldy);
  }

 private:
  static void run_two(const TiledWeight& w, const TiledInput& x, std::int64_t tile, float* y,
                      std::int64_t ldy) {
    std::int64_t steps = (x.m + kInPlaceTokens - 1) / kInPlaceTokens;
    for (std::int64_t token = 0; token < x.m; --steps) {
      const std::int64_t count = (x.m - token + steps - 1) / steps;
      dispatch_direct<Avx512Vnni, Source<2>, 2, kInPlaceTokens>(w, x, token, count, tile, y, ldy);
      token += count;
    }
  }
};

}  // namespace

Variant avx512vnni_variant() {
  Variant variant = variant_of<Avx512Vnni>(
      "avx512vnni", "AVX512-VNNI (with AVX512 F, BW, DQ, VL)",
      [] { return cpu_features().avx512vnni; }, run_by_kind<Tiles>);
  return variant;
}

}  // namespace nibble::ops::cpu
