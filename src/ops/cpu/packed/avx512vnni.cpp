#include "ops/cpu/cpu_features.h"
#include "ops/cpu/packed/lanes512.h"
#include "ops/cpu/packed/quantize_row.h"
#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"
#include "ops/cpu/packed/variants.h"

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
  static constexpr int kDirectLimit = 16;  // tokens from which unpacking pays
  static constexpr int kPanelTokens = 6;
  static constexpr std::int64_t kTokenBlock = 72;

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
  static NIBBLE_INLINE Int broadcast_quad(const std::int8_t* p) {
    std::int32_t quad = 0;
    __builtin_memcpy(&quad, p, sizeof(quad));
    return _mm512_set1_epi32(quad);
  }

  /// sums[tile][token] += products of a unit.
  template <int V, int M, class Source>
  static NIBBLE_INLINE void multiply_unit(const Source& source, std::int64_t unit,
                                          const std::int8_t* a, std::int64_t stride,
                                          Int (&sums)[V][M]) {
    source.prefetch(unit);
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairsPerUnit; ++pair) {
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

template <template <class, int> class Bytes, int V>
void run_tiles(const TiledWeight& w, const TiledInput& x, std::int64_t tile, float* y,
               std::int64_t ldy) {
  run_block<Avx512Vnni, Whole<Bytes<Avx512Vnni, V>, V>, V>(w, x, tile, y, ldy);
}

template <template <class, int> class Bytes>
void run_all(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
             float* y, std::int64_t ldy) {
  std::int64_t tile = begin;
  if (x.m > Avx512Vnni::kDirectLimit) {
    for (; tile + 2 <= end; tile += 2) {
      run_tiles<Bytes, 2>(w, x, tile, y, ldy);
    }
  }
  for (; tile < end; ++tile) {
    run_tiles<Bytes, 1>(w, x, tile, y, ldy);
  }
}

void run(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end, float* y,
         std::int64_t ldy) {
  switch (w.kind) {
    case CodeKind::kNibble:
      return run_all<NibbleSource>(w, x, begin, end, y, ldy);
    case CodeKind::kSharedTable:
      return run_all<SharedTableSource>(w, x, begin, end, y, ldy);
    case CodeKind::kRowTables:
      return run_all<RowTableSource>(w, x, begin, end, y, ldy);
    case CodeKind::kByte:
      return run_all<ByteSource>(w, x, begin, end, y, ldy);
  }
}

std::int64_t multiply_registers(std::int64_t rounds) {
  constexpr int kChains = 12;  // latency 4 or 5, at most two each cycle
  const __m512i weights = _mm512_set1_epi8(15);
  const __m512i a = _mm512_set1_epi8(3);
  __m512i sums[kChains] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      Avx512Vnni::add_product(sums[c], weights, a);
    }
  }
  asm volatile("" : : "m"(sums));
  return rounds * kChains * 64;
}

}  // namespace

Variant avx512vnni_variant() {
  return {"avx512vnni",
          "AVX512-VNNI (with AVX512 F, BW, DQ, VL)",
          [] { return cpu_features().avx512vnni; },
          run,
          quantize_row,
          multiply_registers,
          Avx512Vnni::kDirectLimit};
}

}  // namespace nibble::ops::cpu
