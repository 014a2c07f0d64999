#include <algorithm>

#include "core/error.h"
#include "ops/cuda/linear/half_launches.h"
#include "ops/cuda/linear/wide_product.h"
#include "ops/cuda/sparse/sparse_few.h"
#include "ops/cuda/sparse/sparse_packer.h"
#include "ops/cuda/sparse/sparse_tiles.h"
#include "ops/cuda/sparse/tile_packer.h"
#include "ops/cuda/sparse/widen_codes.h"

// The kernels of block-sparse rows.
namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kFewTokens = 32;  // with more, float16 products are faster

bool in_tiles(const LinearProblem& linear) {
  return !tile_units_refusal(linear.scheme, linear.k);
}

/// The most tokens whose weights are read as they are stored, where there is cuBLASLt.
std::int64_t few_tokens(const LinearProblem& linear) {
  return in_tiles(linear) ? kMostTileTokens : kFewTokens;
}

/// What those refuse beside a layout that read what is stored.
Refusal stored_refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (const Refusal refused = float_result_refusal(linear)) {
    return refused;
  }
  if (const std::int64_t few = few_tokens(linear);
      linear.m > few && blas_lt_absence(problem).empty()) {
    return Reason("{} tokens; with more than {} sparse-many is faster", linear.m, few);
  }
  return std::nullopt;
}

Refusal few_refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (const Refusal refused = sparse_layout_refusal(linear.scheme, linear.k)) {
    return refused;
  }
  if (in_tiles(linear)) {
    return Reason("tiles of 16 rows keep the same groups, which sparse-tiles takes");
  }
  return stored_refusal(problem);
}

std::optional<InputForm> few_form(const LayerProblem&) {
  return InputForm::kInt8Lanes;
}

bool few_reads_rows(const LayerProblem& problem, const RowReading& reading) {
  const LinearProblem& linear = problem.linear;
  const formats::Activation& activation = linear.scheme.activation;
  const bool codes = activation.is_float() ||
                     (activation.bits == 8 && activation.group == 0 && !activation.stored_scale);
  return codes && reading.norm && !reading.ordered &&
         linear.m <= max_normed_sparse_rows(linear.k, *reading.norm);
}

std::string few_schedule(const LayerProblem&) {
  return "kept groups in equal shares, up to 8 tokens in a launch";
}

void run_few(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
             const GemmOutput& output, cudaStream_t stream) {
  require_unpaired(output, weights.sparse->view().n);
  const SparseView& view = weights.sparse->view();
  const bool norms = x.rows.x != nullptr;
  const formats::Activation& activation = problem.linear.scheme.activation;
  const int digits = activation.is_float() ? 2 : 1;
  const std::int64_t most = norms ? x.m : max_sparse_tokens(view, digits);
  const std::int64_t padded = padded_columns(view.k);
  const std::int64_t step = !norms ? x.target.group : activation.is_float() ? kInputPadding : 0;
  const std::int64_t scales = step == 0 ? 1 : padded / step;
  for (std::int64_t row = 0; row < x.m; row += most) {
    SparseFewProblem few;
    few.weight = &view;
    few.rows = x.rows;
    few.rows.clip = activation.clip;
    few.x = {digits, nullptr, nullptr, step == 0};
    if (!norms) {
      few.x.codes = x.target.codes + row * digits * padded;
      few.x.scales = x.target.scales + row * scales;
    }
    few.scale_step = step;
    few.m = std::min(most, x.m - row);
    few.y = output.y + row * output.stride;
    few.ldy = output.stride;
    few.bias = output.bias;
    few.add = output.adds;
    sparse_few(few, stream);
  }
}

Refusal many_refusal(const LayerProblem& problem) {
  const LinearProblem& linear = problem.linear;
  if (!in_tiles(linear)) {
    if (const Refusal refused = sparse_layout_refusal(linear.scheme, linear.k)) {
      return refused;
    }
  }
  if (const Refusal refused = float_result_refusal(linear)) {
    return refused;
  }
  if (const std::int64_t few = few_tokens(linear); linear.m <= few) {
    return Reason("{} tokens; up to {} read what is stored", linear.m, few);
  }
  if (const std::string_view reason = blas_lt_absence(problem); !reason.empty()) {
    return Reason("cublaslt not found: {}", reason);
  }
  return std::nullopt;
}

std::optional<InputForm> many_form(const LayerProblem& problem) {
  return problem.linear.scheme.activation.is_float() ? InputForm::kFloat16 : InputForm::kInt8Lanes;
}

std::string many_schedule(const LayerProblem& problem) {
  const std::int64_t rows = rows_at_once(problem.linear.n, problem.linear.k);
  return fmt::format("{} rows at a time become float16, cuBLASLt multiplies them",
                     std::min(rows, problem.linear.n));
}

/// m tokens that are float16.
void multiply_stored(const LayerWeights& weights, const core::Fp16* x, std::int64_t m,
                     const GemmOutput& output, cudaStream_t stream) {
  if (weights.tiles != nullptr) {
    const TilesView& view = weights.tiles->view();
    core::Fp16* const values = weights.tiles->wide_rows();
    return multiply_wide({weights.products, view.n, view.k, values}, x, m, output, stream,
                         [&](std::int64_t first, std::int64_t rows) {
                           widen_tiles(view, first, rows, values, stream);
                         });
  }
  const SparseView& view = weights.sparse->view();
  core::Fp16* const values = weights.sparse->wide_rows();
  multiply_wide({weights.products, view.n, view.k, values}, x, m, output, stream,
                [&](std::int64_t first, std::int64_t rows) {
                  widen_rows(view, first, rows, values, stream);
                });
}

void run_many(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
              const GemmOutput& output, cudaStream_t stream) {
  require_unpaired(output, problem.linear.n);
  if (problem.linear.scheme.activation.is_float()) {
    return multiply_stored(weights, x.target.values, x.m, output, stream);
  }
  core::Fp16* const values = weights.sparse->wide_inputs();
  for (std::int64_t token = 0; token < x.m; token += kWideTokens) {
    const std::int64_t m = std::min(kWideTokens, x.m - token);
    widen_codes(x.target, token, m, problem.linear.k, values, stream);
    GemmOutput part = output;
    part.y += token * output.stride;
    multiply_stored(weights, values, m, part, stream);
  }
}

Refusal tiles_refusal(const LayerProblem& problem) {
  if (const Refusal refused = tile_units_refusal(problem.linear.scheme, problem.linear.k)) {
    return refused;
  }
  return stored_refusal(problem);
}

std::optional<InputForm> tiles_form(const LayerProblem&) {
  return InputForm::kFloat16;
}

std::string tiles_schedule(const LayerProblem&) {
  return fmt::format("a thread block for each tile, up to {} tokens in a launch", kMostTileTokens);
}

void run_tiles(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
               const GemmOutput& output, cudaStream_t stream) {
  for_each_launch(problem.linear, x, output, kMostTileTokens,
                  [&](const HalfProduct& product, std::int64_t) {
                    sparse_tiles({product, &weights.tiles->view()}, stream);
                  });
}

}  // namespace

LinearKernel tiles_sparse_kernel() {
  return {"sparse-tiles", tiles_refusal, tiles_form, nullptr, tiles_schedule, run_tiles};
}

LinearKernel few_sparse_kernel() {
  return {"sparse-few", few_refusal, few_form, few_reads_rows, few_schedule, run_few};
}

LinearKernel many_sparse_kernel() {
  return {"sparse-many", many_refusal, many_form, nullptr, many_schedule, run_many};
}

}  // namespace nibble::ops::cuda
