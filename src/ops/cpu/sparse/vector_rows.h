#pragma once

#include <cstdint>

#include <immintrin.h>

#include "ops/cpu/sparse/sparse_rows.h"

/// The loops that the kernels with 256-bit vectors share; included by one file for each, in an
/// unnamed namespace. Needs AVX2, FMA and F16C. A line (sparse_rows.h) is a vector; four lines are
/// a step. The instruction set gives
///
///   Isa::nibbles(codes)      16 bytes of codes -> 32 codes, one byte each
///   Isa::dot(w, z, a)        sums over quads of (w - z) * a
///
/// Halves of a line, 16 weights, are of one group. What is decoded of the weights serves `M`
/// tokens.
namespace nibble::ops::cpu {
namespace {

#define NIBBLE_INLINE inline __attribute__((always_inline))

constexpr int kStepWeights = 128;
constexpr int kStepLines = 4;
constexpr int kHalfLine = 16;

/// Which group of a step the lanes of its lines belong to.
template <int Group>
struct LaneTables {
  alignas(32) std::uint8_t bytes[kStepLines][32];  // for each weight
  alignas(32) std::int32_t quads[kStepLines][8];   // for each quad

  constexpr LaneTables() : bytes(), quads() {
    for (int line = 0; line < kStepLines; ++line) {
      for (int i = 0; i < 32; ++i) {
        bytes[line][i] = static_cast<std::uint8_t>((line * 32 + i) / Group);
        quads[line][i / kSparseQuad] = (line * 32 + i) / Group;
      }
    }
  }
};
template <int Group>
inline constexpr LaneTables<Group> kLanes;

template <class T>
NIBBLE_INLINE T load_as(const void* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

/// The groups of one step.
template <int Group, int Bits>
struct Step {
  static constexpr int kGroups = kStepWeights / Group;
  static constexpr int kLineBytes = 32 * Bits / 8;

  const std::uint8_t* codes;       // [kGroups]
  const std::uint16_t* scales;     // [kGroups]
  std::uint64_t zeros;             // a byte (or nibble) for each, the first lowest
  std::uint32_t offsets[kGroups];  // of the activations

  NIBBLE_INLINE __m256 load_scales() const {
    if constexpr (kGroups == 8) {
      return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales)));
    } else if constexpr (kGroups == 4) {
      return _mm256_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales)));
    } else {
      static_assert(kGroups == 2);
      return _mm256_cvtph_ps(_mm_cvtsi32_si128(load_as<int>(scales)));
    }
  }

  /// A byte for each group, in both halves.
  NIBBLE_INLINE __m256i load_zeros() const {
    __m128i all = _mm_cvtsi64_si128(static_cast<long long>(zeros));
    if constexpr (Bits == 4) {
      const __m128i wide = _mm_cvtepu8_epi16(all);
      all = _mm_and_si128(_mm_or_si128(wide, _mm_slli_epi16(wide, 4)), _mm_set1_epi16(0x0f0f));
    }
    return _mm256_broadcastsi128_si256(all);
  }
};

/// Zero points [at, at + count): nibbles, or bytes, of which no more are read.
template <int Bits, int Count>
NIBBLE_INLINE std::uint64_t zeros_at(const std::uint8_t* zeros, std::int64_t at) {
  if (zeros == nullptr) {
    return Bits == 4 ? 0x8888888888888888u : 0x8080808080808080u;
  }
  if constexpr (Bits == 8) {
    std::uint64_t all = 0;
    __builtin_memcpy(&all, zeros + at, Count);
    return all;
  } else if constexpr (Count == 8) {
    // Eight nibbles stand in four bytes, or in five: from the middle of the first on.
    const std::uint32_t first = load_as<std::uint32_t>(zeros + at / 2);
    const std::uint32_t last = load_as<std::uint32_t>(zeros + (at + 7) / 2 - 3);
    return at % 2 == 0 ? first : (first >> 4 | (last << 4 & 0xf0000000u));
  } else {
    std::uint64_t all = 0;
    for (int i = 0; i < Count; ++i) {
      const auto nibble =
          static_cast<std::uint64_t>(zeros[(at + i) / 2] >> ((at + i) % 2 * 4) & 15);
      all |= nibble << (4 * i);
    }
    return all;
  }
}

template <int IndexBytes>
NIBBLE_INLINE std::uint32_t index_at(const std::uint8_t* groups, std::int64_t at) {
  if constexpr (IndexBytes == 1) {
    return groups[at];
  } else {
    return load_as<std::uint16_t>(groups + 2 * at);
  }
}

/// The halves of a line: 16 bytes each.
NIBBLE_INLINE __m256i two_halves(const std::uint8_t* low, const std::uint8_t* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
}

/// total[line % 2][i] += the products of a step with token i.
template <class Isa, int Group, int Bits, int M>
NIBBLE_INLINE void add_step(const Step<Group, Bits>& step, const std::uint8_t* tokens,
                            std::int64_t token_bytes, __m256 (&total)[2][M]) {
  const __m256 scales = step.load_scales();
  const __m256i zeros = step.load_zeros();
#pragma GCC unroll 4
  for (int line = 0; line < kStepLines; ++line) {
    const std::uint8_t* codes = step.codes + line * step.kLineBytes;
    __m256i w;
    if constexpr (Bits == 4) {
      w = Isa::nibbles(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    } else {
      w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    }
    const auto& lanes = kLanes<Group>;
    const __m256i z = _mm256_shuffle_epi8(
        zeros, _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes.bytes[line])));
    const __m256 scale = _mm256_permutevar8x32_ps(
        scales, _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes.quads[line])));
    const int low = line * 32;
    const int high = low + kHalfLine;
    const std::uint32_t low_at = step.offsets[low / Group];
    const std::uint32_t high_at = step.offsets[high / Group];
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
      const std::uint8_t* x = tokens + i * token_bytes;
      const __m256i a = two_halves(x + low_at + low % Group, x + high_at + high % Group);
      const __m256 a_scale =
          _mm256_castsi256_ps(two_halves(x + low_at + Group, x + high_at + Group));
      total[line % 2][i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(Isa::dot(w, z, a)),
                                           _mm256_mul_ps(scale, a_scale), total[line % 2][i]);
    }
  }
}

