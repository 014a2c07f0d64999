#include "ops/cpu/cpu_features.h"
#include "ops/cpu/packed/lanes256.h"
#include "ops/cpu/packed/tile_sources.h"
#include "ops/cpu/packed/variant_of.h"

// AVX2 has no exact product of 8-bit codes: vpmaddubsw adds two u8 x s8 products in 16 bits and
// saturates. It is exact for weights of at most 128, and for weights of at most 15 the results of 8
// quads still fit:
//
//   8 quads x 2 products x 15 * 127 = 30,480 < 2^15        4 quads x 2 x 32 * 127 = 32,512 < 2^15
//
// so one widening (vpmaddwd by ones) serves 8 (or 4) vpmaddubsw. Weights up to 255 are cut into two
// planes of nibbles, u = 16 * high + low, and the high plane is widened by sixteens.
//
//   one unit of 32 inputs, whole weights                  in two planes, for each half of the tile
//   16-bit sums [half][token]                             16-bit sums [plane][token]
//     rows 0..7  | rows 8..15                               low nibbles | high nibbles
//   sums32 += vpmaddwd(sums16, 1)                         sums32 += vpmaddwd(low, 1) +
//   vpmaddwd(high, 16)
namespace nibble::ops::cpu {
namespace {

struct Avx2 : Lanes256 {
  static constexpr bool kZerosFirst = false;
  static constexpr int kDirectTokens = 4;
  /// The most tokens for which weights are decoded on their way.
  static std::int64_t direct_limit(std::int64_t /*group_inputs*/) { return 8; }
  static constexpr int kPanelTokens = 4;
  static constexpr std::int64_t kTokenBlock = 64;
  static constexpr int kChains = 8;  // of products: what hides their latency
  static constexpr int kProducts = 8 * 32;

  /// sum += products of a quad, in pairs. The empty assembly pins the order: GCC would otherwise
  /// form all products of a unit first and add them as a tree, which needs four times the registers
  /// there are.
  static NIBBLE_INLINE void add_product(Int& sum, Int weights, Int a, bool first) {
    const Int product = _mm256_maddubs_epi16(weights, a);
    sum = first ? product : _mm256_add_epi16(sum, product);
    asm("" : "+x"(sum));
  }

  /// 32-bit sum += products of 8 quads, as many as fit 16 bits.
  static NIBBLE_INLINE void add_product(Int& sum, Int weights, Int a) {
    Int narrow = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int quad = 0; quad < 8; ++quad) {
      // A fresh value for the compiler, another in each chain, so that it keeps each product.
      asm("" : "+x"(weights) : "x"(sum));
      add_product(narrow, weights, a, quad == 0);
    }
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(narrow, _mm256_set1_epi16(1)));
  }

  /// 16-bit sums of `Quads` quads from pair `pair` on: sums[column][token].
  template <int M, int Quads, class Source>
  static NIBBLE_INLINE void multiply(const Source& source, int part, std::int64_t unit, int pair,
                                     const std::int8_t* a, std::int64_t stride, Int (&sums)[2][M]) {
#pragma GCC unroll 4
    for (int p = 0; p < Quads / 2; ++p) {
      Int w[2][2];
      source.load(part, unit, pair + p, w);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        const std::int8_t* quads = a + i * stride + kQuad * 2 * (pair + p);
        const Int even = broadcast_quad(quads);
        const Int odd = broadcast_quad(quads + kQuad);
#pragma GCC unroll 2
        for (int c = 0; c < 2; ++c) {
          add_product(sums[c][i], w[0][c], even, p == 0);
          add_product(sums[c][i], w[1][c], odd, false);
        }
      }
    }
  }

  /// 32-bit sums of a unit or a half of it: sums[half][token] += weights * a.
  template <int V, int M, class Pairs, class Source>
  static NIBBLE_INLINE void multiply_unit(const Source& source, std::int64_t unit,
                                          const std::int8_t* a, std::int64_t stride,
                                          Int (&sums)[V][M]) {
    static_assert(V == 2, "a block is one tile");
    constexpr int kInUnit = 2 * (Pairs::kEnd - Pairs::kFirst);
    constexpr int kQuads = Source::kQuads < kInUnit ? Source::kQuads : kInUnit;
    if constexpr (Pairs::kFirst == 0) {
      source.prefetch(unit);
    }
    if constexpr (Source::kParts == 1) {
#pragma GCC unroll 2
      for (int pair = Pairs::kFirst; pair < Pairs::kEnd; pair += kQuads / 2) {
        add_whole<M, kQuads>(source, unit, pair, a, stride, sums);
      }
    } else {
      add_planes<M, kQuads>(source, 0, unit, Pairs::kFirst, a, stride, sums[0]);
      add_planes<M, kQuads>(source, 1, unit, Pairs::kFirst, a, stride, sums[1]);
    }
  }

  template <int M, int Quads, class Source>
  static NIBBLE_INLINE void add_whole(const Source& source, std::int64_t unit, int pair,
                                      const std::int8_t* a, std::int64_t stride,
                                      Int (&sums)[2][M]) {
    const Int ones = _mm256_set1_epi16(1);
    Int narrow[2][M];
    multiply<M, Quads>(source, 0, unit, pair, a, stride, narrow);
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        sums[half][i] = _mm256_add_epi32(sums[half][i], _mm256_madd_epi16(narrow[half][i], ones));
      }
    }
  }

  template <int M, int Quads, class Source>
  static NIBBLE_INLINE void add_planes(const Source& source, int half, std::int64_t unit, int pair,
                                       const std::int8_t* a, std::int64_t stride, Int (&sums)[M]) {
    const Int ones = _mm256_set1_epi16(1);
    const Int sixteens = _mm256_set1_epi16(16);
    Int narrow[2][M];
    multiply<M, Quads>(source, half, unit, pair, a, stride, narrow);
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
      const Int low = _mm256_madd_epi16(narrow[0][i], ones);
      const Int high = _mm256_madd_epi16(narrow[1][i], sixteens);
      sums[i] = _mm256_add_epi32(sums[i], _mm256_add_epi32(low, high));
    }
  }
};

