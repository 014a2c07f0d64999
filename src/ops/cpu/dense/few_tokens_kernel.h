#pragma once

#include <cstdint>

#include "ops/cpu/dense/float_tile_kernel.h"
#include "ops/cpu/dense/float_tiles.h"
#include "ops/cpu/inlining.h"

/// Few tokens in vectors, with the bits that tile registers make (float_tile_kernel.h), included by
/// one file for each `Lanes`, in an unnamed namespace.
///
/// A lane is a row of weights. A step of 16 rows is read where it lies and transposed into the L1
/// cache; then a pair of inputs of all rows fills a vector, whose even and odd inputs meet digits
/// of every token. A product of tiles is two chains of 16 fused multiply-adds, over the even and
/// the odd inputs, whose sum is added to what was there: so are these.
///
/// `Lanes` has, beside what float_tile_kernel.h wants, a `Vector` of 16 floats and a `FlushScope`,
/// in which numbers below 2^-126 count as zeros:
///
///   zero(), load(p), store(p, v), store_bits(p, v), broadcast(bits)
///   multiply_add(a, b, c), add(a, b)
///   widen_pairs(pairs, even, odd)         16 pairs of BF16 -> floats
///   split_half(w, hi, lo)                 16 float16 -> digits, as floats
///   transpose_halves(from, stride, to)    [16][32] halves; those of input i from `half_at(i)` on
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kLaneRows = 16;
constexpr std::int64_t kTokenWords = kInputDigits * kStepInputs;  // digits of a step of a token

/// Pairs as they lie, two inputs a word.
template <class Lanes>
struct FewBf16Weights {
  static constexpr int kDigits = 1;
  static constexpr int kTokens = 4;  // whose 24 chains fit the registers
  static NIBBLE_INLINE void transpose(const std::uint16_t* w, std::int64_t ldw, std::uint16_t* to) {
    Lanes::transpose(w, 2 * ldw, to);
  }
  static NIBBLE_INLINE void decode(const std::uint16_t* step, std::int64_t pair,
                                   typename Lanes::Vector (&w)[kDigits][2]) {
    Lanes::widen_pairs(
        static_cast<const std::uint32_t*>(static_cast<const void*>(step)) + pair * kLaneRows,
        w[0][0], w[0][1]);
  }
};

template <class Lanes>
struct FewF16Weights {
  static constexpr int kDigits = 2;
  static constexpr int kTokens = 2;  // of 20 chains
  static NIBBLE_INLINE void transpose(const std::uint16_t* w, std::int64_t ldw, std::uint16_t* to) {
    Lanes::transpose_halves(w, 2 * ldw, to);
  }
  static NIBBLE_INLINE void decode(const std::uint16_t* step, std::int64_t pair,
                                   typename Lanes::Vector (&w)[kDigits][2]) {
    Lanes::split_half(step + Lanes::half_at(2 * pair), w[0][0], w[1][0]);
    Lanes::split_half(step + Lanes::half_at(2 * pair + 1), w[0][1], w[1][1]);
  }
};

/// A step of 16 rows, transposed; what does not exist is 0.
template <class Lanes, class Weights>
NIBBLE_INLINE void transpose_step(const FloatTileTask& task, std::int64_t row, std::int64_t step,
                                  std::uint16_t* to) {
  const std::int64_t input = step * kStepInputs;
  const std::uint16_t* const w = task.weights + row * task.k + input;
  const std::int64_t rows = task.n - row;
  const std::int64_t inputs = task.k - input;
  if (rows >= kLaneRows && inputs >= kStepInputs) {
    return Weights::transpose(w, task.k, to);
  }
  alignas(64) std::uint16_t whole[kTileHalves] = {};
  for (std::int64_t i = 0; i < rows && i < kLaneRows; ++i) {
    for (std::int64_t j = 0; j < inputs && j < kStepInputs; ++j) {
      whole[i * kStepInputs + j] = w[i * task.k + j];
    }
  }
  Weights::transpose(whole, kStepInputs, to);
}

