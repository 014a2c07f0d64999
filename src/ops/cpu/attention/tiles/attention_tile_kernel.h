#pragma once

#include <cstdint>

#include "ops/cpu/attention/tiles/attention_tiles.h"
#include "ops/cpu/inlining.h"
#include "ops/cpu/tiles/tile_config.h"

/// The loops of attention_tiles.h, included by one file for each `Tiles`, in an unnamed namespace.
/// Lanes of vectors are query rows, so maxima and sums over keys cross no register:
///
///            A, 16 rows of 32           B, 16 pairs of 16 query rows     C, 16 rows of 16
///   scores   keys x elements            queries                          keys x query rows
///   mixture  elements x keys            weights                          elements x query rows
///
/// `Lanes` is the work on vectors (attention_lanes512.h).
namespace nibble::ops::cpu {
namespace {

constexpr int kLeftDigits = 4;  // tiles of A take turns; 0 to 3 are sums
constexpr int kHighRows = 6;    // B
constexpr int kLowRows = 7;
constexpr std::int64_t kSumTiles = 4;
constexpr float kNoMaximum = -0x1p127f;
constexpr float kLeastExponent = -87.3f;  // the weight of a score that lies so far below is 0

inline TileConfig attention_tile_config() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.set(tile, 16, kTileRegisterBytes);
  }
  return config;
}

/// Row tiles of A, which consist of steps and digits of them.
struct RowTiles {
  const std::uint32_t* digits = nullptr;
  std::int64_t tile_words = 0;  // from one row tile to the next
  std::int64_t step_words = 0;  // from one step to the next
};

template <class Tiles, int kTile, int kRows>
NIBBLE_INLINE void multiply_tile(const std::uint32_t* a) {
  constexpr int kLeft = kLeftDigits + kTile % 2;
  Tiles::template load<kLeft>(a, kTileRegisterBytes);
  Tiles::template multiply_bf16<kTile, kLeft, kRows>();
}

template <class Tiles, int kCount, int kRows>
NIBBLE_INLINE void multiply_digit(const std::uint32_t* a, std::int64_t tile_words) {
  multiply_tile<Tiles, 0, kRows>(a);
  if constexpr (kCount > 1) {
    multiply_tile<Tiles, 1, kRows>(a + tile_words);
  }
  if constexpr (kCount > 2) {
    multiply_tile<Tiles, 2, kRows>(a + 2 * tile_words);
  }
  if constexpr (kCount > 3) {
    multiply_tile<Tiles, 3, kRows>(a + 3 * tile_words);
  }
}

/// sums [kCount][16][16] = A B. Tiles are read twice, so that products of one C stand apart: they
/// wait for another.
template <class Tiles, int kCount>
NIBBLE_NOINLINE void multiply_tiles(const RowTiles& a, const std::uint32_t* b, std::int64_t steps,
                                    float* sums) {
  Tiles::template zero<0>();
  Tiles::template zero<1>();
  Tiles::template zero<2>();
  Tiles::template zero<3>();
  const std::uint32_t* left = a.digits;
  for (std::int64_t step = 0; step < steps; ++step) {
    Tiles::template load<kHighRows>(b, kTileRegisterBytes);
    Tiles::template load<kLowRows>(b + kTileWords, kTileRegisterBytes);
    multiply_digit<Tiles, kCount, kHighRows>(left, a.tile_words);
    multiply_digit<Tiles, kCount, kLowRows>(left, a.tile_words);
    multiply_digit<Tiles, kCount, kHighRows>(left + kTileWords, a.tile_words);
    multiply_digit<Tiles, kCount, kLowRows>(left + kTileWords, a.tile_words);
    left += a.step_words;
    b += kHeadDigits * kTileWords;
  }
  Tiles::template store<0>(sums, kTileRegisterBytes);
  if constexpr (kCount > 1) {
    Tiles::template store<1>(sums + kTileWords, kTileRegisterBytes);
  }
  if constexpr (kCount > 2) {
    Tiles::template store<2>(sums + 2 * kTileWords, kTileRegisterBytes);
  }
  if constexpr (kCount > 3) {
    Tiles::template store<3>(sums + 3 * kTileWords, kTileRegisterBytes);
  }
}

