#include "ops/cpu/cpu_features.h"
#include "ops/cpu/packed/lanes128.h"
#include "ops/cpu/packed/tile_sources.h"
#include "ops/cpu/packed/variant_of.h"

// SDOT multiplies s8 with s8 and adds the four products of a quad in 32 bits, exactly. Nibbles are
// no different when they are signed. Weights up to 255 are taken 128 lower, u ^ 0x80 as a signed
// byte, and so are their zero points, which leaves the bracket of tile_layout.h as it is:
//
//   sum of (u - 128) * a  -  (zero - 128) * sum of a   =   sum of u * a  -  zero * sum of a
//
// A block is one tile of four vectors. The instruction takes a quad of activations for all rows out
// of a vector that holds four of them:
//
//   32 registers   sums [4 vectors][4 tokens] = 16, weights of two quads 8, activation codes 4
namespace nibble::ops::cpu {
namespace {

constexpr int kSignOffset = 128;
constexpr int kQuadsPerVector = 4;

/// `Offset`: what the weights were lowered by, 0 or kSignOffset.
template <int Offset>
struct NeonDotprod : Lanes128 {
  static constexpr bool kPairsTokens = false;
  static constexpr bool kZerosFirst = true;
  static constexpr bool kLowers = Offset != 0;
  static constexpr int kProducts = 16;

  static NIBBLE_INLINE uint8x16_t lowered(uint8x16_t v) { return veorq_u8(v, vdupq_n_u8(Offset)); }

  static NIBBLE_INLINE Int broadcast_table(const std::uint8_t* p) {
    return from_bytes(lowered(vld1q_u8(p)));
  }
  static NIBBLE_INLINE RowTables2 load_row_tables(const std::uint8_t* p, Width<2> width) {
    return {lowered(Lanes128::load_row_tables(p, width).entries)};
  }
  template <class Wide>
  static NIBBLE_INLINE auto load_row_tables(const std::uint8_t* p, Wide width) {
    auto tables = Lanes128::load_row_tables(p, width);
    for (uint8x16_t& table : tables.val) {
      table = lowered(table);
    }
    return tables;
  }
  static NIBBLE_INLINE Int negative_zero(int zero) { return vdupq_n_s32(Offset - zero); }
  static NIBBLE_INLINE Int negative_zeros(const std::uint8_t* p) {
    return add(Lanes128::negative_zeros(p), broadcast(std::int32_t{Offset}));
  }

  /// sum += products of a quad. The empty assembly keeps each of them.
  static NIBBLE_INLINE void add_product(Int& sum, Int weights, Int a) {
    sum = vdotq_laneq_s32(sum, signed_bytes(weights), signed_bytes(a), 0);
    asm("" : "+w"(sum));
  }

  /// sums[vector][token] += products of quad `Quad` of the 16 codes that each token has in `a`.
  template <int Quad, int V, int M>
  static NIBBLE_INLINE void add_products(const Int (&w)[V], const int8x16_t (&a)[M],
                                         Int (&sums)[V][M]) {
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        sums[v][i] = vdotq_laneq_s32(sums[v][i], signed_bytes(w[v]), a[i], Quad);
      }
    }
  }

  /// sums[vector][token] += products of a unit.
  template <int V, int M, class Pairs, class Source>
  static NIBBLE_INLINE void multiply_unit(const Source& source, std::int64_t unit,
                                          const std::int8_t* a, std::int64_t stride,
                                          Int (&sums)[V][M]) {
    if constexpr (Pairs::kFirst == 0) {
      source.prefetch(unit);
    }
#pragma GCC unroll 2
    for (int pair = Pairs::kFirst; pair < Pairs::kEnd; pair += kQuadsPerVector / 2) {
      int8x16_t codes[M];
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        codes[i] = vld1q_s8(a + i * stride + 2 * kQuad * pair);
      }
      Int w[2][V];
      source.load(0, unit, pair, w);
      add_products<0>(w[0], codes, sums);
      add_products<1>(w[1], codes, sums);
      source.load(0, unit, pair + 1, w);
      add_products<2>(w[0], codes, sums);
      add_products<3>(w[1], codes, sums);
    }
  }
};

using AsTheyAre = NeonDotprod<0>;
using Lowered = NeonDotprod<kSignOffset>;

/// 8-bit codes, lowered.
template <class Isa, int V>
struct LoweredByteSource {
  using Int = typename Isa::Int;
  static constexpr StoredAs kStoredAs = CodeSource<Isa, V, 8>::kStoredAs;
  static constexpr std::int64_t kUnitBytes = CodeSource<Isa, V, 8>::kUnitBytes;
  CodeSource<Isa, V, 8> codes;

  LoweredByteSource(const TiledWeight& w, const Block<Isa, V>& block) : codes(w, block) {}
  NIBBLE_INLINE void load(int v, std::int64_t unit, int pair, Int& even, Int& odd) const {
    codes.load(v, unit, pair, even, odd);
    even = Isa::from_bytes(Isa::lowered(Isa::bytes(even)));
    odd = Isa::from_bytes(Isa::lowered(Isa::bytes(odd)));
  }
};

template <class Isa, template <class, int> class Source>
using TilesOf =
    EachTile<Isa, Whole<Source<Isa, Lanes128::kVectors>, Lanes128::kVectors>, Lanes128::kVectors>;

/// Books have any weights, integers of few bits small ones.
template <class Codes>
struct Tiles : TilesOf<Lowered, Codes::template Source> {};
template <int Bits>
struct Tiles<Integers<Bits>> : TilesOf<AsTheyAre, Integers<Bits>::template Source> {};
template <>
struct Tiles<Integers<8>> : TilesOf<Lowered, LoweredByteSource> {};

}  // namespace

Variant neon_dotprod_variant() {
  return variant_of<AsTheyAre>(
      "neon-dotprod", "the dot product instructions of ARMv8.2 (asimddp)",
      [] { return cpu_features().dotprod; }, run_by_kind<Tiles>);
}

}  // namespace nibble::ops::cpu
