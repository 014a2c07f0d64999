#pragma once

#include <cstdint>

#include "ops/cpu/dense/float_tiles.h"
#include "ops/cpu/inlining.h"
#include "ops/cpu/tiles/tile_config.h"

/// The loops of float_tiles.h, included by one file for each `Tiles`, in an unnamed namespace.
///
///   A   [16 rows] x [32 inputs]            weights, as they lie in memory, or one of their digits
///   B   [16 pairs] x [16 tokens x 2]       digits of activations
///   C   [16 rows] x [16 tokens]            sums, float32
///
/// A panel of a strip, two A tiles wide, is decoded into the L1 cache and passes all tokens of the
/// block, whose digits of the panel's inputs stay in the L2 cache. Its four C tiles are stored
/// between panels, which changes no bit of them.
///
/// Few tokens take no panels, which they would wait for: tiles are loaded from where BF16 weights
/// lie, and F16 weights are decoded step by step, while tiles of the step before multiply.
///
/// `Lanes` is the work on vectors (float_lanes512.h):
///
///   split_inputs(x, hi, mid, lo)   32 floats -> digits, 16 pairs of each
///   split_halves(w, hi, lo)        32 float16 -> digits, 32 of each
///   transpose(from, to)            [16][16] words
///   copy(from, count, to)          at most 16 words, `from` at the start of a cache line
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kTileHalves = 16 * kStepInputs;  // 16-bit numbers of an A tile
constexpr std::int64_t kStepsAhead = 8;  // that one group asks for weights before it reads them
constexpr int kHighSums = 0;             // C tiles of the highest digits: 0 and 1
constexpr int kOtherSums = 2;            // of the others: 2 and 3
constexpr int kLeftA = 4;
constexpr int kRightA = 5;
constexpr int kMovingB = 6;
constexpr int kHighB = 7;

inline TileConfig float_tile_config(std::int64_t columns) {
  TileConfig config;
  for (int i = 0; i < 2; ++i) {
    config.set(kHighSums + i, 16, 4 * columns);
    config.set(kOtherSums + i, 16, 4 * columns);
    config.set(kLeftA + i, 16, kTileRegisterBytes);
    config.set(kMovingB + i, kStepPairs, 4 * columns);
  }
  return config;
}

/// Weights that are their own digit.
template <class Lanes>
struct Bf16Weights {
  static constexpr std::int64_t kDigits = 1;
  static NIBBLE_INLINE void decode(const std::uint16_t* w, std::uint16_t* tile_row) {
    __builtin_memcpy(tile_row, w, 2 * kStepInputs);
  }
};

/// Weights of two digits, the lower one two tiles behind the higher.
template <class Lanes>
struct F16Weights {
  static constexpr std::int64_t kDigits = 2;
  static NIBBLE_INLINE void decode(const std::uint16_t* w, std::uint16_t* tile_row) {
    Lanes::split_halves(w, tile_row, tile_row + 2 * kTileHalves);
  }
};

/// Rows of a strip over the inputs of a panel, as they are stored.
struct StoredPanel {
  const std::uint16_t* weights = nullptr;  // of the first row
  std::int64_t ldw = 0;
  std::int64_t rows = 0;    // that exist
  std::int64_t inputs = 0;  // that exist
};

NIBBLE_INLINE StoredPanel stored_panel(const FloatTileTask& task, std::int64_t strip,
                                       std::int64_t first_step, std::int64_t steps) {
  const std::int64_t row = strip * kStripRows;
  const std::int64_t input = first_step * kStepInputs;
  const std::int64_t rows = task.n - row;
  const std::int64_t inputs = task.k - input;
  return {task.weights + row * task.k + input, task.k, rows < kStripRows ? rows : kStripRows,
          inputs < steps * kStepInputs ? inputs : steps * kStepInputs};
}

