#include "core/error.h"
#include "ops/cuda/dense/few_dense.h"
#include "ops/cuda/linear/linear_kernels.h"

// The kernels of dense weights. Those of 16 bits have activations rounded to their own type, as
// PyTorch has, unless LinearProblem::exact is set; sums and results are float32.
namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kFewTokens = 8;  // with more, cuBLASLt is faster than our kernels

core::DType type_of(const LayerProblem& problem) {
  return problem.linear.scheme.code.dense;
}

bool has_16_bits(const LayerProblem& problem) {
  return type_of(problem) != core::DType::kF32;
}

/// What all dense kernels refuse.
Refusal common_refusal(const LayerProblem& problem) {
  if (!formats::is_dense(problem.linear.scheme)) {
    return Reason("weights are compressed");
  }
  if (problem.linear.epilogue.gate) {
    return Reason("it joins no gates");
  }
  return epilogue_refusal(problem.linear);
}

/// What those refuse that read activations in the weights' 16 bits.
Refusal half_refusal(const LayerProblem& problem) {
  if (problem.linear.exact) {
    return Reason("activations are to stay in float32");
  }
  if (problem.linear.k % kFewDenseInputs != 0) {
    return Reason("rows of {} inputs do not all begin at multiples of 16 bytes", problem.linear.k);
  }
  return std::nullopt;
}

std::optional<InputForm> half_form(const LayerProblem& problem) {
  return type_of(problem) == core::DType::kBF16 ? InputForm::kBFloat16 : InputForm::kFloat16;
}

Refusal few_refusal(const LayerProblem& problem) {
  if (const Refusal refused = common_refusal(problem)) {
    return refused;
  }
  if (!has_16_bits(problem)) {
    return Reason("weights have 32 bits");
  }
  if (const Refusal refused = half_refusal(problem)) {
    return refused;
  }
  if (problem.linear.m > kFewTokens && blas_lt_absence(problem).empty()) {
    return Reason("{} tokens; with more than {} dense-many is faster", problem.linear.m,
                  kFewTokens);
  }
  return std::nullopt;
}

std::string few_schedule(const LayerProblem& problem) {
  const std::int64_t launches = (problem.linear.m + kMostFewDense - 1) / kMostFewDense;
  return launches > 1 ? fmt::format("{} launches, rows in tiles of 16", launches)
                      : "rows in tiles of 16";
}

void run_few(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
             const GemmOutput& output, cudaStream_t stream) {
  const std::int64_t ldx = padded_columns(weights.dense.k);
  const FewDensePlan plan = few_dense_plan(problem.plan.device.multiprocessors);
  for (std::int64_t row = 0; row < x.m; row += kMostFewDense) {
    FewDenseProblem few;
    few.weight = weights.dense;
    few.x = x.target.values + row * ldx;
    few.ldx = ldx;
    few.m = std::min(kMostFewDense, x.m - row);
    few.y = output.y == nullptr ? nullptr : output.y + row * output.stride;
    few.ldy = output.stride;
    few.half = output.half.from(row);
    few.bias = output.bias;
    few.adds = output.adds;
    few_dense(few, plan, stream);
  }
}

// What float16 results of cuBLASLt are not.
Refusal many_half_refusal(const LayerProblem& problem) {
  if (problem.linear.epilogue.half && type_of(problem) != core::DType::kF16) {
    return Reason("cublaslt has results in float16 of float16 weights alone");
  }
  if (problem.linear.epilogue.activation) {
    return Reason("cublaslt lacks the activations");
  }
  return std::nullopt;
}

Refusal many_refusal(const LayerProblem& problem) {
  if (const Refusal refused = common_refusal(problem)) {
    return refused;
  }
  if (has_16_bits(problem)) {
    if (const Refusal refused = half_refusal(problem)) {
      return refused;
    }
  }
  if (problem.linear.m <= kFewTokens) {
    return Reason("{} tokens; up to {} share a reading of the weights elsewhere", problem.linear.m,
                  kFewTokens);
  }
  if (const std::string_view reason = blas_lt_absence(problem); !reason.empty()) {
    return Reason("cublaslt not found: {}", reason);
  }
  return many_half_refusal(problem);
}

std::optional<InputForm> many_form(const LayerProblem& problem) {
  return has_16_bits(problem) ? half_form(problem) : std::nullopt;
}

std::string many_schedule(const LayerProblem&) {
  return "cuBLASLt's";
}

device::cuda::LtProduct product_of(const LayerProblem& problem, const DenseView& w,
                                   const LinearInput& x) {
  device::cuda::LtProduct product;
  product.type = w.type;
  product.n = w.n;
  product.k = w.k;
  product.m = x.m;
  product.w = w.data;
  product.x = has_16_bits(problem) ? static_cast<const void*>(x.target.values) : x.matrix;
  product.ldx = has_16_bits(problem) ? padded_columns(w.k) : w.k;
  return product;
}

void run_many(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
              const GemmOutput& output, cudaStream_t stream) {
  device::cuda::LtProduct product = product_of(problem, weights.dense, x);
  const bool half = output.y == nullptr;
  core::require(!output.half.tiles, core::ErrorKind::kFailed,
                "dense-many: cuBLASLt writes its results in natural order");
  product.y = half ? output.half.values : output.y;
  product.type_of_y = half ? core::DType::kF16 : core::DType::kF32;
  product.ldy = half ? output.half.stride : output.stride;
  product.bias = half ? static_cast<const void*>(weights.half_bias) : output.bias;
  product.adds = output.adds;
  weights.products->multiply(product, stream);
}

void run_many_to_bfloat16(const LayerProblem& problem, const LayerWeights& weights,
                          const LinearInput& x, const Bfloat16Output& output, cudaStream_t stream) {
  device::cuda::LtProduct product = product_of(problem, weights.dense, x);
  product.y = output.y;
  product.type_of_y = core::DType::kBF16;
  product.ldy = output.stride;
  weights.products->multiply(product, stream);
}

Refusal float_refusal(const LayerProblem& problem) {
  if (const Refusal refused = common_refusal(problem)) {
    return refused;
  }
  if (problem.linear.epilogue.half) {
    return Reason("its results are float32");
  }
  return std::nullopt;
}

std::optional<InputForm> float_form(const LayerProblem&) {
  return std::nullopt;
}

std::string float_schedule(const LayerProblem&) {
  return "eight tokens share a reading of the weights";
}

void run_float(const LayerProblem&, const LayerWeights& weights, const LinearInput& x,
               const GemmOutput& output, cudaStream_t stream) {
  dense(weights.dense, x.matrix, x.m, output.y, output.stride, output.bias, stream,
        {1.0f, output.adds});
}

}  // namespace

LinearKernel few_dense_kernel() {
  return {"dense-few", few_refusal, half_form, nullptr, few_schedule, run_few};
}

LinearKernel many_dense_kernel() {
  return {"dense-many",  many_refusal, many_form, nullptr,
          many_schedule, run_many,     nullptr,   run_many_to_bfloat16};
}

LinearKernel dense_kernel() {
  return {"dense", float_refusal, float_form, nullptr, float_schedule, run_float};
}

}  // namespace nibble::ops::cuda