template <class Tiles>
NIBBLE_INLINE void multiply_some(std::int64_t count, const RowTiles& a, const std::uint32_t* b,
                                 std::int64_t steps, float* sums) {
  switch (count) {
    case 1:
      return multiply_tiles<Tiles, 1>(a, b, steps, sums);
    case 2:
      return multiply_tiles<Tiles, 2>(a, b, steps, sums);
    case 3:
      return multiply_tiles<Tiles, 3>(a, b, steps, sums);
    default:
      return multiply_tiles<Tiles, 4>(a, b, steps, sums);
  }
}

/// e^x for x not far above 0, within 5e-7 of it: 2^i e^r with i = round(x / ln 2), and the
/// polynomial of degree 5 for e^r, 1 + r + ..., whose largest relative error is least. 0 where x is
/// below kLeastExponent, NaN of NaN.
template <class Lanes>
NIBBLE_INLINE typename Lanes::Floats exp_of(typename Lanes::Floats x) {
  const auto whole = Lanes::all(0x1.8p23f);  // what is added to it is rounded to integers
  const auto i = Lanes::subtract(Lanes::fma(x, Lanes::all(1.44269504088896341f), whole), whole);
  const auto r = Lanes::fma(i, Lanes::all(-0.693147180559945309f), x);
  auto p = Lanes::all(8.312521502e-03f);
  p = Lanes::fma(p, r, Lanes::all(4.189015925e-02f));
  p = Lanes::fma(p, r, Lanes::all(1.666711420e-01f));
  p = Lanes::fma(p, r, Lanes::all(4.999923110e-01f));
  p = Lanes::fma(p, Lanes::multiply(r, r), Lanes::add(r, Lanes::all(1.0f)));
  return Lanes::scale_where(x, kLeastExponent, p, i);
}

/// What one group has of the blocks before.
struct GroupState {
  std::uint32_t* q = nullptr;  // [head steps][hi, lo][16 pairs][query rows]
  float* mixture = nullptr;    // [head tiles][kTileElements][query rows]
  float* largest = nullptr;    // [query rows]
  float* sum = nullptr;        // [query rows], of weights
  std::int32_t first = 0;      // keys that any of its rows sees: [first, end)
  std::int32_t end = 0;
};

/// Keys that a group meets at a time: `count` from `begin` on, whole units.
struct MetKeys {
  std::int32_t begin = 0;
  std::int64_t count = 0;
  bool is_masked = false;  // some row does not see some
};

template <class Lanes>
NIBBLE_NOINLINE void split_queries(const QueryGroup& group, std::int64_t head_dim,
                                   std::uint32_t* digits) {
  alignas(64) std::uint32_t rows[kHeadDigits][kTileWords] = {};
  for (std::int64_t at = 0; at < head_dim; at += kStepElements) {
    for (std::int64_t row = 0; row < group.rows; ++row) {
      const float* x = group.q[row] + at;
      float last[kStepElements] = {};
      if (head_dim - at < kStepElements) {
        __builtin_memcpy(last, x, static_cast<std::size_t>(head_dim - at) * sizeof(float));
        x = last;
      }
      Lanes::split_row(x, rows[0] + row * 16, rows[1] + row * 16);
    }
    Lanes::transpose(rows[0], digits);
    Lanes::transpose(rows[1], digits + kTileWords);
    digits += kHeadDigits * kTileWords;
  }
}

/// AttentionTiles::split_keys.
template <class Lanes>
void split_keys(const VectorsToSplit& task) {
  std::uint32_t* to = task.digits;
  for (std::int64_t first = 0; first < units_of(task.count) * kUnitKeys; first += kTileKeys) {
    for (std::int64_t at = 0; at < task.head_dim; at += kStepElements) {
      const std::int64_t left = task.head_dim - at;
      for (std::int64_t row = 0; row < kTileKeys; ++row) {
        float some[kStepElements] = {};
        const float* x = some;
        if (first + row < task.count) {
          x = task.x + (first + row) * task.ldx + at;
          if (left < kStepElements) {
            __builtin_memcpy(some, x, static_cast<std::size_t>(left) * sizeof(float));
            x = some;
          }
        }
        Lanes::split_row(x, to + row * 16, to + kTileWords + row * 16);
      }
      to += kHeadDigits * kTileWords;
    }
  }
}

