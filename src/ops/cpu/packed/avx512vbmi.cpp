#include "ops/cpu/cpu_features.h"
#include "ops/cpu/packed/gathered_kernel.h"
#include "ops/cpu/packed/lanes512.h"
#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"
#include "ops/cpu/packed/variants.h"

// avx512vnni with another look-up where every row has its table of 16 entries. A byte shuffle looks
// up inside lanes of 16 bytes, which hold 4 rows, and takes four instructions for 64 codes. vpermb
// looks up in 64 bytes, the tables of 4 rows, and takes one when all codes of a vector belong to
// these. The four lines of a unit are therefore turned by lanes, two nibbles at a time:
//
//            lane 0       1        2         3                     lane 0     1     2     3
//   line p   rows 0..3    4..7     8..11     12..15       fours r  line 0     1     2     3
//                                                                  rows 4r .. 4r+3 in each lane
//
// Products of fours r go into sums of their own, whose lanes are added at the end of a group. That
// costs every token 6 shuffles for each group and 2 for each unit, so it is for few tokens and for
// groups of more than one unit.
//
// Where two of each four codes are stored, few tokens gather activations (gathered_kernel.h). All
// else is left to avx512vnni.
namespace nibble::ops::cpu {
namespace {

constexpr int kFours = 4;                 // rows of a tile / 4
constexpr int kFewTokens = 3;             // that this look-up is faster for
constexpr std::int64_t kFourTables = 64;  // bytes of the tables of 4 rows

struct Avx512Vbmi : Lanes512 {
  /// sum += products of a quad. In assembly because GCC 12 copies the accumulator of the intrinsic.
  static NIBBLE_INLINE void add_product(Int& sum, Int weights, Int a) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(a));
  }
};
using Int = Avx512Vbmi::Int;

/// fours[r] has lane r of line p in its lane p.
NIBBLE_INLINE void turn_lanes(const std::uint8_t* lines, Int (&fours)[kFours]) {
  const Int line0 = Avx512Vbmi::load(lines);
  const Int line1 = Avx512Vbmi::load(lines + kLineBytes);
  const Int line2 = Avx512Vbmi::load(lines + 2 * kLineBytes);
  const Int line3 = Avx512Vbmi::load(lines + 3 * kLineBytes);
  const Int low01 = _mm512_shuffle_i32x4(line0, line1, 0x44);
  const Int low23 = _mm512_shuffle_i32x4(line2, line3, 0x44);
  const Int high01 = _mm512_shuffle_i32x4(line0, line1, 0xee);
  const Int high23 = _mm512_shuffle_i32x4(line2, line3, 0xee);
  fours[0] = _mm512_shuffle_i32x4(low01, low23, 0x88);
  fours[1] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
  fours[2] = _mm512_shuffle_i32x4(high01, high23, 0x88);
  fours[3] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
}

/// Lane r of the result is the sum of the lanes of fours[r]: 16 rows as in a line.
NIBBLE_INLINE Int add_lanes(Int four0, Int four1, Int four2, Int four3) {
  const Int low = _mm512_add_epi32(_mm512_shuffle_i32x4(four0, four1, 0x88),
                                   _mm512_shuffle_i32x4(four0, four1, 0xdd));
  const Int high = _mm512_add_epi32(_mm512_shuffle_i32x4(four2, four3, 0x88),
                                    _mm512_shuffle_i32x4(four2, four3, 0xdd));
  return _mm512_add_epi32(_mm512_shuffle_i32x4(low, high, 0x88),
                          _mm512_shuffle_i32x4(low, high, 0xdd));
}

/// Weights of turned codes.
class TurnedTables {
 public:
  explicit TurnedTables(const std::uint8_t* tables)
      : row_(_mm512_broadcast_i32x4(_mm_set_epi32(0x30303030, 0x20202020, 0x10101010, 0))),
        nibble_(_mm512_set1_epi8(15)) {
    for (int r = 0; r < kFours; ++r) {
      tables_[r] = Avx512Vbmi::load(tables + r * kFourTables);
    }
  }
  NIBBLE_INLINE Int low(int r, Int codes) const { return look_up(r, codes); }
  NIBBLE_INLINE Int high(int r, Int codes) const { return look_up(r, _mm512_srli_epi16(codes, 4)); }

 private:
  NIBBLE_INLINE Int look_up(int r, Int codes) const {
    constexpr int kFirstAndSecondOrThird = 0xea;
    return _mm512_permutexvar_epi8(
        _mm512_ternarylogic_epi32(codes, nibble_, row_, kFirstAndSecondOrThird), tables_[r]);
  }

  Int row_;  // 16 * row of the lane's four: where its table begins
  Int nibble_;
  Int tables_[kFours] = {};
};

