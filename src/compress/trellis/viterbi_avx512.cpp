// PathCosts in integers of 16 bits, 32 states at a time.

#include "compress/trellis/viterbi.h"
#include "ops/cpu/cpu_features.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <new>

#include <immintrin.h>

// GCC 12 warns inside its own immintrin.h.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define NIBBLE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

namespace nibble::compress {
namespace {

constexpr std::uint32_t kLanes = 32;
constexpr float kUnit = 256;  // of a target or value: 127 of them still fit 16 bits
constexpr float kMostTarget = 32767 / kUnit;

struct AlignedDelete {
  void operator()(void* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
};
template <typename T>
using Aligned = std::unique_ptr<T[], AlignedDelete>;

template <typename T>
Aligned<T> make_aligned(std::size_t count) {
  auto* const memory = static_cast<T*>(::operator new[](count * sizeof(T), std::align_val_t{64}));
  std::fill_n(memory, count, T{});
  return Aligned<T>(memory);
}

/// An error of e values is (256 e << kDoubled)^2 / 2^16 of a cost, where kDoubled is 1 for 4 bits,
/// whose errors are small. Costs are those above the cheapest, and stop at 65535.
template <int Bits>
class Avx512Costs final : public PathCosts {
 public:
  explicit Avx512Costs(const Trellis& trellis)
      : states_(trellis.states()),
        groups_(states_ >> Bits),
        values_(make_aligned<std::int16_t>(states_)),
        costs_(make_aligned<std::uint16_t>(states_)),
        best_(make_aligned<std::uint16_t>(groups_ + kLanes)) {
    for (std::uint32_t state = 0; state < states_; ++state) {
      values_[state] = static_cast<std::int16_t>(static_cast<float>(trellis.values[state]) * kUnit);
    }
  }

  void begin(float target, std::int64_t allowed) override {
    std::fill_n(best_.get(), groups_, static_cast<std::uint16_t>(allowed < 0 ? 0 : 65535));
    if (allowed >= 0) {
      best_[static_cast<std::size_t>(allowed)] = 0;
    }
    add_errors(target);
  }

  void step(float target, std::uint8_t* came_from) override {
    choose(came_from);
    add_errors(target);
  }

  std::uint32_t best(std::int64_t allowed) const override {
    const std::uint32_t stride = allowed < 0 ? 1 : groups_;
    std::uint32_t best = allowed < 0 ? 0 : static_cast<std::uint32_t>(allowed);
    for (std::uint32_t state = best; state < states_; state += stride) {
      best = costs_[state] < costs_[best] ? state : best;
    }
    return best;
  }

 private:
  static constexpr int kUpper = 1 << Bits;

  /// best_: the cheapest of the states that differ in their upper bits, less the cheapest of all.
  NIBBLE_AVX512 void choose(std::uint8_t* came_from) {
    __m512i least = _mm512_set1_epi16(-1);
    for (std::uint32_t group = 0; group < groups_; group += kLanes) {
      __m512i best = _mm512_load_si512(costs_.get() + group);
      __m512i from = _mm512_setzero_si512();
#pragma GCC unroll 16
      for (int upper = 1; upper < kUpper; ++upper) {
        const __m512i cost =
            _mm512_load_si512(costs_.get() + static_cast<std::size_t>(upper) * groups_ + group);
        const __mmask32 better = _mm512_cmplt_epu16_mask(cost, best);
        best = _mm512_min_epu16(best, cost);
        from = _mm512_mask_mov_epi16(from, better,
                                     _mm512_set1_epi16(static_cast<std::int16_t>(upper)));
      }
      least = _mm512_min_epu16(least, best);
      _mm512_store_si512(best_.get() + group, best);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(came_from + group),
                          _mm512_cvtepi16_epi8(from));
    }
    alignas(64) std::uint16_t lanes[kLanes];
    _mm512_store_si512(lanes, least);
    least_ = *std::min_element(lanes, lanes + kLanes);
  }

  /// costs_[s] = best_[s >> Bits] - least_ + the error of s.
  NIBBLE_AVX512 void add_errors(float target) {
    const float wanted = std::clamp(target, -kMostTarget, kMostTarget) * kUnit;
    const __m512i wanted_lanes = _mm512_set1_epi16(static_cast<std::int16_t>(std::lrint(wanted)));
    const __m512i least = _mm512_set1_epi16(static_cast<std::int16_t>(least_));
    alignas(64) std::int16_t lanes[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = static_cast<std::int16_t>(lane >> Bits);
    }
    const __m512i group_of = _mm512_load_si512(lanes);
    for (std::uint32_t state = 0; state < states_; state += kLanes) {
      const __m512i some = _mm512_castsi128_si512(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(best_.get() + (state >> Bits))));
      const __m512i best = _mm512_subs_epu16(_mm512_permutexvar_epi16(group_of, some), least);
      __m512i error = _mm512_subs_epi16(wanted_lanes, _mm512_load_si512(values_.get() + state));
      if constexpr (Bits == 4) {
        error = _mm512_adds_epi16(error, error);
      }
      _mm512_store_si512(costs_.get() + state,
                         _mm512_adds_epu16(best, _mm512_mulhi_epi16(error, error)));
    }
    least_ = 0;
  }

  std::uint32_t states_;
  std::uint32_t groups_;
  std::uint16_t least_ = 0;
  Aligned<std::int16_t> values_;  // [states], in units
  Aligned<std::uint16_t> costs_;  // [states]
  Aligned<std::uint16_t> best_;   // [groups], and room to read behind them
};

}  // namespace

std::unique_ptr<PathCosts> avx512_costs(const Trellis& trellis) {
  if (!ops::cpu::cpu_features().avx512 || trellis.states() >> trellis.bits < kLanes) {
    return nullptr;
  }
  switch (trellis.bits) {
    case 2:
      return std::make_unique<Avx512Costs<2>>(trellis);
    case 3:
      return std::make_unique<Avx512Costs<3>>(trellis);
    case 4:
      return std::make_unique<Avx512Costs<4>>(trellis);
    default:
      return nullptr;
  }
}

}  // namespace nibble::compress

#else

namespace nibble::compress {

std::unique_ptr<PathCosts> avx512_costs(const Trellis& /*trellis*/) {
  return nullptr;
}

}  // namespace nibble::compress

#endif
