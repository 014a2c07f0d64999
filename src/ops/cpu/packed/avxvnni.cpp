#include "ops/cpu/cpu_features.h"
#include "ops/cpu/packed/lanes256.h"
#include "ops/cpu/packed/tile_sources.h"
#include "ops/cpu/packed/variant_of.h"

// vpdpbusd multiplies u8 weights with s8 activations and adds the four products of a quad in 32
// bits, exactly. A block is one tile, its vectors are rows 0..7 and rows 8..15:
//
//   16 registers   sums [2 halves][6 tokens] = 12, weights of a quad 2, one broadcast activation
//   quad
namespace nibble::ops::cpu {
namespace {

struct AvxVnni : Lanes256 {
  static constexpr bool kZerosFirst = true;
  static constexpr int kDirectTokens = 4;
  /// The most tokens for which weights are decoded on their way.
  static std::int64_t direct_limit(std::int64_t /*group_inputs*/) { return 8; }
  static constexpr int kPanelTokens = 6;
  static constexpr std::int64_t kTokenBlock = 72;
  static constexpr int kChains = 12;  // of products: latency 4 or 5, at most two each cycle
  static constexpr int kProducts = 32;

  /// sum += products of a quad. In assembly because GCC 12 copies the accumulator of the intrinsic.
  static NIBBLE_INLINE void add_product(Int& sum, Int weights, Int a) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(weights), "x"(a));
  }

  /// sums[half][token] += products of a unit.
  template <int V, int M, class Pairs, class Source>
  static NIBBLE_INLINE void multiply_unit(const Source& source, std::int64_t unit,
                                          const std::int8_t* a, std::int64_t stride,
                                          Int (&sums)[V][M]) {
    if constexpr (Pairs::kFirst == 0) {
      source.prefetch(unit);
    }
#pragma GCC unroll 4
    for (int pair = Pairs::kFirst; pair < Pairs::kEnd; ++pair) {
      Int w[2][V];
      source.load(0, unit, pair, w);
#pragma GCC unroll 2
      for (int quad = 0; quad < 2; ++quad) {
#pragma GCC unroll 6
        for (int i = 0; i < M; ++i) {
          const Int codes = broadcast_quad(a + i * stride + (2 * pair + quad) * kQuad);
#pragma GCC unroll 2
          for (int v = 0; v < V; ++v) {
            add_product(sums[v][i], w[quad][v], codes);
          }
        }
      }
    }
  }
};

template <class Codes>
struct Tiles : EachTile<AvxVnni, Whole<typename Codes::template Source<AvxVnni, 2>, 2>, 2> {};

}  // namespace

Variant avxvnni_variant() {
  Variant variant = variant_of<AvxVnni>(
      "avxvnni", "AVX-VNNI", [] { return cpu_features().avxvnni; }, run_by_kind<Tiles>);
  return variant;
}

}  // namespace nibble::ops::cpu
