#pragma once

#include <cstdint>

#include "ops/cpu/sparse/unit_loads.h"

/// The loops over units of rows that the kernels with vectors share; included by one file for each,
/// in an unnamed namespace. Needs AVX2, FMA and F16C. The instruction set gives
///
///   Isa::Total                            the sums of a row
///   Isa::add_unit<M>(unit, x, i0, total)  total[i] += the unit's products with token i0 + i
///   Isa::sum(total)                       y
///   Isa::kTokens                          that a unit's weights serve at most
namespace nibble::ops::cpu {
namespace {

/// The layout of a unit, and what its lanes are.
template <int Group, int HeldBits, int ScaleBytes>
struct UnitForm {
  static constexpr int kGroup = Group;
  static constexpr int kHeldBits = HeldBits;
  static constexpr int kScaleBytes = ScaleBytes;
  static constexpr int kPiece = sparse_piece_of(Group);
  static constexpr int kQuads = kPiece / kSparseQuad;
  static constexpr int kShared = Group / kPiece;                            // pieces of a group
  static constexpr int kHalves = kSparseUnit / (kPiece * kSparseRowLanes);  // rounds of all lanes
  static constexpr SparseUnitLayout kLayout = sparse_unit_layout_of(Group, HeldBits, ScaleBytes);
};

/// Of each lane, where `Shared` lanes share an entry.
template <int Shared>
struct LaneTables {
  alignas(16) std::uint8_t entry_bytes[kSparseRowLanes];  // its entry
  alignas(16) std::uint8_t zero_bytes[kSparseRowLanes];   // the byte of its zero
  alignas(64) std::int32_t entries[kSparseRowLanes];      // its entry
  alignas(64) std::int32_t pieces[kSparseRowLanes];       // its piece of the group

  constexpr LaneTables() : entry_bytes(), zero_bytes(), entries(), pieces() {
    constexpr int kEntries = kSparseRowLanes / Shared;
    for (int lane = 0; lane < kSparseRowLanes; ++lane) {
      const int entry = lane / Shared;
      entry_bytes[lane] = static_cast<std::uint8_t>(entry);
      // Zeros of the low halves of bytes stand from byte 0 on, those of the high ones from byte 8.
      zero_bytes[lane] = static_cast<std::uint8_t>(
          entry < kEntries / 2 ? entry : kSparseRowLanes / 2 + entry - kEntries / 2);
      entries[lane] = entry;
      pieces[lane] = lane % Shared;
    }
  }
};
template <int Shared>
inline constexpr LaneTables<Shared> kLanes;

/// One unit in memory.
template <class Form>
struct Unit {
  const std::uint8_t* bytes;
  float row_unit;  // of scales that are bytes

  NIBBLE_INLINE std::uint32_t base() const {
    return load_as<std::uint16_t>(bytes + Form::kLayout.base);
  }
  NIBBLE_INLINE std::uint32_t place(int entry) const { return bytes[entry]; }
  /// A byte for each lane of a round. There are more bytes behind the places.
  NIBBLE_INLINE __m128i places(int half) const {
    const __m128i all = load_16(bytes + half * kSparseRowLanes);
    return Form::kShared == 1 ? all : _mm_shuffle_epi8(all, load_16(tables().entry_bytes));
  }
  /// 64 codes of 16 pieces in 8 or 4 bits: quad `quad` of the round.
  NIBBLE_INLINE const std::uint8_t* codes(int half, int quad) const {
    const int vector = half * Form::kQuads + quad;
    return bytes + Form::kLayout.codes +
           (Form::kHeldBits == 8 ? vector : vector / 2) * kSparseVector;
  }
  /// Whether such codes are the high halves of their bytes.
  static constexpr bool is_high(int half, int quad) {
    return Form::kHeldBits == 4 && (half * Form::kQuads + quad) % 2 == 1;
  }
  /// A byte for each lane of a round. There are more bytes behind the zeros.
  NIBBLE_INLINE __m128i zeros(int half) const {
    const std::uint8_t* const at = bytes + Form::kLayout.zeros;
    if constexpr (Form::kHeldBits == 8) {
      const __m128i all = load_16(at + half * kSparseRowLanes);
      return Form::kShared == 1 ? all : _mm_shuffle_epi8(all, load_16(tables().entry_bytes));
    }
    const __m128i fifteen = _mm_set1_epi8(15);
    if constexpr (Form::kHalves == 2) {
      const __m128i both = load_16(at);
      return _mm_and_si128(half == 0 ? both : _mm_srli_epi16(both, 4), fifteen);
    }
    const __m128i low = _mm_cvtsi64_si128(load_as<std::int64_t>(at));
    const __m128i all = _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)), fifteen);
    return Form::kShared == 1 ? all : _mm_shuffle_epi8(all, load_16(tables().zero_bytes));
  }
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
  /// Those of lanes [first, first + 8) of a round, first 0 or 8.
  NIBBLE_INLINE __m256 lane_scales(int half, int first) const {
    if constexpr (Form::kShared == 1) {
      return scales(half * kSparseRowLanes + first);
    }
    return _mm256_permutevar8x32_ps(scales(0), load_32(kLanes<Form::kShared>.entries + first));
  }

  static constexpr const LaneTables<Form::kShared>& tables() { return kLanes<Form::kShared>; }
};

/// Of s[0 .. 8) and s[8 .. 16).
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
  for (std::int64_t row = begin; row < end; ++row) {
    typename Isa::Total total[M] = {};
    const float row_unit = Form::kScaleBytes == 1 ? w.row_units[row] : 0.0f;
    const std::uint8_t* const stop =
        w.units + std::int64_t{w.first_unit[row + 1]} * Form::kLayout.bytes;
    for (const std::uint8_t* at = w.units + std::int64_t{w.first_unit[row]} * Form::kLayout.bytes;
         at < stop; at += Form::kLayout.bytes) {
      prefetch_behind<Form::kLayout.bytes>(at);
      Isa::template add_unit<M>(Unit<Form>{at, row_unit}, x, token, total);
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
