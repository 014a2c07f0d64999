#pragma once

#include <cstdint>

#include "ops/cpu/packed/amx_panels.h"
#include "ops/cpu/packed/amx_sums.h"
#include "ops/cpu/packed/amx_tiles.h"
#include "ops/cpu/packed/tile_codes.h"
#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"

/// Many tokens by AMX (tiles/tile_config.h). A line of the layout is one row of a B tile.
///
///   A   [16 tokens] x [K codes]                 signed activations, as they lie in memory
///   B   [K / 4 quads] x [16 rows x 4 codes]     weights, decoded into a panel (amx_panels.h)
///   C   [16 tokens] x [16 rows]                 32-bit sums of a group or a row (amx_sums.h)
///
/// K is 64, or 32 where a group has an odd number of units, or 16 where it is half a unit.
///
/// The codes of a block of tokens stay in the L2 cache while tiles of weights pass, two at a time.
/// A panel has some inputs of these in the L1 cache; 2 x 16 tokens at a time pass it. Between the
/// products of tiles stands all other work, a little behind each product, so that tiles need not
/// wait for it:
///
///   tiles     multiply group 1 | store | multiply group 2 | store | the next tokens ...
///   vectors   scale the last   |       | scale group 1    |       | scale group 2, write the row
///             group before     |       |                  |       | if it was the last; decode a
///                              |       |                  |       | part of the next panel
///
/// `Isa` gives vectors of 16 rows (lanes512.h).
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kAmxBlockBytes = 1280 << 10;  // of the codes of a block of tokens, about
static_assert(kAmxTokens == kTokenRows);

/// C += A B for T x V tiles and one step of inputs; after() follows each product.
template <class Tiles, int V, int T, bool Signed, class After>
NIBBLE_INLINE void multiply_step(const std::uint8_t* quads, const std::int8_t* a,
                                 std::int64_t stride, After after) {
  constexpr std::int64_t kPanelStride = V * kLineBytes;
  constexpr int kSecond = kAmxFirstA + 1;  // the second tile of A, and of B
  constexpr int kRight = kAmxFirstB + 1;
  Tiles::template load<kAmxFirstB>(quads, kPanelStride);
  Tiles::template load<kAmxFirstA>(a, stride);
  Tiles::template multiply<0, kAmxFirstA, kAmxFirstB, Signed>();
  after();
  if constexpr (V == 2) {
    Tiles::template load<kRight>(quads + kLineBytes, kPanelStride);
    Tiles::template multiply<1, kAmxFirstA, kRight, Signed>();
    after();
  }
  if constexpr (T == 2) {
    Tiles::template load<kSecond>(a + kAmxTokens * stride, stride);
    Tiles::template multiply<2, kSecond, kAmxFirstB, Signed>();
    after();
  }
  if constexpr (V == 2 && T == 2) {
    Tiles::template multiply<3, kSecond, kRight, Signed>();
    after();
  }
}

/// T x V C tiles = sums [2 * 16 tokens][V * 16 rows].
template <class Tiles, int V, int T>
NIBBLE_INLINE void load_sums(const std::int32_t* sums) {
  const std::int32_t* second = sums + kAmxTokens * V * kTileRows;
  Tiles::template load<0>(sums, V * kLineBytes);
  if constexpr (V == 2) {
    Tiles::template load<1>(sums + kTileRows, V * kLineBytes);
  }
  if constexpr (T == 2) {
    Tiles::template load<2>(second, V * kLineBytes);
  }
  if constexpr (V == 2 && T == 2) {
    Tiles::template load<3>(second + kTileRows, V * kLineBytes);
  }
}

