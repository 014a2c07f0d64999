#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ops/cpu/dense/dense_linear.h"
#include "ops/cpu/dense/tiled_linear.h"
#include "ops/cpu/linear/linear_kernels.h"

namespace nibble::ops::cpu {
namespace {

Refusal dense_refusal(const LayerProblem& problem) {
  if (!formats::is_dense(problem.linear.scheme)) {
    return Reason("weights are compressed");
  }
  return epilogue_refusal(problem.linear.epilogue);
}

Refusal whole_refusal(const LayerProblem& problem) {
  const formats::Scheme& scheme = problem.linear.scheme;
  if (formats::is_dense(scheme)) {
    return Reason("weights are dense");
  }
  if (formats::has_codes(scheme)) {
    return Reason("weights are codes");
  }
  if (!problem.prepared) {
    return Reason("the layer was not prepared");
  }
  return epilogue_refusal(problem.linear.epilogue);
}

/// Why tile registers do not multiply weights of the problem's type.
Refusal tiles_refusal(const FloatTiles& tiles, const LayerProblem& problem) {
  if (!has_float_tiles(problem.linear.scheme.code.dense)) {
    return Reason("weights are float32");
  }
  if (!tiles.runs_here()) {
    return Reason("this machine lacks {}", std::string_view(tiles.needs));
  }
  if (problem.named == nullptr && !kFloatTilesByDefault) {
    return Reason(
        "few tokens are slower so, and all must be computed alike; NIBBLE_ISA=amxint8 asks for it");
  }
  if (problem.named != nullptr && !problem.named->has_tile_registers) {
    return Reason("NIBBLE_ISA asks for {}", std::string_view(problem.named->name));
  }
  return std::nullopt;
}

/// The weight with its zeros.
formats::PackedWeight whole_weight(const formats::PackedWeight& weight) {
  const core::DType dtype = weight.scheme.code.dense;
  core::Tensor whole = core::Tensor::zeros(dtype, {weight.n, weight.k});
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t n = 0; n < weight.n; ++n) {
    formats::decode_row(weight, n, row);
    const core::Tensor stored = core::from_float32(row, {1, weight.k}, dtype);
    std::memcpy(whole.mutable_raw() + n * stored.bytes(), stored.raw(),
                static_cast<std::size_t>(stored.bytes()));
  }
  return formats::dense_weight(std::move(whole));
}

PreparedLayer prepare_whole(const formats::PackedWeight& weight, core::ThreadPool&) {
  return {whole_weight(weight), {}};
}

Refusal decoded_refusal(const LayerProblem& problem) {
  const formats::Scheme& scheme = problem.linear.scheme;
  if (formats::is_dense(scheme)) {
    return Reason("weights are dense");
  }
  if (formats::has_codes(scheme) && problem.activations != ActivationPrecision::kFloat) {
    return Reason("activations are to be integers");
  }
  if (!scheme.activation.is_float() && problem.prepared) {
    return Reason("the scheme rounds activations");
  }
  return epilogue_refusal(problem.linear.epilogue);
}

/// y of a weight and x, which is the call's input as the weight wants it.
using Multiply =
    std::function<void(const LinearCall& call, const Matrix& x, const formats::PackedWeight& weight,
                       float* y, LinearWorkspace& workspace)>;

void in_float32(const LinearCall& call, const Matrix& x, const formats::PackedWeight& weight,
                float* y, LinearWorkspace& workspace) {
  dense_linear(x.data(), x.rows(), x.columns(), weight, y, call.ldy, workspace.pool);
}

Multiply in_tiles(const FloatTiles& tiles) {
  return [&tiles](const LinearCall& call, const Matrix& x, const formats::PackedWeight& weight,
                  float* y, LinearWorkspace& workspace) {
    if (x.rows() == 0 || x.rows() > FloatDigits::kMostTokens) {
      return tiled_linear(tiles, x.data(), x.rows(), x.columns(), weight, y, call.ldy,
                          workspace.pool);
    }
    const bool is_f16 = weight.dense.dtype() == core::DType::kF16;
    tiled_linear(tiles, call.x.digits(tiles, x, is_f16, workspace), weight, y, call.ldy,
                 workspace.pool);
  };
}

auto run_stored(Multiply multiply) {
  return [multiply = std::move(multiply)](const LinearCall& call, LinearWorkspace& workspace) {
    const formats::PackedWeight& weight = call.parts.front().weight;
    multiply(call, call.x.transformed(weight, workspace), weight, call.y, workspace);
  };
}

auto run_whole(Multiply multiply) {
  return [multiply = std::move(multiply)](const LinearCall& call, LinearWorkspace& workspace) {
    float* y = call.y;
    for (const PreparedLayer& layer : call.layers) {
      const auto& weight = std::get<formats::PackedWeight>(layer.form);
      multiply(call, call.x.values(), weight, y, workspace);
      y += weight.n;
    }
  };
}

std::string schedule(const LayerProblem& problem) {
  return problem.linear.m <= kFewDenseRows ? "reads the weights once for all tokens, as they lie"
                                           : "brings tokens and panels of weights into tiles";
}

std::string tiles_schedule(const LayerProblem& problem) {
  const bool is_f16 = problem.linear.scheme.code.dense == core::DType::kF16;
  return fmt::format("{} products of BF16 digits in tile registers", is_f16 ? 5 : 3);
}

/// A kernel of the weights that `refusal` takes, in tile registers.
LinearKernel tiles_kernel(const char* name, const FloatTiles& tiles,
                          Refusal (*refusal)(const LayerProblem&)) {
  LinearKernel kernel;
  kernel.name = std::string(name) + '-' + tiles.name;
  kernel.refusal = [&tiles, refusal](const LayerProblem& problem) {
    const Refusal refused = refusal(problem);
    return refused ? refused : tiles_refusal(tiles, problem);
  };
  kernel.schedule = tiles_schedule;
  return kernel;
}

}  // namespace

LinearKernel dense_kernel() {
  return {"dense", dense_refusal, nullptr, schedule, run_stored(in_float32)};
}

LinearKernel dense_kernel(const FloatTiles& tiles) {
  LinearKernel kernel = tiles_kernel("dense", tiles, dense_refusal);
  kernel.run = run_stored(in_tiles(tiles));
  return kernel;
}

LinearKernel whole_kernel() {
  return {"dense-whole", whole_refusal, prepare_whole, schedule, run_whole(in_float32)};
}

LinearKernel whole_kernel(const FloatTiles& tiles) {
  LinearKernel kernel = tiles_kernel("dense-whole", tiles, whole_refusal);
  kernel.prepare = prepare_whole;
  kernel.run = run_whole(in_tiles(tiles));
  return kernel;
}

LinearKernel decoded_kernel() {
  return {"decoded", decoded_refusal, nullptr, schedule, run_stored(in_float32)};
}

}  // namespace nibble::ops::cpu