/// AttentionTiles::split_values.
template <class Lanes>
void split_values(const VectorsToSplit& task) {
  std::uint32_t* to = task.digits;
  for (std::int64_t first = 0; first < task.count; first += kUnitKeys) {
    for (std::int64_t at = 0; at < task.head_dim; at += kTileElements) {
      alignas(64) std::uint32_t pairs[kHeadDigits][kTileWords];
      const std::int64_t left = task.head_dim - at;
      for (std::int64_t pair = 0; pair < kUnitKeys / 2; ++pair) {
        float some[2][kTileElements] = {};
        const float* x[2];
        for (std::int64_t i = 0; i < 2; ++i) {
          const std::int64_t key = first + 2 * pair + i;
          x[i] = some[i];
          if (key < task.count) {
            x[i] = task.x + key * task.ldx + at;
            if (left < kTileElements) {
              __builtin_memcpy(some[i], x[i], static_cast<std::size_t>(left) * sizeof(float));
              x[i] = some[i];
            }
          }
        }
        Lanes::split_rows(x[0], x[1], pairs[0] + pair * 16, pairs[1] + pair * 16);
      }
      Lanes::transpose(pairs[0], to);
      Lanes::transpose(pairs[1], to + kTileWords);
      to += kHeadDigits * kTileWords;
    }
  }
}

/// scores [keys][query rows] = k . q.
template <class Tiles>
NIBBLE_INLINE void score_keys(const TiledQueries& task, const GroupState& state,
                              const MetKeys& keys, float* scores) {
  const std::int64_t steps = head_steps(task.head_dim);
  const std::int64_t tile_words = steps * kHeadDigits * kTileWords;
  const RowTiles tiles = {task.keys + keys.begin / kTileKeys * tile_words, tile_words,
                          kHeadDigits * kTileWords};
  multiply_some<Tiles>(keys.count / kTileKeys, tiles, state.q, steps, scores);
}

/// Scores as the mask and a cap leave them; returns what they are still to be multiplied by.
template <class Lanes>
NIBBLE_NOINLINE float finish_scores(const TiledQueries& task, const QueryGroup& group,
                                    const MetKeys& keys, float* scores) {
  float scale = task.scale;
  if (task.softcap > 0.0f) {
    for (std::int64_t j = 0; j < keys.count; ++j) {
      float* const at = scores + j * kQueryLanes;
      Lanes::store(at, Lanes::multiply(Lanes::load(at), Lanes::all(scale)));
    }
    task.cap(task.softcap, scores, keys.count * kQueryLanes);
    scale = 1.0f;
  }
  if (keys.is_masked) {
    const auto from = Lanes::load(group.from);
    const auto to = Lanes::load(group.to);
    const auto hidden = Lanes::all(-__builtin_inff());
    for (std::int64_t j = 0; j < keys.count; ++j) {
      float* const at = scores + j * kQueryLanes;
      Lanes::store(at, Lanes::keep_where(from, keys.begin + static_cast<std::int32_t>(j), to,
                                         Lanes::load(at), hidden));
    }
  }
  return scale;
}