/// What is left of a row, with groups of zeros behind it.
template <int Group, int Bits>
struct PaddedStep {
  static constexpr int kGroups = kStepWeights / Group;
  static constexpr int kGroupBytes = Group * Bits / 8;
  std::uint8_t codes[kStepWeights * Bits / 8] = {};
  std::uint16_t scales[kGroups] = {};
  Step<Group, Bits> step = {};

  /// `count` groups from `at` on.
  template <int IndexBytes>
  void fill(const SparseWeight& w, const SparseInput& x, std::int64_t at, std::int64_t count) {
    __builtin_memcpy(codes, w.codes + at * kGroupBytes,
                     static_cast<std::size_t>(count * kGroupBytes));
    step.codes = codes;
    step.scales = scales;
    for (std::int64_t i = 0; i < kGroups; ++i) {
      const bool there = i < count;
      scales[i] = there ? w.scales[at + i] : std::uint16_t{0};
      step.zeros |= there ? zeros_at<Bits, 1>(w.zeros, at + i) % (1u << Bits) << (Bits * i) : 0u;
      step.offsets[i] =
          (there ? index_at<IndexBytes>(w.groups, at + i) : static_cast<std::uint32_t>(x.groups)) *
          static_cast<std::uint32_t>(x.block_bytes);
    }
  }
};

NIBBLE_INLINE float sum_of(__m256 even, __m256 odd) {
  const __m256 both = _mm256_add_ps(even, odd);
  const __m128 halves = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
  const __m128 pairs = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)));
}

/// Rows [begin, end) of M tokens from `token` on.
template <class Isa, int Group, int Bits, int IndexBytes, int M>
void run_rows(const SparseWeight& w, const SparseInput& x, std::int64_t token, std::int64_t begin,
              std::int64_t end, float* y, std::int64_t ldy) {
  using Groups = Step<Group, Bits>;
  constexpr std::uint32_t kBlockBytes = Group + 16;  // SparseInput::block_bytes
  const std::uint8_t* tokens = x.blocks + token * x.token_bytes;
  for (std::int64_t row = begin; row < end; ++row) {
    __m256 total[2][M];
    for (int i = 0; i < M; ++i) {
      total[0][i] = total[1][i] = _mm256_setzero_ps();
    }
    std::int64_t at = w.row_index[row];
    const std::int64_t stop = w.row_index[row + 1];
    for (; at + Groups::kGroups <= stop; at += Groups::kGroups) {
      Groups step;
      step.codes = w.codes + at * (Group * Bits / 8);
      step.scales = w.scales + at;
      step.zeros = zeros_at<Bits, Groups::kGroups>(w.zeros, at);
      for (int i = 0; i < Groups::kGroups; ++i) {
        step.offsets[i] = index_at<IndexBytes>(w.groups, at + i) * kBlockBytes;
      }
      add_step<Isa, Group, Bits, M>(step, tokens, x.token_bytes, total);
    }
    if (at < stop) {
      PaddedStep<Group, Bits> padded;
      padded.template fill<IndexBytes>(w, x, at, stop - at);
      add_step<Isa, Group, Bits, M>(padded.step, tokens, x.token_bytes, total);
    }
    for (int i = 0; i < M; ++i) {
      y[(token + i) * ldy + row] = sum_of(total[0][i], total[1][i]);
    }
  }
}

constexpr int kTokensTogether = 4;

template <class Isa, int Group, int Bits, int IndexBytes, int M = kTokensTogether>
void run_tokens(const SparseWeight& w, const SparseInput& x, std::int64_t token, std::int64_t count,
                std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) {
  if constexpr (M > 1) {
    if (count < M) {
      return run_tokens<Isa, Group, Bits, IndexBytes, M - 1>(w, x, token, count, begin, end, y,
                                                             ldy);
    }
  }
  run_rows<Isa, Group, Bits, IndexBytes, M>(w, x, token, begin, end, y, ldy);
}

template <class Isa, int Group, int Bits>
void run_groups(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
                float* y, std::int64_t ldy) {
  for (std::int64_t token = 0; token < x.m; token += kTokensTogether) {
    const std::int64_t left = x.m - token;
    const std::int64_t count = left < kTokensTogether ? left : kTokensTogether;
    if (w.index_bytes == 1) {
      run_tokens<Isa, Group, Bits, 1>(w, x, token, count, begin, end, y, ldy);
    } else {
      run_tokens<Isa, Group, Bits, 2>(w, x, token, count, begin, end, y, ldy);
    }
  }
}

/// Groups of 16, 32 or 64.
template <class Isa, int Bits>
void run_bits(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
              float* y, std::int64_t ldy) {
  switch (w.group) {
    case 16:
      return run_groups<Isa, 16, Bits>(w, x, begin, end, y, ldy);
    case 32:
      return run_groups<Isa, 32, Bits>(w, x, begin, end, y, ldy);
    default:
      return run_groups<Isa, 64, Bits>(w, x, begin, end, y, ldy);
  }
}

bool is_whole_halves(std::int64_t group) {
  return group == 16 || group == 32 || group == 64;
}

}  // namespace
}  // namespace nibble::ops::cpu