/// panel [steps][digits][2 tiles][16 rows][32 inputs]; what does not exist is 0.
template <class Weights>
NIBBLE_NOINLINE void decode_panel(const StoredPanel& from, std::int64_t steps,
                                  std::uint16_t* panel) {
  constexpr std::int64_t kStep = Weights::kDigits * 2 * kTileHalves;
  const std::int64_t whole = from.inputs / kStepInputs;
  for (std::int64_t row = 0; row < kStripRows; ++row) {
    std::uint16_t* to = panel + row * kStepInputs;
    const std::uint16_t* w = from.weights + row * from.ldw;
    std::int64_t step = 0;
    for (; row < from.rows && step < whole; ++step) {
      Weights::decode(w + step * kStepInputs, to + step * kStep);
    }
    for (; step < steps; ++step) {
      alignas(64) std::uint16_t last[kStepInputs] = {};
      for (std::int64_t i = step * kStepInputs; row < from.rows && i < from.inputs; ++i) {
        last[i % kStepInputs] = w[i];
      }
      Weights::decode(last, to + step * kStep);
    }
  }
}

/// Two A tiles of the highest digits of a step. The others lie two tiles behind them.
struct StepWeights {
  const std::uint16_t* left = nullptr;
  const std::uint16_t* right = nullptr;
  std::int64_t row_bytes = kTileRegisterBytes;  // from one row to the next
};

NIBBLE_INLINE StepWeights decoded_step(const std::uint16_t* panel) {
  return {panel, panel + kTileHalves, kTileRegisterBytes};
}

/// C += A B for one step. The order keeps products of one C tile apart, as they wait for another.
template <class Tiles, class Weights>
NIBBLE_INLINE void multiply_step(const StepWeights& a, const std::uint32_t* b,
                                 std::int64_t columns) {
  const std::int64_t tile = kStepPairs * columns;
  const std::int64_t stride = 4 * columns;
  Tiles::template load<kLeftA>(a.left, a.row_bytes);
  Tiles::template load<kMovingB>(b + 2 * tile, stride);
  Tiles::template multiply_bf16<kOtherSums, kLeftA, kMovingB>();
  Tiles::template load<kHighB>(b, stride);
  Tiles::template multiply_bf16<kHighSums, kLeftA, kHighB>();
  Tiles::template load<kRightA>(a.right, a.row_bytes);
  Tiles::template multiply_bf16<kOtherSums + 1, kRightA, kMovingB>();
  Tiles::template load<kMovingB>(b + tile, stride);
  Tiles::template multiply_bf16<kOtherSums, kLeftA, kMovingB>();
  Tiles::template multiply_bf16<kHighSums + 1, kRightA, kHighB>();
  Tiles::template multiply_bf16<kOtherSums + 1, kRightA, kMovingB>();
  if constexpr (Weights::kDigits == 2) {
    Tiles::template load<kLeftA>(a.left + 2 * kTileHalves, kTileRegisterBytes);
    Tiles::template multiply_bf16<kOtherSums, kLeftA, kMovingB>();
    Tiles::template load<kRightA>(a.right + 2 * kTileHalves, kTileRegisterBytes);
    Tiles::template multiply_bf16<kOtherSums + 1, kRightA, kMovingB>();
    Tiles::template multiply_bf16<kOtherSums, kLeftA, kHighB>();
    Tiles::template multiply_bf16<kOtherSums + 1, kRightA, kHighB>();
  }
}

template <class Tiles>
NIBBLE_INLINE void zero_sums() {
  Tiles::template zero<0>();
  Tiles::template zero<1>();
  Tiles::template zero<2>();
  Tiles::template zero<3>();
}
template <class Tiles>
NIBBLE_INLINE void store_sums(float* sums) {
  Tiles::template store<0>(sums, kTileRegisterBytes);
  Tiles::template store<1>(sums + kTileSums, kTileRegisterBytes);
  Tiles::template store<2>(sums + 2 * kTileSums, kTileRegisterBytes);
  Tiles::template store<3>(sums + 3 * kTileSums, kTileRegisterBytes);
}

/// A panel times one group of tokens, onto what `sums` has where the panel is not the first. Asks
/// for the rows of `next` meanwhile.
template <class Tiles, class Weights>
NIBBLE_NOINLINE void add_group(const std::uint16_t* panel, const std::uint32_t* digits,
                               std::int64_t columns, std::int64_t steps, bool is_first,
                               const StoredPanel& next, float* sums) {
  constexpr std::int64_t kRow = kTileRegisterBytes;
  if (is_first) {
    zero_sums<Tiles>();
  } else {
    Tiles::template load<0>(sums, kRow);
    Tiles::template load<1>(sums + kTileSums, kRow);
    Tiles::template load<2>(sums + 2 * kTileSums, kRow);
    Tiles::template load<3>(sums + 3 * kTileSums, kRow);
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t row = 0; row < next.rows; ++row) {
      __builtin_prefetch(next.weights + row * next.ldw + step * kStepInputs, 0, 2);
    }
    multiply_step<Tiles, Weights>(decoded_step(panel), digits, columns);
    panel += Weights::kDigits * 2 * kTileHalves;
    digits += kInputDigits * kStepPairs * columns;
  }
  store_sums<Tiles>(sums);
}

