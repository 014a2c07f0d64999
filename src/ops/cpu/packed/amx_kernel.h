#pragma once

#include <cstdint>

#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"

/// Many tokens by AMX: tile registers of 16 rows x 64 bytes (Intel 64 and IA-32 Architectures
/// Software Developer's Manual, volume 1, chapter 18). A line of the layout is one row of a B tile.
///
///   A   [16 tokens] x [K codes]                 signed activations, as they lie in memory
///   B   [K / 4 quads] x [16 rows x 4 codes]     unsigned weights, decoded into a panel
///   C   [16 tokens] x [16 rows]                 32-bit sums of one group
///
/// K is 64, or 32 where a group has an odd number of units, or 16 where it is half a unit. C tiles
/// stay in registers for a group of 2 x 16 tokens and 2 x 16 rows; then they are stored, and scaled
/// like those of all variants. The last tokens of a batch take tiles of fewer rows.
///
/// `Tiles` is the hardware, or what stands in for it in tests:
///   configure(config), release()
///   zero<T>(), load<T>(p, stride), store<T>(p, stride), multiply<C, A, B>()     C += A B
/// `Isa` gives vectors of 16 rows (lanes512.h).
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kAmxTokens = 16;      // rows of an A tile
constexpr std::int64_t kAmxInputs = 64;      // bytes of its rows, at most
constexpr std::int64_t kAmxTokenBlock = 64;  // tokens that share one unpacking of weights
constexpr int kAmxFirstA = 4;                // tiles 0..3 are C
constexpr int kAmxFirstB = 6;

/// The shapes of all tiles, as LDTILECFG reads them.
struct alignas(64) AmxConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(AmxConfig) == 64);

/// C tiles 2 t + v and A tiles of `first` tokens (t = 0) and `second` tokens (t = 1), for steps of
/// `inputs` inputs.
inline AmxConfig amx_config(std::int64_t inputs, std::int64_t first, std::int64_t second) {
  AmxConfig config;
  const auto set = [&](int tile, std::int64_t rows, std::int64_t row_bytes) {
    config.rows[tile] = static_cast<std::uint8_t>(rows);
    config.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
  };
  for (int t = 0; t < 2; ++t) {
    const std::int64_t tokens = t == 0 ? first : second;
    set(2 * t, tokens, kLineBytes);
    set(2 * t + 1, tokens, kLineBytes);
    set(kAmxFirstA + t, tokens, inputs);
    set(kAmxFirstB + t, inputs / kQuad, kLineBytes);
  }
  return config;
}

/// Tile registers are configured while this lives: no other code of the thread meets them.
template <class Tiles>
class AmxScope {
 public:
  explicit AmxScope(std::int64_t inputs) : inputs_(inputs) { set_tokens(kAmxTokens, kAmxTokens); }
  ~AmxScope() { Tiles::release(); }
  AmxScope(const AmxScope&) = delete;
  AmxScope& operator=(const AmxScope&) = delete;

  /// Inputs that a step takes.
  std::int64_t inputs() const { return inputs_; }
  /// What tiles hold is lost when the numbers change.
  void set_tokens(std::int64_t first, std::int64_t second) {
    if (first != first_ || second != second_) {
      Tiles::configure(amx_config(inputs_, first, second));
      first_ = first;
      second_ = second;
    }
  }

 private:
  std::int64_t inputs_;
  std::int64_t first_ = 0;
  std::int64_t second_ = 0;
};