/// The products of one step for N tokens, in the order in which tile registers add them.
/// sums [N][high, others][16 rows].
template <class Lanes, class Weights, int N>
NIBBLE_INLINE void multiply_few_step(const std::uint16_t* step, const std::uint32_t* digits,
                                     float* sums) {
  using Vector = typename Lanes::Vector;
  constexpr int kProducts = Weights::kDigits == 1 ? 3 : 5;
  constexpr int kOfWeights[5] = {0, 0, 0, 1, 1};  // digits that meet: hi hi, then the others
  constexpr std::int64_t kOfInputs[5] = {0, 2, 1, 1, 0};
  Vector chains[N][kProducts][2];
#pragma GCC unroll 4
  for (std::int64_t token = 0; token < N; ++token) {
#pragma GCC unroll 5
    for (std::int64_t i = 0; i < kProducts; ++i) {
      chains[token][i][0] = Lanes::zero();
      chains[token][i][1] = Lanes::zero();
    }
  }
  for (std::int64_t pair = 0; pair < kStepPairs; ++pair) {
    Vector w[Weights::kDigits][2];
    Weights::decode(step, pair, w);
#pragma GCC unroll 4
    for (std::int64_t token = 0; token < N; ++token) {
      const std::uint32_t* const x = digits + token * kTokenWords + pair;
#pragma GCC unroll 5
      for (std::int64_t i = 0; i < kProducts; ++i) {
#pragma GCC unroll 2
        for (std::int64_t parity = 0; parity < 2; ++parity) {
          const Vector digit = Lanes::broadcast(x + (2 * kOfInputs[i] + parity) * kStepPairs);
          chains[token][i][parity] =
              Lanes::multiply_add(w[kOfWeights[i]][parity], digit, chains[token][i][parity]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (std::int64_t token = 0; token < N; ++token) {
    float* const high = sums + token * 2 * kLaneRows;
    float* const others = high + kLaneRows;
    Lanes::store(
        high, Lanes::add(Lanes::load(high), Lanes::add(chains[token][0][0], chains[token][0][1])));
    Vector sum = Lanes::load(others);
#pragma GCC unroll 5
    for (std::int64_t i = 1; i < kProducts; ++i) {
      sum = Lanes::add(sum, Lanes::add(chains[token][i][0], chains[token][i][1]));
    }
    Lanes::store(others, sum);
  }
}

/// The same for at most N tokens.
template <class Lanes, class Weights, int N>
NIBBLE_INLINE void multiply_rest(const std::uint16_t* step, const std::uint32_t* digits,
                                 std::int64_t tokens, float* sums) {
  if constexpr (N > 0) {
    if (tokens == N) {
      return multiply_few_step<Lanes, Weights, N>(step, digits, sums);
    }
    multiply_rest<Lanes, Weights, N - 1>(step, digits, tokens, sums);
  }
}

/// sums [tokens][high, others][16 rows] of all inputs, inside of a FlushScope.
template <class Lanes, class Weights>
NIBBLE_NOINLINE void add_rows(const FloatTileTask& task, std::int64_t row, float* sums) {
  constexpr std::int64_t kTokens = Weights::kTokens;
  alignas(64) std::uint16_t turned[kTileHalves];
  const std::uint32_t* digits = task.digits;
  for (std::int64_t step = 0; step < task.steps; ++step) {
    ask_for_step(task, row, kLaneRows, step);
    transpose_step<Lanes, Weights>(task, row, step, turned);
    std::int64_t token = 0;
    for (; token + kTokens <= task.tokens; token += kTokens) {
      multiply_few_step<Lanes, Weights, kTokens>(turned, digits + token * kTokenWords,
                                                 sums + token * 2 * kLaneRows);
    }
    multiply_rest<Lanes, Weights, kTokens - 1>(turned, digits + token * kTokenWords,
                                               task.tokens - token, sums + token * 2 * kLaneRows);
    digits += task.tokens * kTokenWords;
  }
}

/// y [tokens, rows] = the sums of 16 rows. Outside of a FlushScope, as in tile registers.
inline NIBBLE_NOINLINE void write_rows(const FloatTileTask& task, std::int64_t row,
                                       const float* sums) {
  const std::int64_t rows = task.n - row < kLaneRows ? task.n - row : kLaneRows;
  for (std::int64_t token = 0; token < task.tokens; ++token) {
    const float* const high = sums + token * 2 * kLaneRows;
    for (std::int64_t i = 0; i < rows; ++i) {
      task.y[token * task.ldy + row + i] = high[i] + high[kLaneRows + i];
    }
  }
}

template <class Lanes, class Weights>
void multiply_few_weights(const FloatTileTask& task) {
  const std::int64_t first = task.first_strip * kStripRows;
  const std::int64_t end = first + task.strips * kStripRows;
  for (std::int64_t row = first; row < end && row < task.n; row += kLaneRows) {
    __builtin_memset(task.sums, 0,
                     static_cast<std::size_t>(task.tokens * 2 * kLaneRows) * sizeof(float));
    {
      const typename Lanes::FlushScope scope;
      add_rows<Lanes, Weights>(task, row, task.sums);
    }
    write_rows(task, row, task.sums);
  }
}

/// FloatTiles::multiply_few.
template <class Lanes>
void multiply_few_tokens(const FloatTileTask& task) {
  if (task.is_f16) {
    multiply_few_weights<Lanes, FewF16Weights<Lanes>>(task);
  } else {
    multiply_few_weights<Lanes, FewBf16Weights<Lanes>>(task);
  }
}

/// FloatTiles::split_few.
template <class Lanes>
void split_few_tokens(const TokensToSplit& task) {
  alignas(64) std::uint32_t pairs[kInputDigits][kStepPairs];
  float last[kStepInputs];
  std::uint32_t* to = task.digits;
  for (std::int64_t i = 0; i < task.steps; ++i) {
    const std::int64_t input = (task.first_step + i) * kStepInputs;
    for (std::int64_t token = 0; token < task.tokens; ++token) {
      const float* const x = task.x + token * task.ldx + input;
      Lanes::split_inputs(whole_step(x, task.k - input, last), pairs[0], pairs[1], pairs[2]);
      for (const auto& digit : pairs) {
        typename Lanes::Vector even = Lanes::zero();
        typename Lanes::Vector odd = Lanes::zero();
        Lanes::widen_pairs(digit, even, odd);
        Lanes::store_bits(to, even);
        Lanes::store_bits(to + kStepPairs, odd);
        to += kStepInputs;
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
