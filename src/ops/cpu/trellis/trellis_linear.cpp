#include "ops/cpu/trellis/trellis_linear.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/float16.h"
#include "formats/trellis/trellis_code.h"
#include "ops/cpu/cpu_features.h"
#include "ops/cpu/linear/linear_kernels.h"
#include "ops/cpu/trellis/trellis_lines.h"
#include "ops/cpu/vector/scratch.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kTilesTogether = 2;    // that variants take at a time
constexpr std::int64_t kChunksPerWorker = 8;  // so that none waits long for the last

static_assert(std::endian::native == std::endian::little, "bytes of a word stand in this order");
static_assert(formats::kRunRows == kTileRows && formats::kRunWeights == 4 * kLineBytes);

/// Eight weights begin at a byte, and their states lie in the next eight.
template <int kBits>
void expand_run(const std::uint8_t* run, std::uint8_t* codes) {
  constexpr auto kBytes = static_cast<std::size_t>(formats::run_bytes(kBits));
  std::uint8_t circle[kBytes + sizeof(std::uint64_t)];
  std::memcpy(circle, run, kBytes);
  std::memcpy(circle + kBytes, run, sizeof(std::uint64_t));
  for (std::size_t eight = 0; eight < formats::kRunWeights / 8; ++eight) {
    std::uint64_t word = 0;
    std::memcpy(&word, circle + eight * kBits, sizeof(word));
    for (std::size_t i = 0; i < 8; ++i, word >>= kBits) {
      codes[8 * eight + i] = static_cast<std::uint8_t>(
          formats::trellis_value(static_cast<std::uint16_t>(word)) + formats::kTrellisZero);
    }
  }
}

/// A layer and its input, tile by tile.
class TileProducts {
 public:
  TileProducts(const Variant& variant, const QuantizedInput& x, const formats::PackedWeight& weight)
      : variant_(variant),
        x_(x),
        weight_(weight),
        tile_bytes_(kTileRows * weight.k / 8 * weight.scheme.code.bits) {
    const std::string_view name = variant.name;
    fast_ = cpu_features().avx512vbmi && (name == "avx512vbmi" || name == "amxint8");
    const TiledInput tiled = x.tiled();
    input_ = {tiled.codes,      tiled.scales, tiled.sums, tiled.row_stride,
              x.group_stride(), tiled.groups, x.group(),  weight.k};
  }

  void run(std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) const {
#if defined(__x86_64__)
    if (fast_ && x_.m() <= kFewTrellisTokens) {
      for (std::int64_t tile = begin; tile < end; ++tile) {
        float scales[kTileRows];
        read_scales(tile, scales);
        multiply_tile_avx512vbmi(codes(tile), weight_.scheme.code.bits, input_, x_.m(), scales,
                                 y + tile * kTileRows, ldy);
      }
      return;
    }
#endif
    run_bytes(begin, end, y, ldy);
  }

 private:
  const std::uint8_t* codes(std::int64_t tile) const {
    return weight_.codes.data<std::uint8_t>().data() + tile * tile_bytes_;
  }

  void read_scales(std::int64_t tile, float* scales) const {
    const auto stored = weight_.scales.data<core::Fp16>();
    const bool shared = stored.size() == 1;
    for (std::int64_t row = 0; row < kTileRows; ++row) {
      scales[row] =
          core::to_float(stored[shared ? 0 : static_cast<std::size_t>(tile * kTileRows + row)]);
    }
  }