/// C tiles of T x V blocks = the products of one group, stored as sums [T * 16 tokens][V * 16
/// rows].
template <class Tiles, int V, int T>
NIBBLE_INLINE void multiply_group(const std::uint8_t* panel, const std::int8_t* a,
                                  std::int64_t stride, std::int64_t inputs, std::int64_t step,
                                  std::int32_t* sums) {
  constexpr std::int64_t kPanelStride = V * kLineBytes;
  constexpr int kSecond = kAmxFirstA + 1;  // the second tile of A, and of B
  constexpr int kRight = kAmxFirstB + 1;
  Tiles::template zero<0>();
  Tiles::template zero<1>();
  Tiles::template zero<2>();
  Tiles::template zero<3>();
  for (std::int64_t input = 0; input < inputs; input += step) {
    const std::uint8_t* quads = panel + input / kQuad * kPanelStride;
    Tiles::template load<kAmxFirstB>(quads, kPanelStride);
    Tiles::template load<kAmxFirstA>(a + input, stride);
    Tiles::template multiply<0, kAmxFirstA, kAmxFirstB>();
    if constexpr (V == 2) {
      Tiles::template load<kRight>(quads + kLineBytes, kPanelStride);
      Tiles::template multiply<1, kAmxFirstA, kRight>();
    }
    if constexpr (T == 2) {
      Tiles::template load<kSecond>(a + kAmxTokens * stride + input, stride);
      Tiles::template multiply<2, kSecond, kAmxFirstB>();
    }
    if constexpr (V == 2 && T == 2) {
      Tiles::template multiply<3, kSecond, kRight>();
    }
  }
  std::int32_t* second = sums + kAmxTokens * V * kTileRows;
  Tiles::template store<0>(sums, V * kLineBytes);
  if constexpr (V == 2) {
    Tiles::template store<1>(sums + kTileRows, V * kLineBytes);
  }
  if constexpr (T == 2) {
    Tiles::template store<2>(second, V * kLineBytes);
  }
  if constexpr (V == 2 && T == 2) {
    Tiles::template store<3>(second + kTileRows, V * kLineBytes);
  }
}

/// One panel: groups [first, first + count) of `tokens` tokens from `token` on, of which T A tiles
/// hold at most 16 each. totals [tokens][V * 16].
template <class Tiles, class Isa, int V, int T>
NIBBLE_NOINLINE void add_panel(const TiledWeight& w, const Block<Isa, V>& block,
                               const std::uint8_t* panel, const TiledInput& x,
                               AmxScope<Tiles>& scope, std::int64_t token, std::int64_t tokens,
                               std::int64_t first, std::int64_t count, float* totals) {
  constexpr std::int64_t kRow = V * kTileRows;
  const std::int64_t inputs = w.group_inputs;
  scope.set_tokens(T == 2 ? kAmxTokens : tokens, T == 2 ? tokens - kAmxTokens : kAmxTokens);
  alignas(64) std::int32_t products[T * kAmxTokens * kRow];
  typename Isa::Int zero[V];
  for (int v = 0; v < V; ++v) {
    zero[v] = Isa::negative_zero(w.zero);
  }
  for (std::int64_t g = 0; g < count; ++g) {
    const Tokens group = tokens_at(x, token, first + g, inputs);
    multiply_group<Tiles, V, T>(panel + g * inputs * kRow, group.codes, x.row_stride, inputs,
                                scope.inputs(), products);
    if (block.at[0].zeros != nullptr) {
      for (int v = 0; v < V; ++v) {
        zero[v] = Isa::negative_zeros(block.at[v].zeros + (first + g) * kTileRows);
      }
    }
    for (std::int64_t i = 0; i < tokens; ++i) {
      const Tokens at = tokens_at(x, token + i, first + g, inputs);
      typename Isa::Int sums[V][1];
      typename Isa::Float total[V][1];
      for (int v = 0; v < V; ++v) {
        sums[v][0] = Isa::load(products + i * kRow + v * kTileRows);
        total[v][0] = Isa::load_floats(totals + i * kRow + v * kTileRows);
      }
      add_zeros<Isa, V, 1>(zero, at, 0, sums);
      if (w.in_blocks()) {
        add_block_scaled<Isa, V, 1>(w, block, at, first + g, 0, sums, total);
      } else {
        add_scaled<Isa, V, 1>(block, at, first + g, 0, sums, total);
      }
      for (int v = 0; v < V; ++v) {
        Isa::store(totals + i * kRow + v * kTileRows, total[v][0]);
      }
    }
  }
}

