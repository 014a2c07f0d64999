#pragma once

#include <cstdint>

#include "ops/cpu/packed/panel_weights.h"
#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"

/// Many tokens: weights of kPanelInputs inputs are decoded once into the L1 cache, with the scales
/// and minima of their groups in float32; then all tokens of a block pass in register tiles.
/// In an unnamed namespace, as tile_kernel.h.
///
///       tokens i..i+M        k -->                      rows of the block: V vectors
///       +-----------+        +------------------+       +-------+-------+
///       | a codes   |   x    | panel [K block]  |   ->  | total[v][i]   |
///       +-----------+        +------------------+       +-------+-------+
///
/// What zeros and minima want of a token's codes is made for the block of tokens before they pass.
namespace nibble::ops::cpu {
namespace {

/// Some tokens and the inputs of one panel. From token to token it is a stride.
struct PanelTokens {
  const std::int8_t* codes;
  std::int64_t row_stride;
  const float* scales;
  std::int64_t scale_stride;
  const std::int32_t* zero_terms;  // -zero * sum of a group's codes, or that sum
  std::int64_t zero_stride;
  const float* sums;  // with minima: sum of a group's codes
  std::int64_t sum_stride;
};

/// What all register tiles of a panel read of the sums of a block of tokens.
template <class Isa, std::int64_t Groups>
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): prepare() writes what at() points to
class PreparedTokens {
 public:
  /// The groups [first, first + groups) of `count` tokens.
  template <class Form>
  NIBBLE_NOINLINE void prepare(const TiledWeight& w, const TiledInput& x, std::int64_t begin,
                               std::int64_t count, std::int64_t first, std::int64_t groups) {
    constexpr std::int32_t kLowered = Isa::kLowers ? 128 : 0;
    groups_ = groups;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t* sums = x.sums + (begin + i) * x.groups + first;
      if constexpr (Form::kZero == ZeroKind::kPrepared) {
        scale(sums, groups, kLowered - w.zero, zero_terms_ + i * groups);
      }
      if constexpr (Form::kMinima) {
        scale(sums, groups, 1.0f, sums_ + i * groups);
      }
    }
  }
  /// From the i-th of them on, which `tokens` are.
  template <class Form>
  PanelTokens at(const Tokens& tokens, std::int64_t i) const {
    constexpr bool kPrepared = Form::kZero == ZeroKind::kPrepared;
    return {tokens.codes,
            tokens.row_stride,
            tokens.scales,
            tokens.groups,
            kPrepared ? zero_terms_ + i * groups_ : tokens.sums,
            kPrepared ? groups_ : tokens.groups,
            sums_ + i * groups_,
            groups_};
  }

 private:
  /// to = factor * from; eight at a time, as panels mostly have a multiple of them.
  template <class T>
  static NIBBLE_INLINE void scale(const std::int32_t* from, std::int64_t count, T factor, T* to) {
    constexpr std::int64_t kStep = 8;
    std::int64_t g = 0;
    for (; g + kStep <= count; g += kStep) {
      for (std::int64_t j = g; j < g + kStep; ++j) {
        to[j] = factor * static_cast<T>(from[j]);
      }
    }
    for (; g < count; ++g) {
      to[g] = factor * static_cast<T>(from[g]);
    }
  }

  alignas(64) std::int32_t zero_terms_[Isa::kTokenBlock * Groups];
  alignas(64) float sums_[Isa::kTokenBlock * Groups];
  std::int64_t groups_ = 0;
};

/// sums[v][i] += -zero * sum of the token's codes, or = that.
template <class Isa, int V, int M, class Form, bool Adds, class Weights>
NIBBLE_INLINE void take_zeros(const Weights& w, const PanelTokens& x, std::int64_t group,
                              typename Isa::Int (&sums)[V][M]) {
  using Int = typename Isa::Int;
  Int zero[V];
  for (int v = 0; v < V; ++v) {
    zero[v] = Form::kZero == ZeroKind::kRows ? Isa::negative_zeros(w.zeros[v] + group * kTileRows)
                                             : Isa::negative_zero(w.zero);
  }
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) {
    const std::int32_t sum = x.zero_terms[i * x.zero_stride + group];
    Int term = Isa::broadcast(sum);
    if constexpr (Form::kZero == ZeroKind::kOne) {
      term = Isa::multiply_zero(zero[0], term);
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      Int product = term;
      if constexpr (Form::kZero == ZeroKind::kRows) {
        product = Form::kWidth == GroupWidth::kRow ? multiply_zero_of_row<Isa>(zero[v], sum)
                                                   : Isa::multiply_zero(zero[v], term);
      }
      sums[v][i] = Adds ? Isa::add(sums[v][i], product) : product;
    }
  }
}

