#include <cstddef>

#include "ops/cpu/sparse/token_lanes.h"
#include "ops/cpu/sparse/unit_rows.h"

namespace nibble::ops::cpu {
namespace {

constexpr int kVectors = kSparseUnit / kSparseVector;
constexpr int kQuads = kSparseVector / kSparseQuad;  // of a vector
constexpr std::ptrdiff_t kQuadBytes = kSparseQuad * kSparseLanes;
constexpr int kMostUnits = 16;  // that are widened at a time

/// Some units of a row, widened.
template <class Form>
struct WideUnits {
  static constexpr int kEntries = Form::kLayout.entries;
  alignas(64) std::int8_t weights[kMostUnits][kSparseUnit];                // code - zero
  alignas(64) std::int32_t starts[kMostUnits][kSparseUnit / kSparseQuad];  // -128 * their sums
  alignas(64) float scales[kMostUnits][kEntries < 8 ? 8 : kEntries];
  std::int32_t groups[kMostUnits][kEntries];
};

template <class Form>
NIBBLE_INLINE __m512i zeros_of(const Unit<Form>& unit, int vector) {
  const __m512i all = _mm512_broadcast_i32x4(load_16(unit.zeros(vector / 2)));
  const __m512i bytes =
      Form::kHeldBits == 8
          ? all
          : _mm512_and_si512(vector < 2 ? all : _mm512_srli_epi16(all, 4), _mm512_set1_epi8(15));
  return _mm512_shuffle_epi8(
      bytes, _mm512_load_si512(kEntries<Form::kGroup>.bytes + vector % 2 * kSparseVector));
}

/// Only of nibbles: less their zero, bytes would not fit 8 bits.
template <class Form>
NIBBLE_INLINE void widen(const Unit<Form>& unit, int at, WideUnits<Form>& wide) {
  static_assert(Form::kHeldBits == 4);
  const __m512i ones = _mm512_set1_epi8(1);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m512i both = _mm512_loadu_si512(unit.codes() + v / 2 * kSparseVector);
    const __m512i codes =
        _mm512_and_si512(v % 2 == 0 ? both : _mm512_srli_epi16(both, 4), _mm512_set1_epi8(15));
    const __m512i weights = _mm512_sub_epi8(codes, zeros_of(unit, v));
    _mm512_store_si512(wide.weights[at] + v * kSparseVector, weights);
    const __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, weights);
    _mm512_store_si512(wide.starts[at] + v * kQuads,
                       _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sums, 7)));
  }
  const std::uint32_t base = unit.base();
  for (int entry = 0; entry < Form::kLayout.entries; entry += 8) {
    _mm256_storeu_ps(wide.scales[at] + entry, unit.scales(entry));
  }
  for (int entry = 0; entry < Form::kLayout.entries; ++entry) {
    wide.groups[at][entry] = static_cast<std::int32_t>(base + unit.place(entry));
  }
}

/// The sums of one row: sum[v % 2][q] of sparse_rows.h, for 16 tokens each.
struct RowSums {
  __m512 of[2][kQuads];
};