  /// Tiles of 8-bit codes (tile_layout.h) in a memory of this thread. Their scales are 1, and the
  /// units are those of the rows.
  void run_bytes(std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) const {
    TiledWeight tiled;
    tiled.kind = CodeKind::kInteger;
    tiled.bits = 8;
    tiled.zero = formats::kTrellisZero;
    tiled.largest = 255;
    tiled.groups = input_.groups;
    tiled.group_inputs = input_.stride;
    tiled.scales_offset = kLineBytes;  // behind 16 units
    const std::int64_t scale_bytes = tiled.groups * kTileRows * 2;
    tiled.codes_offset =
        tiled.scales_offset + (scale_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    tiled.tile_bytes = tiled.codes_offset + tiled.groups * tiled.group_bytes();
    thread_local Scratch scratch;
    auto* const tiles = scratch.values<std::uint8_t>(kTilesTogether * tiled.tile_bytes);
    tiled.tiles = tiles;
    for (std::int64_t tile = begin; tile < end; tile += kTilesTogether) {
      tiled.tile_count = std::min(kTilesTogether, end - tile);
      tiled.n = tiled.tile_count * kTileRows;
      for (std::int64_t i = 0; i < tiled.tile_count; ++i) {
        write_tile(tile + i, tiled, tiles + i * tiled.tile_bytes);
      }
      variant_.run(tiled, x_.tiled(), 0, tiled.tile_count, y + tile * kTileRows, ldy);
    }
  }

  void write_tile(std::int64_t tile, const TiledWeight& tiled, std::uint8_t* to) const {
    float units[kTileRows];
    read_scales(tile, units);
    std::memcpy(to, units, sizeof(units));
    const core::Fp16 one = core::to_fp16(1.0f);
    for (std::int64_t i = 0; i < tiled.groups * kTileRows; ++i) {
      std::memcpy(to + tiled.scales_offset + 2 * i, &one, sizeof(one));
    }
    ExpandRuns expand = expand_runs;
#if defined(__x86_64__)
    expand = fast_ ? expand_runs_avx512vbmi : expand_runs;
#endif
    const int bits = weight_.scheme.code.bits;
    const std::uint8_t* from = codes(tile);
    for (std::int64_t g = 0; g < tiled.groups; ++g) {
      const std::int64_t runs =
          std::min(input_.group, input_.k - g * input_.group) / formats::kRunInputs;
      std::uint8_t* const lines = to + tiled.codes_offset + g * tiled.group_bytes();
      expand(from, bits, runs, lines);
      from += runs * formats::run_bytes(bits);
      // Padded inputs meet codes that are 0.
      std::fill(lines + runs * formats::kRunWeights, lines + tiled.group_bytes(), std::uint8_t{0});
    }
  }

  const Variant& variant_;
  const QuantizedInput& x_;
  const formats::PackedWeight& weight_;
  std::int64_t tile_bytes_;  // of codes
  bool fast_ = false;
  TrellisInput input_;
};

Refusal refusal(const LayerProblem& problem) {
  const formats::Scheme& scheme = problem.linear.scheme;
  if (formats::is_dense(scheme)) {
    return Reason("weights are dense");
  }
  if (!formats::has_trellis(scheme)) {
    return Reason("weights are no trellis codes");
  }
  if (problem.activations == ActivationPrecision::kFloat && scheme.activation.is_float()) {
    return Reason("activations are to stay in float");
  }
  if (problem.activations == ActivationPrecision::kInt16 && scheme.activation.is_float()) {
    return Reason("activations of 16 bits are not built for it; take 8 bits or float");
  }
  return epilogue_refusal(problem.linear.epilogue);
}

std::string schedule(const LayerProblem& problem) {
  return problem.linear.m <= kFewTrellisTokens ? "decodes weights on their way from memory"
                                               : "decodes two tiles of weights once for all tokens";
}

void run(const LinearCall& call, LinearWorkspace& workspace) {
  const formats::PackedWeight& weight = call.parts.front().weight;
  const QuantizedInput& x = call.x.quantized(trellis_needs(weight.scheme, weight.k), workspace);
  trellis_linear(active_variant(), x, weight, call.y, call.ldy, workspace.pool);
}

}  // namespace

void expand_runs(const std::uint8_t* codes, int bits, std::int64_t runs, std::uint8_t* lines) {
  const auto expand = bits == 2 ? expand_run<2> : bits == 3 ? expand_run<3> : expand_run<4>;
  for (std::int64_t run = 0; run < runs; ++run) {
    expand(codes + run * formats::run_bytes(bits), lines + run * formats::kRunWeights);
  }
}

InputNeeds trellis_needs(const formats::Scheme& scheme, std::int64_t k) {
  return input_needs(scheme, k);
}

void trellis_linear(const Variant& variant, const QuantizedInput& x,
                    const formats::PackedWeight& weight, float* y, std::int64_t ldy,
                    core::ThreadPool& pool) {
  core::require(x.k() == weight.k && x.needs() == trellis_needs(weight.scheme, weight.k),
                core::ErrorKind::kFailed, "a layer of {} inputs cannot read an input of {}",
                weight.k, x.k());
  const TileProducts products(variant, x, weight);
  const std::int64_t tiles = weight.n / kTileRows;
  const std::int64_t grain =
      std::max(kTilesTogether, tiles / (kChunksPerWorker * std::int64_t{pool.size()}));
  pool.parallel_for(tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    products.run(begin, end, y, ldy);
  });
}

LinearKernel trellis_kernel() {
  return {"trellis", refusal, nullptr, schedule, run};
}

}  // namespace nibble::ops::cpu
