#pragma once

#include <cstdint>

#include "ops/cpu/sparse/unit_loads.h"

/// The loops that the kernels with vectors share; included by one file for each, in an unnamed
/// namespace. Needs AVX2, FMA and F16C. The instruction set gives
///
///   Isa::Total                                   the sums of a row
///   Isa::add_unit<M>(unit, x, strides, total)    total[i] += the unit's products with token i
///   Isa::sum(total)                              y
///   Isa::kTokens                                 that a unit's weights serve at most
namespace nibble::ops::cpu {
namespace {

/// The layout of a unit, and what entry its quads are of.
template <int Group, int HeldBits, int ScaleBytes>
struct UnitForm {
  static constexpr int kGroup = Group;
  static constexpr int kHeldBits = HeldBits;
  static constexpr int kScaleBytes = ScaleBytes;
  static constexpr SparseUnitLayout kLayout = sparse_unit_layout_of(Group, HeldBits, ScaleBytes);
  static constexpr int kHalf = kLayout.entries / 2;  // entries of two vectors
};

/// Which entry each weight is of, and each quad. Vectors 2 and 3 have the entries of vectors 0 and
/// 1, and half of all more.
template <int Group>
struct EntryTables {
  alignas(64) std::uint8_t bytes[2 * kSparseVector];
  alignas(64) std::int32_t quads[kSparseUnit / kSparseQuad];

  constexpr EntryTables() : bytes(), quads() {
    for (int i = 0; i < 2 * kSparseVector; ++i) {
      bytes[i] = static_cast<std::uint8_t>(i / Group);
    }
    for (int i = 0; i < kSparseUnit / kSparseQuad; ++i) {
      quads[i] = i * kSparseQuad / Group;
    }
  }
};
template <int Group>
inline constexpr EntryTables<Group> kEntries;

/// One unit in memory.
template <class Form>
struct Unit {
  const std::uint8_t* bytes;
  float row_unit;  // of scales that are bytes

  NIBBLE_INLINE std::uint32_t base() const {
    return load_as<std::uint16_t>(bytes + Form::kLayout.base);
  }
  NIBBLE_INLINE std::uint32_t place(int entry) const { return bytes[entry]; }
  NIBBLE_INLINE const std::uint8_t* codes() const { return bytes + Form::kLayout.codes; }
  /// Eight scales from an entry on, of which there may be fewer.
  NIBBLE_INLINE __m256 scales(int entry) const {
    const std::uint8_t* const at = bytes + Form::kLayout.scales + Form::kScaleBytes * entry;
    if constexpr (Form::kScaleBytes == 2) {
      return _mm256_cvtph_ps(load_16(at));
    }
    const __m256i seven = _mm256_cvtepu8_epi32(load_16(at));
    const __m256 count = _mm256_cvtepi32_ps(_mm256_and_si256(seven, _mm256_set1_epi32(63)));
    const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(seven, _mm256_set1_epi32(64)), 25);
    return _mm256_xor_ps(_mm256_mul_ps(count, _mm256_set1_ps(row_unit)), _mm256_castsi256_ps(sign));
  }
  /// Of vectors 0 and 1 (half 0), or of 2 and 3, where they are bytes; else of all, the second half
  /// in the high nibbles. There are more bytes behind them.
  NIBBLE_INLINE const std::uint8_t* zeros(int half) const {
    return bytes + Form::kLayout.zeros + (Form::kHeldBits == 8 ? half * Form::kHalf : 0);
  }
};

/// The activations that meet a unit: codes and scales of its base.
struct UnitInput {
  const std::int8_t* codes;
  const float* scales;
};
struct InputStrides {
  std::int64_t codes;
  std::int64_t scales;
};

/// Codes of the piece that begins with weight `first` of the unit, a multiple of 16.
template <class Form>
NIBBLE_INLINE __m128i codes_of_piece(const Unit<Form>& unit, const std::int8_t* codes, int first) {
  constexpr int kGroup = Form::kGroup;
  const std::int8_t* const a = codes + unit.place(first / kGroup) * kGroup;
  if constexpr (kGroup == 8) {
    const std::int8_t* const b = codes + unit.place(first / kGroup + 1) * kGroup;
    return _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(a)),
                              _mm_loadl_epi64(reinterpret_cast<const __m128i*>(b)));
  } else {
    return load_16(a + first % kGroup);
  }
}

/// The same of two pieces.
template <class Form>
NIBBLE_INLINE __m256i codes_of_two(const Unit<Form>& unit, const std::int8_t* codes, int first) {
  if constexpr (Form::kGroup >= 2 * kSparsePiece) {
    return load_32(codes + unit.place(first / Form::kGroup) * Form::kGroup + first % Form::kGroup);
  } else {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(codes_of_piece(unit, codes, first)),
                                   codes_of_piece(unit, codes, first + kSparsePiece), 1);
  }
}
/// Of t[0 .. 8) and t[8 .. 16).
NIBBLE_INLINE float sum_of(__m256 low, __m256 high) {
  const __m256 both = _mm256_add_ps(low, high);
  const __m128 halves = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
  const __m128 pairs = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)));
}

/// Rows [begin, end) of M tokens from `token` on.
template <class Isa, class Form, int M>
void run_rows(const SparseWeight& w, const SparseInput& x, std::int64_t token, std::int64_t begin,
              std::int64_t end, float* y, std::int64_t ldy) {
  const UnitInput first = {x.codes + token * x.code_stride, x.scales + token * x.scale_stride};
  const InputStrides strides = {x.code_stride, x.scale_stride};
  for (std::int64_t row = begin; row < end; ++row) {
    typename Isa::Total total[M] = {};
    const float row_unit = Form::kScaleBytes == 1 ? w.row_units[row] : 0.0f;
    const std::uint8_t* const stop =
        w.units + std::int64_t{w.first_unit[row + 1]} * Form::kLayout.bytes;
    for (const std::uint8_t* at = w.units + std::int64_t{w.first_unit[row]} * Form::kLayout.bytes;
         at < stop; at += Form::kLayout.bytes) {
      const Unit<Form> unit = {at, row_unit};
      prefetch_behind<Form::kLayout.bytes>(at);
      const std::uint32_t base = unit.base();
      const UnitInput input = {first.codes + base * Form::kGroup, first.scales + base};
      Isa::template add_unit<M>(unit, input, strides, total);
    }
    for (int i = 0; i < M; ++i) {
      y[(token + i) * ldy + row] = Isa::sum(total[i]);
    }
  }
}

template <class Isa, class Form, int M = Isa::kTokens>
void run_tokens(const SparseWeight& w, const SparseInput& x, std::int64_t token, std::int64_t count,
                std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) {
  if constexpr (M > 1) {
    if (count < M) {
      return run_tokens<Isa, Form, M - 1>(w, x, token, count, begin, end, y, ldy);
    }
  }
  run_rows<Isa, Form, M>(w, x, token, begin, end, y, ldy);
}

template <class Isa, int HeldBits>
void run_held(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
              float* y, std::int64_t ldy) {
  with_form<UnitForm, HeldBits>(w, [&](auto form) {
    for (std::int64_t token = 0; token < x.m; token += Isa::kTokens) {
      const std::int64_t left = x.m - token;
      run_tokens<Isa, decltype(form)>(w, x, token, left < Isa::kTokens ? left : Isa::kTokens, begin,
                                      end, y, ldy);
    }
  });
}

}  // namespace
}  // namespace nibble::ops::cpu