/// sums of piece `piece` of vectors `odd` and odd + 2 of `count` units.
template <class Form>
NIBBLE_INLINE void add_piece(const WideUnits<Form>& wide, int count, const SparseLanes& x, int odd,
                             int piece, RowSums& sums) {
  constexpr int kPieceQuads = kSparsePiece / kSparseQuad;
  constexpr int kGroupQuads = Form::kGroup / kSparseQuad;
  constexpr int kTogether = kGroupQuads < kPieceQuads ? kGroupQuads : kPieceQuads;  // of one entry
  const int first = piece * kPieceQuads;
  __m512 total[kPieceQuads];
  for (int q = 0; q < kPieceQuads; ++q) {
    total[q] = sums.of[odd][first + q];
  }
  for (int u = 0; u < count; ++u) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v += 2) {
      const int piece_quad = (v + odd) * kQuads + first;  // of the unit
      const std::int32_t* const starts = wide.starts[u] + piece_quad;
      const std::int8_t* const weights = wide.weights[u] + piece_quad * kSparseQuad;
#pragma GCC unroll 2
      for (int q = 0; q < kPieceQuads; q += kTogether) {
        const int entry = (piece_quad + q) / kGroupQuads;
        const std::int64_t group = wide.groups[u][entry];
        const std::uint8_t* const codes =
            x.codes + (group * kGroupQuads + (piece_quad + q) % kGroupQuads) * kQuadBytes;
        const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(wide.scales[u][entry]),
                                           _mm512_load_ps(x.scales + group * kSparseLanes));
#pragma GCC unroll 4
        for (int i = 0; i < kTogether; ++i) {
          const __m512i dot = _mm512_dpbusd_epi32(
              _mm512_set1_epi32(starts[q + i]), _mm512_load_si512(codes + i * kQuadBytes),
              _mm512_set1_epi32(load_as<std::int32_t>(weights + (q + i) * kSparseQuad)));
          total[q + i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, total[q + i]);
        }
      }
    }
  }
  for (int q = 0; q < kPieceQuads; ++q) {
    sums.of[odd][first + q] = total[q];
  }
}

NIBBLE_INLINE __m512 sum_of(const RowSums& sums) {
  const auto both = [&](int i) { return _mm512_add_ps(sums.of[0][i], sums.of[1][i]); };
  const auto four = [&](int i) {
    return _mm512_add_ps(_mm512_add_ps(both(i), both(i + 8)),
                         _mm512_add_ps(both(i + 4), both(i + 12)));
  };
  return _mm512_add_ps(_mm512_add_ps(four(0), four(2)), _mm512_add_ps(four(1), four(3)));
}

template <int Group, int ScaleBytes>
void run_rows_of(const SparseWeight& w, const SparseLanes& x, std::int64_t begin, std::int64_t end,
                 float* y, std::int64_t ldy) {
  using Form = UnitForm<Group, 4, ScaleBytes>;
  WideUnits<Form> wide;
  alignas(64) float values[kSparseLanes];
  for (std::int64_t row = begin; row < end; ++row) {
    RowSums sums = {};
    const float row_unit = ScaleBytes == 1 ? w.row_units[row] : 0.0f;
    for (std::int32_t first = w.first_unit[row]; first < w.first_unit[row + 1];
         first += kMostUnits) {
      const std::int32_t left = w.first_unit[row + 1] - first;
      const int count = left < kMostUnits ? left : kMostUnits;
      for (int u = 0; u < count; ++u) {
        widen(Unit<Form>{w.units + (std::int64_t{first} + u) * Form::kLayout.bytes, row_unit}, u,
              wide);
      }
      for (int piece = 0; piece < kSparseVector / kSparsePiece; ++piece) {
        add_piece(wide, count, x, 0, piece, sums);
        add_piece(wide, count, x, 1, piece, sums);
      }
    }
    _mm512_store_ps(values, sum_of(sums));
    for (std::int64_t i = 0; i < x.tokens; ++i) {
      y[i * ldy + row] = values[i];
    }
  }
}

template <int ScaleBytes>
void run_groups_of(const SparseWeight& w, const SparseLanes& x, std::int64_t begin,
                   std::int64_t end, float* y, std::int64_t ldy) {
  switch (w.group) {
    case 8:
      return run_rows_of<8, ScaleBytes>(w, x, begin, end, y, ldy);
    case 16:
      return run_rows_of<16, ScaleBytes>(w, x, begin, end, y, ldy);
    case 32:
      return run_rows_of<32, ScaleBytes>(w, x, begin, end, y, ldy);
    default:
      return run_rows_of<64, ScaleBytes>(w, x, begin, end, y, ldy);
  }
}

}  // namespace

void run_token_lanes_avx512vnni(const SparseWeight& w, const SparseLanes& x, std::int64_t begin,
                                std::int64_t end, float* y, std::int64_t ldy) {
  return w.scale_bytes == 1 ? run_groups_of<1>(w, x, begin, end, y, ldy)
                            : run_groups_of<2>(w, x, begin, end, y, ldy);
}

}  // namespace nibble::ops::cpu