/// total[v][i] += the scaled sums of a group, as tile_layout.h says.
template <class Isa, int V, int M, class Form, class Weights>
NIBBLE_INLINE void add_scaled_sums(const Weights& w, const PanelTokens& x, std::int64_t group,
                                   const typename Isa::Int (&sums)[V][M],
                                   typename Isa::Float (&total)[V][M]) {
  using Float = typename Isa::Float;
  Float scale[V];
  Float minimum[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    scale[v] = Isa::load_floats(w.scales + (group * V + v) * Isa::kLanes);
    if constexpr (Form::kMinima) {
      minimum[v] = Isa::load_floats(w.minima + (group * V + v) * Isa::kLanes);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) {
    const Float a_scale = Isa::broadcast(x.scales[i * x.scale_stride + group]);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const Float sum = Isa::to_float(sums[v][i]);
      if constexpr (Form::kMinima) {
        const Float a_sum = Isa::broadcast(x.sums[i * x.sum_stride + group]);
        const Float shifted = Isa::fma(sum, scale[v], Isa::mul(minimum[v], a_sum));
        total[v][i] = Isa::fma(shifted, a_scale, total[v][i]);
      } else {
        total[v][i] = Isa::fma(sum, Isa::mul(scale[v], a_scale), total[v][i]);
      }
    }
  }
}

/// total[v][i] += a group, whose products multiply(sums) adds.
template <class Isa, int V, int M, class Form, class Weights, class Multiply>
NIBBLE_INLINE void add_panel_group(const Weights& w, const PanelTokens& x, std::int64_t group,
                                   typename Isa::Float (&total)[V][M], Multiply multiply) {
  constexpr bool kTakes = Form::kZero != ZeroKind::kNone;
  typename Isa::Int sums[V][M] = {};
  if constexpr (kTakes && Isa::kZerosFirst) {
    take_zeros<Isa, V, M, Form, false>(w, x, group, sums);
  }
  multiply(sums);
  if constexpr (Isa::kPairsTokens) {
    Isa::template separate_tokens<V, M>(sums);
  }
  if constexpr (kTakes && !Isa::kZerosFirst) {
    take_zeros<Isa, V, M, Form, true>(w, x, group, sums);
  }
  add_scaled_sums<Isa, V, M, Form>(w, x, group, sums, total);
}

/// total[v][i] += all groups of a panel.
template <class Isa, int V, int M, class Form, class Weights>
NIBBLE_INLINE void add_panel_groups(const Weights& w, const PanelTokens& x,
                                    typename Isa::Float (&total)[V][M]) {
  using Int = typename Isa::Int;
  const std::int8_t* a = x.codes;
  std::int64_t unit = 0;
  const auto multiply = [&](auto pairs, Int(&sums)[V][M]) NIBBLE_INLINE_LAMBDA {
    Isa::template multiply_unit<V, M, decltype(pairs)>(w.codes, unit, a, x.row_stride, sums);
  };
  const auto add = [&](std::int64_t group, auto products) NIBBLE_INLINE_LAMBDA {
    add_panel_group<Isa, V, M, Form>(w, x, group, total, products);
  };
  if constexpr (Form::kWidth == GroupWidth::kHalfUnit) {
    for (; unit < w.groups / 2; ++unit, a += kUnit) {
      add(2 * unit, [&](Int(&sums)[V][M]) NIBBLE_INLINE_LAMBDA { multiply(FirstHalf(), sums); });
      add(2 * unit + 1,
          [&](Int(&sums)[V][M]) NIBBLE_INLINE_LAMBDA { multiply(SecondHalf(), sums); });
    }
  } else if constexpr (Form::kWidth == GroupWidth::kUnit) {
    for (; unit < w.groups; ++unit, a += kUnit) {
      add(unit, [&](Int(&sums)[V][M]) NIBBLE_INLINE_LAMBDA { multiply(WholeUnit(), sums); });
    }
  } else {
    for (std::int64_t g = 0; g < w.groups; ++g) {
      add(g, [&](Int(&sums)[V][M]) NIBBLE_INLINE_LAMBDA {
        for (std::int64_t u = 0; u < w.units_per_group; ++u, ++unit, a += kUnit) {
          multiply(WholeUnit(), sums);
        }
      });
    }
  }
}