/// y [tokens, rows] = the sums of a strip for one group.
template <class Lanes>
NIBBLE_NOINLINE void write_group(const float* sums, std::int64_t tokens, std::int64_t rows,
                                 float* y, std::int64_t ldy) {
  for (std::int64_t tile = 0; tile * 16 < rows; ++tile) {
    alignas(64) float by_row[kTileSums];
    alignas(64) float by_token[kTileSums];
    const float* high = sums + (kHighSums + tile) * kTileSums;
    const float* others = sums + (kOtherSums + tile) * kTileSums;
    for (std::int64_t i = 0; i < kTileSums; ++i) {
      by_row[i] = high[i] + others[i];
    }
    Lanes::transpose(by_row, by_token);
    const std::int64_t count = rows - tile * 16 < 16 ? rows - tile * 16 : 16;
    for (std::int64_t i = 0; i < tokens; ++i) {
      __builtin_memcpy(y + i * ldy + tile * 16, by_token + i * 16,
                       static_cast<std::size_t>(count) * sizeof(float));
    }
  }
}

/// Asks for some rows some steps ahead, or for the first steps of those that follow.
NIBBLE_INLINE void ask_for_step(const FloatTileTask& task, std::int64_t row, std::int64_t rows,
                                std::int64_t step) {
  std::int64_t ahead = step + kStepsAhead;
  if (ahead >= task.steps) {
    ahead -= task.steps;
    row += rows;
  }
  const std::int64_t end = row + rows < task.n ? row + rows : task.n;
  const std::int64_t input = ahead * kStepInputs;
  for (; row < end && input < task.k; ++row) {
    __builtin_prefetch(task.weights + row * task.k + input, 0, 2);
  }
}

/// A step of a strip, in `buffer` unless it can be read where it lies.
template <class Weights>
NIBBLE_INLINE StepWeights step_weights(const FloatTileTask& task, std::int64_t strip,
                                       std::int64_t step, std::uint16_t* buffer) {
  const StoredPanel stored = stored_panel(task, strip, step, 1);
  if (Weights::kDigits == 1 && stored.rows == kStripRows && stored.inputs == kStepInputs) {
    return {stored.weights, stored.weights + 16 * stored.ldw, 2 * stored.ldw};
  }
  decode_panel<Weights>(stored, 1, buffer);
  return decoded_step(buffer);
}

/// All of a task of one group, without panels.
template <class Tiles, class Lanes, class Weights>
NIBBLE_NOINLINE void multiply_one_group(const FloatTileTask& task) {
  alignas(64) std::uint16_t buffers[2][Weights::kDigits * 2 * kTileHalves];
  for (std::int64_t strip = task.first_strip; strip < task.first_strip + task.strips; ++strip) {
    const std::int64_t row = strip * kStripRows;
    const std::uint32_t* digits = task.digits;
    zero_sums<Tiles>();
    for (std::int64_t step = 0; step < task.steps; ++step) {
      ask_for_step(task, row, kStripRows, step);
      multiply_step<Tiles, Weights>(step_weights<Weights>(task, strip, step, buffers[step % 2]),
                                    digits, task.columns);
      digits += kInputDigits * kStepPairs * task.columns;
    }
    store_sums<Tiles>(task.sums);
    write_group<Lanes>(task.sums, task.tokens,
                       task.n - row < kStripRows ? task.n - row : kStripRows, task.y + row,
                       task.ldy);
  }
}