/// sums [2 * 16 tokens][V * 16 rows] = T x V C tiles.
template <class Tiles, int V, int T>
NIBBLE_INLINE void store_sums(std::int32_t* sums) {
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

/// Some tokens before a panel.
struct AmxStep {
  const std::uint8_t* quads;  // of the panel
  const std::int8_t* codes;   // of the first token
  std::int64_t stride;        // from token to token
  std::int64_t token;
  std::int64_t tokens;  // that exist, of T x 16
};

template <class Tiles>
NIBBLE_INLINE void zero_sums() {
  Tiles::template zero<0>();
  Tiles::template zero<1>();
  Tiles::template zero<2>();
  Tiles::template zero<3>();
}

/// C += `inputs` inputs of T x 16 tokens, `step` at a time. The work that waits is done behind the
/// first products, in Spread steps, of which there are as many at least.
template <class Tiles, int V, int T, bool Signed, int Spread, class Work>
NIBBLE_INLINE void multiply_inputs(AmxStep& at, std::int64_t inputs, std::int64_t step, Work work) {
  // Of the work, behind each product.
  constexpr std::int64_t kTokens = Spread == 0 ? 0 : kAmxTokens / (std::int64_t{V} * Spread);
  const std::int64_t lines = step / kQuad * V * kLineBytes;
  if constexpr (Spread != 0) {
#pragma GCC unroll 2
    for (int s = 0; s < Spread; ++s, at.quads += lines, at.codes += step) {
      multiply_step<Tiles, V, T, Signed>(at.quads, at.codes, at.stride, [&]() NIBBLE_INLINE_LAMBDA {
        work.template add<kTokens>();
      });
    }
  }
  for (std::int64_t input = Spread * step; input < inputs;
       input += step, at.quads += lines, at.codes += step) {
    multiply_step<Tiles, V, T, Signed>(at.quads, at.codes, at.stride, [] {});
  }
  work.finish();
}

/// `inputs` inputs of the rows from `input` on, whose weights are in the panel: groups of them.
template <class Tiles, int V, int T, bool Signed, int Spread, class Sums>
NIBBLE_NOINLINE void add_groups_to_tiles(const TiledWeight& w, std::int64_t input,
                                         std::int64_t inputs, AmxStep at, Sums& sums) {
  const std::int64_t step = amx_step(w.group_inputs);
  const std::int64_t first = input / w.group_inputs;
  const std::int64_t end = first + inputs / w.group_inputs;
  for (std::int64_t g = first; g < end; ++g) {
    zero_sums<Tiles>();
    multiply_inputs<Tiles, V, T, Signed, Spread>(at, w.group_inputs, step, sums.work());
    store_sums<Tiles, V, T>(sums.sums());
    sums.wait(at.token, at.tokens, g);
  }
}

/// The same of rows whose sums are whole.
template <class Tiles, int V, int T, bool Signed, class Sums>
NIBBLE_NOINLINE void add_to_row(const TiledWeight& w, std::int64_t input, std::int64_t inputs,
                                AmxStep at, Sums& sums) {
  if (input == 0) {
    zero_sums<Tiles>();
  } else {
    load_sums<Tiles, V, T>(sums.sums(at.token));
  }
  multiply_inputs<Tiles, V, T, Signed, 0>(at, inputs, amx_step(w.group_inputs), sums.work());
  store_sums<Tiles, V, T>(sums.sums(at.token));
  if (input + inputs == w.group_inputs) {
    sums.wait(at.token, at.tokens);
  }
}

/// How the two kinds of sums take what is in a panel.
template <class Isa, int V, bool Signed, bool InBlocks, int Spread>
struct ByGroup {
  using Sums = GroupSums<Isa, V, Signed, InBlocks>;
  template <class Tiles, int T>
  static void add(const TiledWeight& w, std::int64_t input, std::int64_t inputs, const AmxStep& at,
                  Sums& sums) {
    add_groups_to_tiles<Tiles, V, T, Signed, Spread>(w, input, inputs, at, sums);
  }
};
template <class Isa, int V, bool Signed>
struct ByRow {
  using Sums = RowSums<Isa, V, Signed>;
  template <class Tiles, int T>
  static void add(const TiledWeight& w, std::int64_t input, std::int64_t inputs, const AmxStep& at,
                  Sums& sums) {
    add_to_row<Tiles, V, T, Signed>(w, input, inputs, at, sums);
  }
};

/// Tokens [first, first + count) of tiles [begin, end), V at a time; count <= kAmxBlockTokens.
template <class Tiles, class Isa, int V, class How>
NIBBLE_NOINLINE void run_amx_tiles(const TiledWeight& w, const TiledInput& x, std::int64_t first,
                                   std::int64_t count, std::int64_t begin, std::int64_t end,
                                   UnpackUnits unpack, const AmxOutput<Isa, V>& output) {
  AmxPanels<V> panels(w, unpack, begin, end, (count + kAmxStepTokens - 1) / kAmxStepTokens);
  typename How::Sums sums(w, x, output, first, count, begin);
  const std::int64_t row = w.groups * w.group_inputs;
  for (std::int64_t tile = begin; tile < end; tile += V) {
    sums.begin(tile);
    for (std::int64_t input = 0; input < row; input += panels.inputs()) {
      const std::uint8_t* quads = panels.take();
      const std::int64_t inputs = row - input < panels.inputs() ? row - input : panels.inputs();
      for (std::int64_t i = 0; i < count; i += kAmxStepTokens) {
        const std::int64_t left = count - i;
        const AmxStep at = {quads, x.codes + (first + i) * x.row_stride + input, x.row_stride,
                            first + i, left < kAmxStepTokens ? left : kAmxStepTokens};
        if (left > kAmxTokens) {
          How::template add<Tiles, 2>(w, input, inputs, at, sums);
        } else {
          How::template add<Tiles, 1>(w, input, inputs, at, sums);
        }
        panels.decode_share();
      }
    }
  }
  sums.finish();
}

template <class Tiles, class Isa, int V, bool Signed>
void choose_amx_sums(const TiledWeight& w, const TiledInput& x, std::int64_t first,
                     std::int64_t count, std::int64_t begin, std::int64_t end, UnpackUnits unpack,
                     const AmxOutput<Isa, V>& output) {
  const auto run = [&]<class How>(How) {
    run_amx_tiles<Tiles, Isa, V, How>(w, x, first, count, begin, end, unpack, output);
  };
  if (w.sums_whole_rows()) {
    run(ByRow<Isa, V, Signed>());
  } else if (w.in_blocks()) {
    run(ByGroup<Isa, V, Signed, true, 1>());
  } else if (w.group_inputs < 2 * amx_step(w.group_inputs)) {
    run(ByGroup<Isa, V, Signed, false, 1>());
  } else {
    run(ByGroup<Isa, V, Signed, false, 2>());
  }
}

/// Tokens of a block: even blocks, multiples of what two A tiles hold.
inline std::int64_t amx_block_tokens(std::int64_t tokens, std::int64_t row_bytes) {
  const std::int64_t fit = kAmxBlockBytes / row_bytes / kAmxStepTokens * kAmxStepTokens;
  const std::int64_t most = fit < kAmxStepTokens    ? kAmxStepTokens
                            : fit < kAmxBlockTokens ? fit
                                                    : kAmxBlockTokens;
  return (even_step(tokens, most) + kAmxStepTokens - 1) / kAmxStepTokens * kAmxStepTokens;
}

template <class Tiles, class Isa, class Codes, int V, bool Signed>
void run_amx_blocks(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
                    float* y, std::int64_t ldy) {
  using Bytes = typename Codes::template Source<Isa, V>;
  const AmxOutput<Isa, V> output(w, x, y, ldy);
  const std::int64_t most = amx_block_tokens(x.m, x.row_stride);
  for (std::int64_t token = 0; begin < end && token < x.m; token += most) {
    const std::int64_t count = x.m - token < most ? x.m - token : most;
    choose_amx_sums<Tiles, Isa, V, Signed>(w, x, token, count, begin, end,
                                           unpack_units<Isa, Bytes, V, Signed>, output);
  }
  if (output.past_caches()) {
    Isa::fence();
  }
}

template <class Tiles, class Isa, class Codes, bool Signed>
void run_amx_all(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
                 float* y, std::int64_t ldy) {
  const std::int64_t pairs_end = begin + (end - begin) / 2 * 2;
  run_amx_blocks<Tiles, Isa, Codes, 2, Signed>(w, x, begin, pairs_end, y, ldy);
  run_amx_blocks<Tiles, Isa, Codes, 1, Signed>(w, x, pairs_end, end, y, ldy);
}

/// Tiles [begin, end) of all tokens, any number of them; as Variant::run.
template <class Tiles, class Isa>
void run_amx(const TiledWeight& w, const TiledInput& x, std::int64_t begin, std::int64_t end,
             float* y, std::int64_t ldy) {
  const TileScope<Tiles> scope(amx_config(amx_step(w.group_inputs)));
  with_codes(w, [&](auto codes) {
    if (fits_signed(w)) {
      run_amx_all<Tiles, Isa, decltype(codes), true>(w, x, begin, end, y, ldy);
    } else {
      run_amx_all<Tiles, Isa, decltype(codes), false>(w, x, begin, end, y, ldy);
    }
  });
}

}  // namespace
}  // namespace nibble::ops::cpu
