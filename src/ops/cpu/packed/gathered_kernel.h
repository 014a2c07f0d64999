#pragma once

#include <cstdint>

#include <immintrin.h>

#include "ops/cpu/packed/lanes512.h"
#include "ops/cpu/packed/tile_kernel.h"

/// Few tokens over tiles of which two of each four codes are stored (tile_layout.h). The weights
/// stay as they lie, 4 of a row for 8 inputs, and each row gathers the activations that they meet:
///
///   activations of 2 quads      a0 a1 a2 a3 | a4 a5 a6 a7     the same for all rows
///   indices of a row               1     3  |  0     2
///   gathered                      a1    a3    a4    a6        times its 4 codes
///
/// What is left out of a quad must not meet the zero point either, so the gathered activations are
/// summed too:
///
///   sum over k in g of (u(r, k) - zero(r, g)) * a(k)   over the k that row r keeps.
///
/// In an unnamed namespace, as tile_kernel.h. Needs AVX512-VBMI and AVX512-VNNI.
namespace nibble::ops::cpu {
namespace {

/// Indices and codes of the tiles of one width.
template <int Bits>
class GatheredUnit {
 public:
  using Int = __m512i;

  GatheredUnit() {
    // Two rows share 64 bits: a byte takes its 2 bits from pair 0 of its row.
    const Int first = _mm512_set1_epi64(0x2624222006040200);
    for (int pair = 0; pair < kPairsPerUnit; ++pair) {
      shifts_[pair] = _mm512_add_epi8(first, _mm512_set1_epi8(static_cast<char>(8 * pair)));
    }
  }

  /// Where the four activations of each row stand among the 8 of a pair.
  NIBBLE_INLINE Int places(const std::uint8_t* unit, int pair) const {
    constexpr int kFirstAndSecondOrThird = 0xea;
    const Int fields = _mm512_multishift_epi64_epi8(shifts_[pair], Lanes512::load(unit));
    return _mm512_ternarylogic_epi32(fields, _mm512_set1_epi8(3), _mm512_set1_epi32(0x04040000),
                                     kFirstAndSecondOrThird);
  }
  /// The four codes of each row, with `zero` in each byte.
  NIBBLE_INLINE Int codes(const std::uint8_t* unit, int pair, Int zero) const {
    const std::uint8_t* const lines = unit + kLineBytes;
    if constexpr (Bits == 8) {
      return _mm512_xor_si512(Lanes512::load(lines + pair * kLineBytes), zero);
    } else {
      constexpr int kFirstAndSecondXorThird = 0x6a;
      const Int line = Lanes512::load(lines + pair / 2 * kLineBytes);
      return _mm512_ternarylogic_epi32(pair % 2 == 0 ? line : _mm512_srli_epi16(line, 4),
                                       _mm512_set1_epi8(15), zero, kFirstAndSecondXorThird);
    }
  }

 private:
  Int shifts_[kPairsPerUnit] = {};
};

/// M tokens over one tile. `Isa` gives Lanes512 and the product.
template <class Isa, int Bits, int M>
NIBBLE_NOINLINE void run_gathered(const TiledWeight& w, const TiledInput& x, std::int64_t tile,
                                  float* y, std::int64_t ldy) {
  using Int = typename Isa::Int;
  const Block<Isa, 1> block(w, tile);
  const VectorPlace& at = block.at[0];
  prefetch_header(w, tile);
  const GatheredUnit<Bits> kept;
  const Int ones = _mm512_set1_epi8(1);
  const Tokens tokens = tokens_at(x, 0, 0, w.group_inputs);
  Int zero = Isa::broadcast_byte(w.zero);
  Int wide_zeros = _mm512_set1_epi32(w.zero);
  typename Isa::Float total[1][M];
  for (int i = 0; i < M; ++i) {
    total[0][i] = Isa::zero();
  }
  const std::uint8_t* unit = at.codes;
  const std::int8_t* a = tokens.codes;
  for (std::int64_t g = 0; g < w.groups; ++g) {
    if (at.zeros != nullptr) {
      zero = Isa::bytes_of_rows(at.zeros + g * kTileRows);
      wide_zeros = _mm512_cvtepu8_epi32(
          _mm_load_si128(reinterpret_cast<const __m128i*>(at.zeros + g * kTileRows)));
    }
    Int sums[1][M] = {};
    Int met[M] = {};
    for (std::int64_t u = 0; u < w.units_per_group(); ++u) {
      prefetch_unit<kept_unit_bytes(Bits)>(unit, 0, kPrefetchBytes);
#pragma GCC unroll 4
      for (int pair = 0; pair < kPairsPerUnit; ++pair) {
        const Int places = kept.places(unit, pair);
        const Int codes = kept.codes(unit, pair, zero);
#pragma GCC unroll 4
        for (int i = 0; i < M; ++i) {
          std::int64_t quads = 0;
          __builtin_memcpy(&quads, a + i * tokens.row_stride + pair * std::int64_t{2} * kQuad,
                           sizeof(quads));
          const Int gathered = Isa::look_up(_mm512_set1_epi64(quads), places);
          Isa::add_product(sums[0][i], codes, gathered);
          Isa::add_product(met[i], ones, gathered);
        }
      }
      unit += kept_unit_bytes(Bits);
      a += kUnit;
    }
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
      sums[0][i] = _mm512_sub_epi32(sums[0][i], _mm512_mullo_epi32(wide_zeros, met[i]));
    }
    add_scaled<Isa, 1, M>(block, tokens, g, sums, total);
  }
  for (int i = 0; i < M; ++i) {
    const std::int64_t row = tile * kTileRows;
    store<Isa>(w, row, total[0][i], at.units, y + i * ldy + row);
  }
}

template <class Isa, int Bits, int M>
void dispatch_gathered(const TiledWeight& w, const TiledInput& x, std::int64_t tile, float* y,
                       std::int64_t ldy) {
  if constexpr (M > 1) {
    if (x.m < M) {
      return dispatch_gathered<Isa, Bits, M - 1>(w, x, tile, y, ldy);
    }
  }
  run_gathered<Isa, Bits, M>(w, x, tile, y, ldy);
}

constexpr int kGatheredTokens = 4;  // with more, lines that were made whole serve them as fast

/// Tiles [begin, end) of at most kGatheredTokens tokens; as Variant::run.
template <class Isa, int Bits>
void run_gathered_tiles(const TiledWeight& w, const TiledInput& x, std::int64_t begin,
                        std::int64_t end, float* y, std::int64_t ldy) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    dispatch_gathered<Isa, Bits, kGatheredTokens>(w, x, tile, y, ldy);
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
