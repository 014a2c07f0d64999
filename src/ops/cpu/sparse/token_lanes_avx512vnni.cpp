#include <cstddef>

#include "ops/cpu/sparse/token_lanes.h"
#include "ops/cpu/sparse/unit_rows.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::ptrdiff_t kQuadBytes = kSparseQuad * kSparseLanes;
constexpr int kMostPieces = 2 * kSparseRowLanes;  // of a unit

/// A unit of nibbles, widened. Less their zero, bytes would not fit 8 bits.
template <class Form>
struct WideUnit {
  alignas(64) std::int8_t weights[kSparseUnit];  // code - zero, in the order of the unit's vectors
  alignas(64) std::int32_t starts[kMostPieces];  // of pieces: -128 * the sum of its weights
  alignas(64) float scales[kMostPieces];         // of pieces

  NIBBLE_INLINE void read(const Unit<Form>& unit) {
    static_assert(Form::kHeldBits == 4);
    const __m512i ones = _mm512_set1_epi8(1);
    const __m512i each_four_times = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
#pragma GCC unroll 2
    for (int half = 0; half < Form::kHalves; ++half) {
      const __m512i zeros =
          _mm512_shuffle_epi8(_mm512_cvtepu8_epi32(unit.zeros(half)), each_four_times);
      __m512i sums = _mm512_setzero_si512();
#pragma GCC unroll 4
      for (int q = 0; q < Form::kQuads; ++q) {
        const __m512i both = _mm512_loadu_si512(unit.codes(half, q));
        const __m512i codes = _mm512_and_si512(
            unit.is_high(half, q) ? _mm512_srli_epi16(both, 4) : both, _mm512_set1_epi8(15));
        const __m512i own = _mm512_sub_epi8(codes, zeros);
        _mm512_store_si512(weights + (half * Form::kQuads + q) * kSparseVector, own);
        sums = _mm512_dpbusd_epi32(sums, ones, own);
      }
      _mm512_store_si512(starts + half * kSparseRowLanes,
                         _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sums, 7)));
      _mm256_store_ps(scales + half * kSparseRowLanes, unit.lane_scales(half, 0));
      _mm256_store_ps(scales + half * kSparseRowLanes + 8, unit.lane_scales(half, 8));
    }
  }

  /// total += the products of piece `piece`, which has this lane and is of this entry.
  NIBBLE_INLINE void add_piece(const Unit<Form>& unit, const SparseLanes& x, int piece,
                               __m512& total) const {
    constexpr int kGroupQuads = Form::kGroup / kSparseQuad;
    const std::int64_t group = unit.base() + unit.place(piece / Form::kShared);
    const std::uint8_t* const codes =
        x.codes + (group * kGroupQuads + piece % Form::kShared * Form::kQuads) * kQuadBytes;
    const int first = piece / kSparseRowLanes * Form::kQuads;  // vector
    __m512i sums = _mm512_set1_epi32(starts[piece]);
#pragma GCC unroll 4
    for (int q = 0; q < Form::kQuads; ++q) {
      const std::int8_t* const quad =
          weights + (first + q) * kSparseVector + piece % kSparseRowLanes * kSparseQuad;
      sums = _mm512_dpbusd_epi32(sums, _mm512_load_si512(codes + q * kQuadBytes),
                                 _mm512_set1_epi32(load_as<std::int32_t>(quad)));
    }
    const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(scales[piece]),
                                       _mm512_load_ps(x.scales + group * kSparseLanes));
    total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), scale, total);
  }
};

/// The sums of one row for 16 tokens, a register for each lane of sparse_rows.h.
NIBBLE_INLINE __m512 sum_of(const __m512 (&sums)[kSparseRowLanes]) {
  const auto quarter = [&](int i) {
    return _mm512_add_ps(_mm512_add_ps(sums[i], sums[i + 8]),
                         _mm512_add_ps(sums[i + 4], sums[i + 12]));
  };
  return _mm512_add_ps(_mm512_add_ps(quarter(0), quarter(2)),
                       _mm512_add_ps(quarter(1), quarter(3)));
}

template <class Form>
void run_rows_of(const SparseWeight& w, const SparseLanes& x, std::int64_t begin, std::int64_t end,
                 float* y, std::int64_t ldy) {
  WideUnit<Form> wide;
  alignas(64) float values[kSparseLanes];
  for (std::int64_t row = begin; row < end; ++row) {
    __m512 sums[kSparseRowLanes] = {};
    const float row_unit = Form::kScaleBytes == 1 ? w.row_units[row] : 0.0f;
    for (std::int64_t at = w.first_unit[row]; at < w.first_unit[row + 1]; ++at) {
      const Unit<Form> unit{w.units + at * Form::kLayout.bytes, row_unit};
      wide.read(unit);
#pragma GCC unroll 2
      for (int half = 0; half < Form::kHalves; ++half) {
#pragma GCC unroll 16
        for (int lane = 0; lane < kSparseRowLanes; ++lane) {
          wide.add_piece(unit, x, half * kSparseRowLanes + lane, sums[lane]);
        }
      }
    }
    _mm512_store_ps(values, sum_of(sums));
    for (std::int64_t i = 0; i < x.tokens; ++i) {
      y[i * ldy + row] = values[i];
    }
  }
}

}  // namespace

void run_token_lanes_avx512vnni(const SparseWeight& w, const SparseLanes& x, std::int64_t begin,
                                std::int64_t end, float* y, std::int64_t ldy) {
  with_form<UnitForm, 4>(w,
                         [&](auto form) { run_rows_of<decltype(form)>(w, x, begin, end, y, ldy); });
}

}  // namespace nibble::ops::cpu