/// All of a task, a panel of inputs after the other.
template <class Tiles, class Lanes, class Weights>
void multiply_weights(const FloatTileTask& task) {
  constexpr std::int64_t kPanelSteps = panel_steps(Weights::kDigits == 2);
  alignas(64) std::uint16_t panel[kPanelSteps * Weights::kDigits * 2 * kTileHalves];
  const TileScope<Tiles> scope(float_tile_config(task.columns));
  if (!task.has_panels) {
    return multiply_one_group<Tiles, Lanes, Weights>(task);
  }
  const std::int64_t steps = task.steps;
  const std::int64_t groups = task.groups;
  const std::uint32_t* digits = task.digits;
  for (std::int64_t first = 0; first < steps; first += kPanelSteps) {
    const std::int64_t count = steps - first < kPanelSteps ? steps - first : kPanelSteps;
    const std::int64_t group_digits = count * kInputDigits * kStepPairs * task.columns;
    for (std::int64_t i = 0; i < task.strips; ++i) {
      decode_panel<Weights>(stored_panel(task, task.first_strip + i, first, count), count, panel);
      const bool is_last = i + 1 == task.strips;
      StoredPanel next;
      if (!is_last || first + count < steps) {
        next = stored_panel(task, task.first_strip + (is_last ? 0 : i + 1),
                            is_last ? first + count : first, count);
      }
      for (std::int64_t group = 0; group < groups; ++group) {
        add_group<Tiles, Weights>(panel, digits + group * group_digits, task.columns, count,
                                  first == 0, next, task.sums + (i * groups + group) * kGroupSums);
        next.rows = 0;
      }
    }
    digits += groups * group_digits;
  }
  for (std::int64_t i = 0; i < task.strips; ++i) {
    const std::int64_t row = (task.first_strip + i) * kStripRows;
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t token = group * task.columns;
      const std::int64_t left = task.tokens - token;
      write_group<Lanes>(task.sums + (i * groups + group) * kGroupSums,
                         left < task.columns ? left : task.columns,
                         task.n - row < kStripRows ? task.n - row : kStripRows,
                         task.y + token * task.ldy + row, task.ldy);
    }
  }
}

/// FloatTiles::multiply.
template <class Tiles, class Lanes>
void multiply_floats(const FloatTileTask& task) {
  if (task.is_f16) {
    multiply_weights<Tiles, Lanes, F16Weights<Lanes>>(task);
  } else {
    multiply_weights<Tiles, Lanes, Bf16Weights<Lanes>>(task);
  }
}

/// What follows of a row of x, or a copy with zeros behind its end.
NIBBLE_INLINE const float* whole_step(const float* x, std::int64_t count,
                                      float (&last)[kStepInputs]) {
  if (count >= kStepInputs) {
    return x;
  }
  __builtin_memset(last, 0, sizeof(last));
  __builtin_memcpy(last, x, static_cast<std::size_t>(count) * sizeof(float));
  return last;
}

/// to [pairs][columns] = from [kGroupTokens][pairs].
template <class Lanes>
NIBBLE_INLINE void write_columns(const std::uint32_t* from, std::int64_t columns,
                                 std::uint32_t* to) {
  if (columns == kGroupTokens) {
    return Lanes::transpose(from, to);
  }
  alignas(64) std::uint32_t all[kStepPairs * kGroupTokens];
  Lanes::transpose(from, all);
  for (std::int64_t pair = 0; pair < kStepPairs; ++pair) {
    Lanes::copy(all + pair * kGroupTokens, columns, to + pair * columns);
  }
}

/// FloatTiles::split.
template <class Lanes>
void split_tokens(const TokensToSplit& task) {
  const std::int64_t tile = kStepPairs * task.columns;
  alignas(64) std::uint32_t rows[kInputDigits][kGroupTokens * kStepPairs] = {};
  float last[kStepInputs];
  std::uint32_t* to = task.digits;
  for (std::int64_t i = 0; i < task.steps; ++i, to += kInputDigits * tile) {
    const std::int64_t input = (task.first_step + i) * kStepInputs;
    const float* const x = task.x + input;
    if (task.columns == 1) {  // a column lies as a row does
      Lanes::split_inputs(whole_step(x, task.k - input, last), to, to + tile, to + 2 * tile);
      continue;
    }
    for (std::int64_t token = 0; token < task.tokens; ++token) {
      const std::int64_t at = token * kStepPairs;
      Lanes::split_inputs(whole_step(x + token * task.ldx, task.k - input, last), rows[0] + at,
                          rows[1] + at, rows[2] + at);
    }
    for (std::int64_t digit = 0; digit < kInputDigits; ++digit) {
      write_columns<Lanes>(rows[digit], task.columns, to + digit * tile);
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