/// Which of a row's panels one is.
struct PanelPlace {
  bool is_first;
  bool is_last;
};

/// One panel of a row that is one group: totals [M, V * kLanes] are its sums so far, and behind the
/// last panel the total.
template <class Isa, int V, int M, class Form, class Weights>
NIBBLE_INLINE void add_panel_to_row(const Weights& w, const PanelTokens& x, PanelPlace place,
                                    float* totals) {
  using Int = typename Isa::Int;
  constexpr bool kTakes = Form::kZero != ZeroKind::kNone;
  Int sums[V][M] = {};
  if (!place.is_first) {
    for (int i = 0; i < M; ++i) {
      for (int v = 0; v < V; ++v) {
        sums[v][i] = Isa::load(totals + (i * V + v) * Isa::kLanes);
      }
    }
  } else if constexpr (kTakes && Isa::kZerosFirst) {
    take_zeros<Isa, V, M, Form, false>(w, x, 0, sums);
  }
  const std::int8_t* a = x.codes;
  for (std::int64_t unit = 0; unit < w.units_per_group; ++unit, a += kUnit) {
    Isa::template multiply_unit<V, M, WholeUnit>(w.codes, unit, a, x.row_stride, sums);
  }
  typename Isa::Float total[V][M] = {};
  if (place.is_last) {
    if constexpr (Isa::kPairsTokens) {
      Isa::template separate_tokens<V, M>(sums);
    }
    if constexpr (kTakes && !Isa::kZerosFirst) {
      take_zeros<Isa, V, M, Form, true>(w, x, 0, sums);
    }
    add_scaled_sums<Isa, V, M, Form>(w, x, 0, sums, total);
  }
  for (int i = 0; i < M; ++i) {
    for (int v = 0; v < V; ++v) {
      float* to = totals + (i * V + v) * Isa::kLanes;
      if (place.is_last) {
        Isa::store(to, total[v][i]);
      } else {
        Isa::store(reinterpret_cast<std::uint8_t*>(to), sums[v][i]);
      }
    }
  }
}

/// One panel for M tokens: totals [M, V * kLanes] += it, or = it where it is the first.
template <class Isa, int V, int M, class Form, class Weights>
NIBBLE_NOINLINE void run_register_tile(const Weights& w, const PanelTokens& x, PanelPlace place,
                                       float* totals) {
  if constexpr (Form::kWidth == GroupWidth::kRow) {
    return add_panel_to_row<Isa, V, M, Form>(w, x, place, totals);
  }
  typename Isa::Float total[V][M];
  for (int i = 0; i < M; ++i) {
    for (int v = 0; v < V; ++v) {
      total[v][i] =
          place.is_first ? Isa::zero() : Isa::load_floats(totals + (i * V + v) * Isa::kLanes);
    }
  }
  add_panel_groups<Isa, V, M, Form>(w, x, total);
  for (int i = 0; i < M; ++i) {
    for (int v = 0; v < V; ++v) {
      Isa::store(totals + (i * V + v) * Isa::kLanes, total[v][i]);
    }
  }
}

template <class Isa, int V, int M, class Form, class Weights>
void dispatch_register_tile(const Weights& w, const PanelTokens& x, std::int64_t tokens,
                            PanelPlace place, float* totals) {
  if constexpr (M > 1) {
    if (tokens < M) {
      return dispatch_register_tile<Isa, V, M - 1, Form>(w, x, tokens, place, totals);
    }
  }
  run_register_tile<Isa, V, M, Form>(w, x, place, totals);
}