/// weights [units][hi, lo][16 pairs of keys][query rows] of scores; takes them into the state's
/// maximum and sum. `factor` [query rows]: what became of the weights of the blocks before.
template <class Lanes>
NIBBLE_NOINLINE void weigh(const float* scores, std::int64_t count, float scale,
                           const GroupState& state, std::uint32_t* weights, float* factor) {
  typename Lanes::Floats most[4];
  for (int i = 0; i < 4; ++i) {
    most[i] = Lanes::load(scores + i * kQueryLanes);
    most[i] = Lanes::max(most[i], Lanes::all(kNoMaximum));
  }
  for (std::int64_t j = 4; j < count; j += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      most[i] = Lanes::max(Lanes::load(scores + (j + i) * kQueryLanes), most[i]);
    }
  }
  const auto before = Lanes::load(state.largest);
  const auto of_block = Lanes::multiply(
      Lanes::max(Lanes::max(most[0], most[1]), Lanes::max(most[2], most[3])), Lanes::all(scale));
  const auto largest = Lanes::max(of_block, before);
  const auto times = exp_of<Lanes>(Lanes::subtract(before, largest));
  const auto lower = Lanes::subtract(Lanes::all(0.0f), largest);
  const auto by = Lanes::all(scale);
  typename Lanes::Floats sums[4] = {Lanes::all(0.0f), Lanes::all(0.0f), Lanes::all(0.0f),
                                    Lanes::all(0.0f)};
  for (std::int64_t unit = 0; unit * kUnitKeys < count; ++unit) {
    for (std::int64_t pair = 0; pair < kUnitKeys / 2; pair += 2) {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const float* const at = scores + (pair + i) * 2 * kQueryLanes;
        const auto even = exp_of<Lanes>(Lanes::fma(Lanes::load(at), by, lower));
        const auto odd = exp_of<Lanes>(Lanes::fma(Lanes::load(at + kQueryLanes), by, lower));
        sums[2 * i] = Lanes::add(sums[2 * i], even);
        sums[2 * i + 1] = Lanes::add(sums[2 * i + 1], odd);
        std::uint32_t* const to = weights + (pair + i) * kQueryLanes;
        Lanes::split(even, odd, to, to + kTileWords);
      }
    }
    scores += kUnitKeys * kQueryLanes;
    weights += kHeadDigits * kTileWords;
  }
  const auto sum = Lanes::add(Lanes::add(sums[0], sums[1]), Lanes::add(sums[2], sums[3]));
  Lanes::store(state.sum, Lanes::fma(Lanes::load(state.sum), times, sum));
  Lanes::store(state.largest, largest);
  Lanes::store(factor, times);
}

/// mixture = factor mixture + weights values.
template <class Tiles, class Lanes>
NIBBLE_INLINE void mix_values(const TiledQueries& task, const MetKeys& keys,
                              const std::uint32_t* weights, const float* factor,
                              const GroupState& state, float* sums) {
  const std::int64_t tiles = head_tiles(task.head_dim);
  constexpr std::int64_t kTile = kHeadDigits * kTileWords;
  const std::uint32_t* const values = task.values + keys.begin / kUnitKeys * tiles * kTile;
  const auto times = Lanes::load(factor);
  for (std::int64_t tile = 0; tile < tiles; tile += kSumTiles) {
    const std::int64_t count = tiles - tile < kSumTiles ? tiles - tile : kSumTiles;
    multiply_some<Tiles>(count, {values + tile * kTile, kTile, tiles * kTile}, weights,
                         units_of(keys.count), sums);
    float* const mixture = state.mixture + tile * kTileWords;
    for (std::int64_t i = 0; i < count * kTileWords; i += kQueryLanes) {
      Lanes::store(mixture + i, Lanes::fma(Lanes::load(mixture + i), times, Lanes::load(sums + i)));
    }
  }
}

/// out = mixture / sum of each row.
template <class Lanes>
NIBBLE_NOINLINE void write_rows(const QueryGroup& group, const GroupState& state,
                                std::int64_t head_dim) {
  const auto inverse = Lanes::divide(Lanes::all(1.0f), Lanes::load(state.sum));
  for (std::int64_t at = 0; at < head_dim; at += kTileElements) {
    alignas(64) float by_element[kTileWords];
    alignas(64) float by_row[kTileWords];
    const float* const mixture = state.mixture + at * kQueryLanes;
    for (std::int64_t i = 0; i < kTileWords; i += kQueryLanes) {
      Lanes::store(by_element + i, Lanes::multiply(Lanes::load(mixture + i), inverse));
    }
    Lanes::transpose(by_element, by_row);
    const std::int64_t count = head_dim - at < kTileElements ? head_dim - at : kTileElements;
    for (std::int64_t row = 0; row < group.rows; ++row) {
      __builtin_memcpy(group.out[row] + at, by_row + row * kTileElements,
                       static_cast<std::size_t>(count) * sizeof(float));
    }
  }
}

/// Memory of a call, as work_floats() counts it.
struct AttentionWork {
  GroupState states[kBlockGroups];
  float* scores = nullptr;
  std::uint32_t* weights = nullptr;
  float* sums = nullptr;
};