/// sums[r][i] += products of a unit.
template <int M>
NIBBLE_INLINE void multiply_turned(const std::uint8_t* lines, const TurnedTables& tables,
                                   const std::int8_t* a, std::int64_t stride,
                                   Int (&sums)[kFours][M]) {
  Int fours[kFours];
  turn_lanes(lines, fours);
  // Lane p meets the quads 2p and 2p + 1.
  const Int even_quads = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
  const Int odd_quads = _mm512_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 7);
  Int even[M];
  Int odd[M];
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) {
    const Int codes = _mm512_castsi256_si512(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i * stride)));
    even[i] = _mm512_permutexvar_epi32(even_quads, codes);
    odd[i] = _mm512_permutexvar_epi32(odd_quads, codes);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kFours; ++r) {
    const Int low = tables.low(r, fours[r]);
    const Int high = tables.high(r, fours[r]);
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
      Avx512Vbmi::add_product(sums[r][i], low, even[i]);
      Avx512Vbmi::add_product(sums[r][i], high, odd[i]);
    }
  }
}

/// M tokens over one tile.
template <int M>
NIBBLE_NOINLINE void run_turned(const TiledWeight& w, const TiledInput& x, std::int64_t tile,
                                float* y, std::int64_t ldy) {
  using Lines = CodeSource<Avx512Vbmi, 1, 4>;
  const Block<Avx512Vbmi, 1> block(w, tile);
  prefetch_header(w, tile);
  const TurnedTables tables(block.at[0].tables);
  const Tokens tokens = tokens_at(x, 0, 0, w.group_inputs);
  const Int zero[1] = {Avx512Vbmi::negative_zero(w.zero)};
  Avx512Vbmi::Float total[1][M];
  for (int i = 0; i < M; ++i) {
    total[0][i] = Avx512Vbmi::zero();
  }
  const std::uint8_t* lines = block.at[0].codes;
  const std::int8_t* a = tokens.codes;
  for (std::int64_t g = 0; g < w.groups; ++g) {
    Int fours[kFours][M] = {};
    for (std::int64_t u = 0; u < w.units_per_group(); ++u, lines += Lines::kUnitBytes, a += kUnit) {
      prefetch_unit<Lines::kUnitBytes>(lines, 0, kPrefetchBytes);
      multiply_turned<M>(lines, tables, a, tokens.row_stride, fours);
    }
    Int sums[1][M];
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
      sums[0][i] = add_lanes(fours[0][i], fours[1][i], fours[2][i], fours[3][i]);
    }
    if (w.sums_whole_rows()) {
      add_zeros_of_row<Avx512Vbmi, 1, M>(w, block, tokens, sums);
    } else {
      add_zeros<Avx512Vbmi, 1, M>(zero, tokens, g, sums);
    }
    add_scaled<Avx512Vbmi, 1, M>(block, tokens, g, sums, total);
  }
  for (int i = 0; i < M; ++i) {
    const std::int64_t row = tile * kTileRows;
    store<Avx512Vbmi>(w, row, total[0][i], block.at[0].units, y + i * ldy + row);
  }
}

template <int M>
void run_tiles(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
               float* y, std::int64_t ldy) {
  if constexpr (M > 1) {
    if (x.m < M) {
      return run_tiles<M - 1>(w, x, begin, end, y, ldy);
    }
  }
  for (std::int64_t tile = begin; tile < end; ++tile) {
    run_turned<M>(w, x, tile, y, ldy);
  }
}

void run(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end, float* y,
         std::int64_t ldy) {
  static const Variant vnni = avx512vnni_variant();
  if (w.two_of_four && x.m <= kGatheredTokens) {
    return w.bits == 8 ? run_gathered_tiles<Avx512Vbmi, 8>(w, x, begin, end, y, ldy)
                       : run_gathered_tiles<Avx512Vbmi, 4>(w, x, begin, end, y, ldy);
  }
  const bool turns = w.kind == CodeKind::kRowTables && w.bits == 4 && w.group_inputs > kUnit;
  if (!turns || x.m > kFewTokens) {
    return vnni.run(w, x, begin, end, y, ldy);
  }
  run_tiles<kFewTokens>(w, x, begin, end, y, ldy);
}

}  // namespace

Variant avx512vbmi_variant() {
  Variant variant = avx512vnni_variant();
  variant.name = "avx512vbmi";
  variant.needs = "AVX512-VBMI and AVX512-VNNI (with AVX512 F, BW, DQ, VL)";
  variant.runs_here = [] { return cpu_features().avx512vbmi; };
  variant.run = run;
  return variant;
}

}  // namespace nibble::ops::cpu