/// Tokens [begin, begin + count) of a block of rows, count <= Isa::kTokenBlock.
template <class Isa, int V, class Form, class Panels>
NIBBLE_NOINLINE void run_panel(const TiledWeight& w, const TiledInput& x, std::int64_t begin,
                               std::int64_t count, std::int64_t tile, const Panels& panels,
                               float* y, std::int64_t ldy) {
  using Buffer = PanelBuffer<Isa, V, Panels>;
  constexpr std::int64_t kRow = V * Isa::kLanes;
  Buffer buffer;
  PreparedTokens<Isa, Buffer::kGroups> prepared;
  alignas(64) float totals[Isa::kTokenBlock * kRow];
  const Block<Isa, V> block(w, tile);
  const std::int64_t step = even_step(count, Isa::kPanelTokens);
  constexpr bool kWholeRow = Form::kWidth == GroupWidth::kRow;
  const std::int64_t all = w.groups * w.group_inputs;
  const std::int64_t most =
      kWholeRow ? Panels::kInputs : Panels::kInputs / w.group_inputs * w.group_inputs;
  for (std::int64_t input = 0; input < all; input += most) {
    const std::int64_t inputs = all - input < most ? all - input : most;
    const std::int64_t g = kWholeRow ? 0 : input / w.group_inputs;
    const std::int64_t groups = kWholeRow ? 1 : inputs / w.group_inputs;
    const auto panel = buffer.fill(w, block, panels, input / kUnit, inputs / kUnit, g, groups);
    prepared.template prepare<Form>(w, x, begin, count, g, groups);
    for (std::int64_t i = 0; i < count; i += step) {
      Tokens at = tokens_at(x, begin + i, g, w.group_inputs);
      at.codes = x.codes + (begin + i) * x.row_stride + input;
      dispatch_register_tile<Isa, V, Isa::kPanelTokens, Form>(
          panel, prepared.template at<Form>(at, i), count - i < step ? count - i : step,
          {input == 0, input + inputs == all}, totals + i * kRow);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    for (int v = 0; v < V; ++v) {
      const std::int64_t row = tile * kTileRows + v * Isa::kLanes;
      store<Isa>(w, row, Isa::load_floats(totals + i * kRow + v * Isa::kLanes), block.at[v].units,
                 y + (begin + i) * ldy + row);
    }
  }
}

/// All tokens of a block of rows, in even blocks of tokens.
template <class Isa, int V, class Panels>
void run_all_panels(const TiledWeight& w, const TiledInput& x, std::int64_t tile,
                    const Panels& panels, float* y, std::int64_t ldy) {
  constexpr std::int64_t kTokens = Isa::kPanelTokens;
  static_assert(Isa::kTokenBlock % kTokens == 0);
  const std::int64_t step = (even_step(x.m, Isa::kTokenBlock) + kTokens - 1) / kTokens * kTokens;
  with_form<Isa>(w, [&](auto form) {
    for (std::int64_t token = 0; token < x.m; token += step) {
      const std::int64_t count = x.m - token < step ? x.m - token : step;
      run_panel<Isa, V, decltype(form)>(w, x, token, count, tile, panels, y, ldy);
    }
  });
}

template <class Isa, class Source, int V>
void run_panels(const TiledWeight& w, const TiledInput& x, std::int64_t tile, float* y,
                std::int64_t ldy) {
  run_all_panels<Isa, V>(w, x, tile, panels_of<Isa, V, Source>(), y, ldy);
}

/// All tokens of a block of rows.
template <class Isa, class Source, int V>
void run_block(const TiledWeight& w, const TiledInput& x, std::int64_t tile, float* y,
               std::int64_t ldy) {
  if (x.m <= Isa::direct_limit(w.group_inputs)) {
    const std::int64_t step = even_step(x.m, Isa::kDirectTokens);
    for (std::int64_t token = 0; token < x.m; token += step) {
      const std::int64_t count = x.m - token < step ? x.m - token : step;
      dispatch_direct<Isa, Source, V, Isa::kDirectTokens>(w, x, token, count, tile, y, ldy);
    }
    return;
  }
  run_panels<Isa, Source, V>(w, x, tile, y, ldy);
}

}  // namespace
}  // namespace nibble::ops::cpu