/// Tokens [begin, begin + count) of V tiles, count <= kAmxTokenBlock, begin a multiple of 16.
template <class Tiles, class Isa, class Source, int V>
NIBBLE_NOINLINE void run_amx_block(const TiledWeight& w, const TiledInput& x,
                                   AmxScope<Tiles>& scope, std::int64_t begin, std::int64_t count,
                                   std::int64_t tile, float* y, std::int64_t ldy) {
  constexpr std::int64_t kRow = V * kTileRows;
  alignas(64) std::uint8_t panel[kPanelInputs * kRow];
  alignas(64) float totals[kAmxTokenBlock * kRow];
  for (std::int64_t i = 0; i < count * kRow; ++i) {
    totals[i] = 0.0f;
  }
  const Block<Isa, V> block(w, tile);
  const Source source(w, block);
  const std::int64_t groups_per_panel = kPanelInputs / w.group_inputs;
  for (std::int64_t g = 0; g < w.groups; g += groups_per_panel) {
    const std::int64_t groups = w.groups - g < groups_per_panel ? w.groups - g : groups_per_panel;
    unpack<Isa, Source, V>(source, g * w.group_inputs / kUnit, groups * w.group_inputs / kUnit,
                           panel);
    for (std::int64_t i = 0; i < count; i += 2 * kAmxTokens) {
      const std::int64_t left = count - i;
      if (left > kAmxTokens) {
        const std::int64_t tokens = left < 2 * kAmxTokens ? left : 2 * kAmxTokens;
        add_panel<Tiles, Isa, V, 2>(w, block, panel, x, scope, begin + i, tokens, g, groups,
                                    totals + i * kRow);
      } else {
        add_panel<Tiles, Isa, V, 1>(w, block, panel, x, scope, begin + i, left, g, groups,
                                    totals + i * kRow);
      }
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    for (int v = 0; v < V; ++v) {
      const std::int64_t row = (tile + v) * kTileRows;
      store<Isa>(Isa::load_floats(totals + i * kRow + v * kTileRows), block.at[v].units, w.n - row,
                 y + (begin + i) * ldy + row);
    }
  }
}

template <class Tiles, class Isa, class Codes, int V>
void run_amx_tiles(const TiledWeight& w, const TiledInput& x, AmxScope<Tiles>& scope,
                   std::int64_t tile, float* y, std::int64_t ldy) {
  for (std::int64_t token = 0; token < x.m; token += kAmxTokenBlock) {
    const std::int64_t count = x.m - token < kAmxTokenBlock ? x.m - token : kAmxTokenBlock;
    run_amx_block<Tiles, Isa, Whole<typename Codes::template Source<Isa, V>, V>, V>(
        w, x, scope, token, count, tile, y, ldy);
  }
}

template <class Tiles, class Isa, class Codes>
void run_amx_all(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
                 float* y, std::int64_t ldy) {
  AmxScope<Tiles> scope(w.group_inputs % kAmxInputs == 0 ? kAmxInputs
                        : w.group_inputs % kUnit == 0    ? kUnit
                                                         : kHalfUnit);
  std::int64_t tile = begin;
  for (; tile + 2 <= end; tile += 2) {
    run_amx_tiles<Tiles, Isa, Codes, 2>(w, x, scope, tile, y, ldy);
  }
  for (; tile < end; ++tile) {
    run_amx_tiles<Tiles, Isa, Codes, 1>(w, x, scope, tile, y, ldy);
  }
}

/// Tiles [begin, end) of all tokens, any number of them; as Variant::run.
template <class Tiles, class Isa>
void run_amx(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
             float* y, std::int64_t ldy) {
  with_codes(
      w, [&](auto codes) { run_amx_all<Tiles, Isa, decltype(codes)>(w, x, begin, end, y, ldy); });
}

}  // namespace
}  // namespace nibble::ops::cpu