/// Weights up to 255 as planes: columns are the low and the high nibbles, parts the halves of the
/// tile.
template <class Bytes>
struct Planes {
  static constexpr StoredAs kStoredAs = Bytes::kStoredAs;
  static constexpr int kParts = 2;
  static constexpr int kColumns = 2;
  static constexpr int kQuads = 8;
  Whole<Bytes, 2> whole;

  Planes(const TiledWeight& w, const Block<Avx2, 2>& block) : whole(w, block) {}
  NIBBLE_INLINE void prefetch(std::int64_t unit) const { whole.prefetch(unit); }
  NIBBLE_INLINE void load(int part, std::int64_t unit, int pair, __m256i (&w)[2][2]) const {
    __m256i even;
    __m256i odd;
    whole.bytes.load(part, unit, pair, even, odd);
    w[0][0] = Avx2::field(even, 0, 4);
    w[0][1] = Avx2::field(even, 4, 4);
    w[1][0] = Avx2::field(odd, 0, 4);
    w[1][1] = Avx2::field(odd, 4, 4);
  }
};

/// A table with entries up to 255 as two tables, one for each plane.
template <int Bits>
struct TablePlanes {
  static constexpr StoredAs kStoredAs = {CodeKind::kSharedTable, Bits};
  static constexpr int kParts = 2;
  static constexpr int kColumns = 2;
  static constexpr int kQuads = 8;
  Whole<CodeSource<Avx2, 2, Bits>, 2> whole;
  __m256i low_table;
  __m256i high_table;

  TablePlanes(const TiledWeight& w, const Block<Avx2, 2>& block) : whole(w, block) {
    const __m256i table = Avx2::broadcast_table(w.table);
    low_table = Avx2::field(table, 0, 4);
    high_table = Avx2::field(table, 4, 4);
  }
  NIBBLE_INLINE void prefetch(std::int64_t unit) const { whole.prefetch(unit); }
  NIBBLE_INLINE void load(int part, std::int64_t unit, int pair, __m256i (&w)[2][2]) const {
    __m256i even;
    __m256i odd;
    whole.bytes.load(part, unit, pair, even, odd);
    w[0][0] = Avx2::look_up(low_table, even);
    w[0][1] = Avx2::look_up(high_table, even);
    w[1][0] = Avx2::look_up(low_table, odd);
    w[1][1] = Avx2::look_up(high_table, odd);
  }
};

template <class Source>
using TilesOf = EachTile<Avx2, Source, 2>;

/// Rows with tables of their own: those have any entries.
template <class Codes>
struct Tiles : TilesOf<Planes<typename Codes::template Source<Avx2, 2>>> {};

/// Integers of at most 15.
template <int Bits>
struct Tiles<Integers<Bits>> : TilesOf<Whole<CodeSource<Avx2, 2, Bits>, 2, 8>> {};
template <>
struct Tiles<Integers<8>> : TilesOf<Planes<CodeSource<Avx2, 2, 8>>> {};

/// A shared table, which tells its largest entry.
template <int Bits>
struct Tiles<SharedTable<Bits>> {
  static void run(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
                  float* y, std::int64_t ldy) {
    using SmallTable = Whole<SharedTableSource<Avx2, 2, Bits>, 2, 4>;
    return w.largest <= kSmallWeight ? TilesOf<SmallTable>::run(w, x, begin, end, y, ldy)
                                     : TilesOf<TablePlanes<Bits>>::run(w, x, begin, end, y, ldy);
  }
};

}  // namespace

Variant avx2_variant() {
  return variant_of<Avx2>(
      "avx2", "AVX2 with FMA and F16C", [] { return cpu_features().avx2; }, run_by_kind<Tiles>);
}

}  // namespace nibble::ops::cpu
