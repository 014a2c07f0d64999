#include "ops/cpu/cpu_features.h"
#include "ops/cpu/packed/lanes128.h"
#include "ops/cpu/packed/quantize_row.h"
#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"
#include "ops/cpu/packed/variants.h"

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

constexpr int kVectors = 4;
constexpr int kSignOffset = 128;
constexpr int kQuadsPerVector = 4;

/// `Offset`: what the weights were lowered by, 0 or kSignOffset.
template <int Offset>
struct NeonDotprod : Lanes128 {
  static constexpr bool kPairsTokens = false;
  static constexpr bool kZerosFirst = true;
  static constexpr int kDirectTokens = 4;
  static constexpr int kDirectLimit =
      8;  // tokens from which unpacking should pay: as AVX2, not timed
  static constexpr int kPanelTokens = 4;
  static constexpr std::int64_t kTokenBlock = 64;

  static NIBBLE_INLINE uint8x16_t lowered(uint8x16_t v) { return veorq_u8(v, vdupq_n_u8(Offset)); }

  static NIBBLE_INLINE Int broadcast_table(const std::uint8_t* p) {
    return from_bytes(lowered(vld1q_u8(p)));
  }
  static NIBBLE_INLINE RowTables load_row_tables(const std::uint8_t* p) {
    RowTables tables = vld1q_u8_x4(p);
    for (uint8x16_t& table : tables.val) {
      table = lowered(table);
    }
    return tables;
  }
  static NIBBLE_INLINE Int negative_zero(int zero) { return vdupq_n_s32(Offset - zero); }
  static NIBBLE_INLINE Int negative_zeros(const std::uint8_t* p) {
    return add(Lanes128::negative_zeros(p), broadcast(std::int32_t{Offset}));
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
  template <int V, int M, class Source>
  static NIBBLE_INLINE void multiply_unit(const Source& source, std::int64_t unit,
                                          const std::int8_t* a, std::int64_t stride,
                                          Int (&sums)[V][M]) {
    source.prefetch(unit);
#pragma GCC unroll 2
    for (int pair = 0; pair < kPairsPerUnit; pair += kQuadsPerVector / 2) {
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

using Nibbles = NeonDotprod<0>;
using Lowered = NeonDotprod<kSignOffset>;

/// 8-bit codes, lowered.
template <class Isa, int V>
struct LoweredByteSource {
  using Int = typename Isa::Int;
  static constexpr std::int64_t kUnitBytes = ByteSource<Isa, V>::kUnitBytes;
  ByteSource<Isa, V> codes;

  LoweredByteSource(const TiledWeight& w, const Block<Isa, V>& block) : codes(w, block) {}
  NIBBLE_INLINE void load(int v, std::int64_t unit, int pair, Int& even, Int& odd) const {
    codes.load(v, unit, pair, even, odd);
    even = Isa::from_bytes(Isa::lowered(Isa::bytes(even)));
    odd = Isa::from_bytes(Isa::lowered(Isa::bytes(odd)));
  }
};

template <class Isa, template <class, int> class Bytes>
void run_tiles(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
               float* y, std::int64_t ldy) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    run_block<Isa, Whole<Bytes<Isa, kVectors>, kVectors>, kVectors>(w, x, tile, y, ldy);
  }
}

void run(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end, float* y,
         std::int64_t ldy) {
  switch (w.kind) {
    case CodeKind::kNibble:
      return run_tiles<Nibbles, NibbleSource>(w, x, begin, end, y, ldy);
    case CodeKind::kSharedTable:
      return run_tiles<Lowered, SharedTableSource>(w, x, begin, end, y, ldy);
    case CodeKind::kRowTables:
      return run_tiles<Lowered, RowTableSource>(w, x, begin, end, y, ldy);
    case CodeKind::kByte:
      return run_tiles<Lowered, LoweredByteSource>(w, x, begin, end, y, ldy);
  }
}

std::int64_t multiply_registers(std::int64_t rounds) {
  constexpr int kChains = 16;  // latency 3 or 4, at most four each cycle
  int8x16_t weights = vdupq_n_s8(15);
  const int8x16_t a = vdupq_n_s8(3);
  int32x4_t sums[kChains] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
    asm("" : "+w"(weights));  // a fresh value for the compiler, so that it keeps each product
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) {
      sums[c] = vdotq_laneq_s32(sums[c], weights, a, 0);
    }
  }
  asm volatile("" : : "m"(sums));
  return rounds * kChains * 16;
}

}  // namespace

Variant neon_dotprod_variant() {
  return {"neon-dotprod",
          "the dot product instructions of ARMv8.2 (asimddp)",
          [] { return cpu_features().dotprod; },
          run,
          quantize_row,
          multiply_registers,
          NeonDotprod::kDirectLimit};
}

}  // namespace nibble::ops::cpu
