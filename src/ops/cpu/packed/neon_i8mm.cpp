#include "ops/cpu/cpu_features.h"
#include "ops/cpu/packed/lanes128.h"
#include "ops/cpu/packed/tile_sources.h"
#include "ops/cpu/packed/variant_of.h"

// USMMLA multiplies 2 rows x 8 inputs of u8 weights with 2 tokens x 8 inputs of s8 activations and
// adds to 2 x 2 sums in 32 bits, exactly. Rows are brought side by side by zipping the two quads
// of a pair:
//
//   even | r0 q0 | r1 q0 | r2 q0 | r3 q0 |        rows 0, 1 | r0 q0 | r0 q1 | r1 q0 | r1 q1 |
//   odd  | r0 q1 | r1 q1 | r2 q1 | r3 q1 |  zip:  rows 2, 3 | r2 q0 | r2 q1 | r3 q0 | r3 q1 |
//
// While a group lasts, the sums of vector v for the tokens i and i + 1 lie as
//
//   sums[v][i]      rows 0, 1:  | r0 ti | r0 ti+1 | r1 ti | r1 ti+1 |
//   sums[v][i + 1]  rows 2, 3:  | r2 ti | r2 ti+1 | r3 ti | r3 ti+1 |
//
// A last token without a neighbour takes both places of the pair for each unit. One token alone is
// served by USDOT, which needs no zipping; a block is one tile, as in neon_dotprod.cpp.
namespace nibble::ops::cpu {
namespace {

struct NeonI8mm : Lanes128 {
  static constexpr bool kPairsTokens = true;
  static constexpr bool kZerosFirst = false;
  static constexpr int kProducts = 32;

  static NIBBLE_INLINE void zip(Int& a, Int& b) {
    const Int low = vzip1q_s32(a, b);
    b = vzip2q_s32(a, b);
    a = low;
  }
  static NIBBLE_INLINE void unzip(Int& a, Int& b) {
    const Int even = vuzp1q_s32(a, b);
    b = vuzp2q_s32(a, b);
    a = even;
  }

  /// Sums by token, as the shared loops want them.
  template <int V, int M>
  static NIBBLE_INLINE void separate_tokens(Int (&sums)[V][M]) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
#pragma GCC unroll 2
      for (int i = 0; i + 1 < M; i += 2) {
        unzip(sums[v][i], sums[v][i + 1]);
      }
    }
  }

  /// sum += products of two rows and two tokens. The empty assembly keeps each of them.
  static NIBBLE_INLINE void add_product(Int& sum, Int weights, Int a) {
    sum = vusmmlaq_s32(sum, bytes(weights), signed_bytes(a));
    asm("" : "+w"(sum));
  }

  /// Products of four rows, two by two, with `a`, the codes of two tokens.
  static NIBBLE_INLINE void add_products(Int& low, Int& high, Int rows01, Int rows23, int8x16_t a) {
    low = vusmmlaq_s32(low, bytes(rows01), a);
    high = vusmmlaq_s32(high, bytes(rows23), a);
  }

  /// sums[vector][token] += products of a unit.
  template <int V, int M, class Pairs, class Source>
  static NIBBLE_INLINE void multiply_unit(const Source& source, std::int64_t unit,
                                          const std::int8_t* a, std::int64_t stride,
                                          Int (&sums)[V][M]) {
    if constexpr (Pairs::kFirst == 0) {
      source.prefetch(unit);
    }
    if constexpr (M == 1 && requires { source.quads; }) {
      add_unit_of_one<Pairs>(source.quads, unit, a, sums);
    } else {
      add_unit_of_pairs<Pairs>(source, unit, a, stride, sums);
    }
  }

  template <class Pairs, int V, int M, class Source>
  static NIBBLE_INLINE void add_unit_of_pairs(const Source& source, std::int64_t unit,
                                              const std::int8_t* a, std::int64_t stride,
                                              Int (&sums)[V][M]) {
    constexpr int kPaired = M / 2 * 2;
    Int last[V][2] = {};  // of the token without a neighbour
#pragma GCC unroll 4
    for (int pair = Pairs::kFirst; pair < Pairs::kEnd; ++pair) {
      Int w[2][V];
      source.load(0, unit, pair, w);
      const std::int8_t* codes = a + 2 * kQuad * pair;
#pragma GCC unroll 2
      for (int i = 0; i < kPaired; i += 2) {
        const int8x16_t two =
            vcombine_s8(vld1_s8(codes + i * stride), vld1_s8(codes + (i + 1) * stride));
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          add_products(sums[v][i], sums[v][i + 1], w[0][v], w[1][v], two);
        }
      }
      if constexpr (kPaired < M) {
        const int8x8_t one = vld1_s8(codes + kPaired * stride);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          add_products(last[v][0], last[v][1], w[0][v], w[1][v], vcombine_s8(one, one));
        }
      }
    }
    if constexpr (kPaired < M) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        sums[v][kPaired] = add(sums[v][kPaired], vuzp1q_s32(last[v][0], last[v][1]));
      }
    }
  }

  template <int Quad, int V>
  static NIBBLE_INLINE void add_quad(const Int (&w)[V], int8x16_t a, Int (&sums)[V][1]) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      sums[v][0] = vusdotq_laneq_s32(sums[v][0], bytes(w[v]), a, Quad);
    }
  }

  template <class Pairs, int V, class Quads>
  static NIBBLE_INLINE void add_unit_of_one(const Quads& quads, std::int64_t unit,
                                            const std::int8_t* a, Int (&sums)[V][1]) {
#pragma GCC unroll 2
    for (int pair = Pairs::kFirst; pair < Pairs::kEnd; pair += 2) {
      const int8x16_t codes = vld1q_s8(a + 2 * kQuad * pair);
      Int w[2][V];
      quads.load(0, unit, pair, w);
      add_quad<0>(w[0], codes, sums);
      add_quad<1>(w[1], codes, sums);
      quads.load(0, unit, pair + 1, w);
      add_quad<2>(w[0], codes, sums);
      add_quad<3>(w[1], codes, sums);
    }
  }
};

/// A block as rows: w[0][v] holds rows 0 and 1 of vector v for the 8 inputs of a pair, w[1][v] rows
/// 2 and 3. `quads` gives the same weights unzipped.
template <class Bytes, int V>
struct RowPairs {
  static constexpr StoredAs kStoredAs = Bytes::kStoredAs;
  static constexpr int kParts = 1;
  static constexpr int kColumns = V;
  static constexpr int kQuads = 8;
  Whole<Bytes, V> quads;

  template <class Block>
  RowPairs(const TiledWeight& w, const Block& block) : quads(w, block) {}
  NIBBLE_INLINE void prefetch(std::int64_t unit) const { quads.prefetch(unit); }
  NIBBLE_INLINE void load(int part, std::int64_t unit, int pair, int32x4_t (&w)[2][V]) const {
    quads.load(part, unit, pair, w);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      NeonI8mm::zip(w[0][v], w[1][v]);
    }
  }
};

template <class Codes>
struct Tiles : EachTile<NeonI8mm,
                        RowPairs<typename Codes::template Source<NeonI8mm, Lanes128::kVectors>,
                                 Lanes128::kVectors>,
                        Lanes128::kVectors> {};

}  // namespace

Variant neon_i8mm_variant() {
  return variant_of<NeonI8mm>(
      "neon-i8mm", "the 8-bit matrix instructions of ARMv8.6 (i8mm)",
      [] { return cpu_features().i8mm; }, run_by_kind<Tiles>);
}

}  // namespace nibble::ops::cpu