template <class Lanes>
NIBBLE_INLINE AttentionWork start(const TiledQueries& task) {
  AttentionWork work;
  float* next = task.work;
  const auto take = [&](std::int64_t count) {
    float* const taken = next;
    next += count;
    return taken;
  };
  const std::int64_t mixture = head_tiles(task.head_dim) * kTileWords;
  for (std::int64_t g = 0; g < task.count; ++g) {
    const QueryGroup& group = task.groups[g];
    GroupState& state = work.states[g];
    state.q = reinterpret_cast<std::uint32_t*>(
        take(head_steps(task.head_dim) * kHeadDigits * kTileWords));
    state.mixture = take(mixture);
    state.largest = take(kQueryLanes);
    state.sum = take(kQueryLanes);
    split_queries<Lanes>(group, task.head_dim, state.q);
    for (std::int64_t i = 0; i < mixture; i += kQueryLanes) {
      Lanes::store(state.mixture + i, Lanes::all(0.0f));
    }
    Lanes::store(state.largest, Lanes::all(kNoMaximum));
    Lanes::store(state.sum, Lanes::all(0.0f));
    state.first = group.from[0];
    state.end = group.to[0];
    for (std::int64_t row = 1; row < group.rows; ++row) {
      state.first = group.from[row] < state.first ? group.from[row] : state.first;
      state.end = group.to[row] > state.end ? group.to[row] : state.end;
    }
  }
  work.scores = take(kBlockKeys * kQueryLanes);
  work.weights = reinterpret_cast<std::uint32_t*>(take(kBlockKeys * kQueryLanes * kHeadDigits / 2));
  work.sums = take(kSumTiles * kTileWords);
  return work;
}

/// The keys of a block that a group meets; none where no row sees one.
NIBBLE_INLINE MetKeys met_keys(const QueryGroup& group, const GroupState& state,
                               std::int32_t begin) {
  MetKeys keys;
  keys.begin = begin;
  const std::int64_t left = state.end - begin;
  if (left <= 0 || begin + kBlockKeys <= state.first) {
    return keys;
  }
  keys.count = units_of(left < kBlockKeys ? left : kBlockKeys) * kUnitKeys;
  for (std::int64_t row = 0; row < group.rows; ++row) {
    keys.is_masked =
        keys.is_masked || group.from[row] > begin || group.to[row] < begin + keys.count;
  }
  return keys;
}

/// AttentionTiles::attend. Scores of a group are made between the weights of the one before and its
/// mixture, so that tiles have other work while vectors store what they need next.
template <class Tiles, class Lanes>
void attend_groups(const TiledQueries& task) {
  AttentionWork work = start<Lanes>(task);
  std::int32_t first = work.states[0].first;
  std::int32_t end = work.states[0].end;
  for (std::int64_t g = 1; g < task.count; ++g) {
    first = work.states[g].first < first ? work.states[g].first : first;
    end = work.states[g].end > end ? work.states[g].end : end;
  }
  const TileScope<Tiles> scope(attention_tile_config());
  alignas(64) float factor[kQueryLanes];
  for (std::int32_t begin = first / kBlockKeys * kBlockKeys; begin < end; begin += kBlockKeys) {
    MetKeys keys[kBlockGroups];
    std::int64_t groups[kBlockGroups];
    std::int64_t count = 0;
    for (std::int64_t g = 0; g < task.count; ++g) {
      keys[count] = met_keys(task.groups[g], work.states[g], begin);
      groups[count] = g;
      count += keys[count].count > 0 ? 1 : 0;
    }
    if (count == 0) {
      continue;
    }
    score_keys<Tiles>(task, work.states[groups[0]], keys[0], work.scores);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t g = groups[i];
      const GroupState& state = work.states[g];
      const float scale = finish_scores<Lanes>(task, task.groups[g], keys[i], work.scores);
      weigh<Lanes>(work.scores, keys[i].count, scale, state, work.weights, factor);
      if (i + 1 < count) {
        score_keys<Tiles>(task, work.states[groups[i + 1]], keys[i + 1], work.scores);
      }
      mix_values<Tiles, Lanes>(task, keys[i], work.weights, factor, state, work.sums);
    }
  }
  for (std::int64_t g = 0; g < task.count; ++g) {
    write_rows<Lanes>(task.groups[g], work.states[g], task.head_dim);
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
