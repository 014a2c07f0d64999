#pragma once

#include <cstdint>

#include <immintrin.h>

#include "ops/cpu/sparse/sparse_rows.h"

/// The loops that the kernels with vectors share; included by one file for each, in an unnamed
/// namespace. Needs AVX2, FMA and F16C. Rows are taken in steps of 8 pieces (sparse_rows.h), 128
/// weights. unpack puts low and high nibbles side by side, so that even pieces come together, and
/// odd ones:
///
///   64 bytes of 4-bit codes    | pieces 0 1 | 2 3 | 4 5 | 6 7 |
///   unpacklo, unpackhi         | 0 | 2 | 4 | 6 |     | 1 | 3 | 5 | 7 |
///
/// The instruction set gives
///
///   Isa::Total                          the sums of a row
///   Isa::add_step(step, x, stride, t)   t[i] += the step's products with token i
///   Isa::sum(total)                     y
///   Isa::kTokens                        that a step's weights serve at most
namespace nibble::ops::cpu {
namespace {

#define NIBBLE_INLINE inline __attribute__((always_inline))

constexpr int kStepWeights = 128;
constexpr std::int64_t kAheadWeights = 3072;  // that are fetched before they are needed

/// Which of a step's groups the lanes of its pieces are of: even pieces first, then odd ones.
template <int Group>
struct LaneTables {
  alignas(64) std::uint8_t bytes[kStepWeights];
  alignas(64) std::int32_t quads[kStepWeights / kSparseQuad];

  constexpr LaneTables() : bytes(), quads() {
    for (int i = 0; i < kStepWeights; ++i) {
      const int piece = i / kSparsePiece % 4 * 2 + i / (4 * kSparsePiece);
      const int group = piece * kSparsePiece / Group;
      bytes[i] = static_cast<std::uint8_t>(group);
      quads[i / kSparseQuad] = group;
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

  /// A byte for each group.
  NIBBLE_INLINE __m128i load_zeros() const {
    const __m128i all = _mm_cvtsi64_si128(static_cast<long long>(zeros));
    if constexpr (Bits == 8) {
      return all;
    }
    const __m128i wide = _mm_cvtepu8_epi16(all);
    return _mm_and_si128(_mm_or_si128(wide, _mm_slli_epi16(wide, 4)), _mm_set1_epi16(0x0f0f));
  }

  /// The activations that meet a piece.
  NIBBLE_INLINE const std::uint8_t* block(const std::uint8_t* token, int piece) const {
    constexpr int kOfGroup = Group / kSparsePiece;
    return token + offsets[piece / kOfGroup] + piece % kOfGroup * kSparseBlock;
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
    const auto nibble = static_cast<std::uint64_t>(at);
    const auto first = load_as<std::uint32_t>(zeros + nibble / 2);
    const auto last = load_as<std::uint32_t>(zeros + (nibble + 7) / 2 - 3);
    const auto shift = static_cast<std::uint32_t>(nibble % 2);
    return first >> (4 * shift) | (last << 4 & (0u - shift) & 0xf0000000u);
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

NIBBLE_INLINE __m256i load_32(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

/// Codes of the activations of two blocks, and their scales.
NIBBLE_INLINE __m256i codes_of(const std::uint8_t* low, const std::uint8_t* high) {
  return _mm256_blend_epi32(load_32(low), load_32(high + kSparsePiece), 0xf0);
}
NIBBLE_INLINE __m256 scales_of(const std::uint8_t* low, const std::uint8_t* high) {
  return _mm256_castsi256_ps(_mm256_blend_epi32(load_32(low + kSparsePiece), load_32(high), 0xf0));
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
          static_cast<std::uint32_t>(x.group_bytes);
    }
  }
};

/// Of t[0 .. 8) and t[8 .. 16).
NIBBLE_INLINE float sum_of(__m256 low, __m256 high) {
  const __m256 both = _mm256_add_ps(low, high);
  const __m128 halves = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
  const __m128 pairs = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)));
}

/// Streams of four parts, of which caches see too little to look far enough ahead.
template <int Group, int Bits>
NIBBLE_INLINE void prefetch(const SparseWeight& w, std::int64_t at) {
  constexpr std::int64_t kAhead = kAheadWeights / Group;  // groups
  __builtin_prefetch(w.codes + (at + kAhead) * (Group * Bits / 8));
  __builtin_prefetch(w.scales + at + kAhead);
  __builtin_prefetch(w.groups + (at + kAhead) * w.index_bytes);
}

/// Rows [begin, end) of M tokens from `token` on.
template <class Isa, int Group, int Bits, int IndexBytes, int M>
void run_rows(const SparseWeight& w, const SparseInput& x, std::int64_t token, std::int64_t begin,
              std::int64_t end, float* y, std::int64_t ldy) {
  using Groups = Step<Group, Bits>;
  constexpr std::uint32_t kGroupBytes = Group / kSparsePiece * kSparseBlock;
  const std::uint8_t* tokens = x.blocks + token * x.token_bytes;
  for (std::int64_t row = begin; row < end; ++row) {
    typename Isa::Total total[M] = {};
    std::int64_t at = w.row_index[row];
    const std::int64_t stop = w.row_index[row + 1];
    for (; at + Groups::kGroups <= stop; at += Groups::kGroups) {
      Groups step;
      step.codes = w.codes + at * (Group * Bits / 8);
      step.scales = w.scales + at;
      step.zeros = zeros_at<Bits, Groups::kGroups>(w.zeros, at);
      for (int i = 0; i < Groups::kGroups; ++i) {
        step.offsets[i] = index_at<IndexBytes>(w.groups, at + i) * kGroupBytes;
      }
      prefetch<Group, Bits>(w, at);
      Isa::template add_step<M>(step, tokens, x.token_bytes, total);
    }
    if (at < stop) {
      PaddedStep<Group, Bits> padded;
      padded.template fill<IndexBytes>(w, x, at, stop - at);
      Isa::template add_step<M>(padded.step, tokens, x.token_bytes, total);
    }
    for (int i = 0; i < M; ++i) {
      y[(token + i) * ldy + row] = Isa::sum(total[i]);
    }
  }
}

template <class Isa, int Group, int Bits, int IndexBytes, int M = Isa::kTokens>
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
  for (std::int64_t token = 0; token < x.m; token += Isa::kTokens) {
    const std::int64_t left = x.m - token;
    const std::int64_t count = left < Isa::kTokens ? left : Isa::kTokens;
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

bool is_whole_pieces(std::int64_t group) {
  return group == 16 || group == 32 || group == 64;
}

}  // namespace
}  // namespace nibble::ops::cpu
