#include <optional>

#include "core/error.h"
#include "ops/cuda/elementwise/vectors.h"
#include "ops/gradient/cuda/cuda_operators.h"
#include "ops/gradient/cuda/parameter_kernels.h"
#include "ops/gradient/cuda/row_kernels.h"
#include "ops/gradient/rounded_input.h"

namespace nibble::ops::gradient::cuda {
namespace {

using core::DType;
using device::cuda::Operand;

// How a set rounds its input. Throws as require_rounded_on_gpu().
std::optional<IntegerRounding> integer_rounding_of(const LinearSet& set) {
  const std::optional<InputRounding> rounding = rounding_of(set);
  if (!rounding) {
    return std::nullopt;
  }
  const formats::Activation& activation = rounding->activation;
  require_rounded_on_gpu(set.parts.front().name, activation);
  return IntegerRounding{activation.bits, activation.symmetric, activation.keeps_outliers,
                         activation.clip, rounding->scale,      activation.group};
}

}  // namespace

CudaOperators::Factor CudaOperators::factor(const Matrix& x) {
  Factor result{x.data(), x.columns(), {}};
  if (type_ != DType::kF32) {
    result.copy = Buffer(pool_, x.count() * core::size_of(type_));
    result.data = result.copy.as<std::byte>();
    convert(x.data(), DType::kF32, x.count(), result.copy.as<std::byte>(), type_, stream_);
  }
  return result;
}

Operand CudaOperators::operand(const void* data, std::int64_t ld, std::int64_t at, bool transposed,
                               std::int64_t stride) const {
  return {static_cast<const std::byte*>(data) + at * core::size_of(type_), ld, transposed, stride,
          type_};
}

const void* CudaOperators::weight_of(const Linear& part) const {
  const auto found = weights_.find(&part.weight);
  core::require(found != weights_.end(), core::ErrorKind::kFailed,
                "layer {} was not loaded to the GPU", part.name);
  return found->second;
}

CudaOperators::Matrix CudaOperators::weight_slopes(const Matrix& x, const Matrix& g) {
  const Factor slope = factor(g);
  const Factor read = factor(x);
  Matrix result = matrix(g.columns(), x.columns());
  blas_.multiply(g.columns(), x.columns(), x.rows(), 1.0f, operand(slope.data, slope.ld, 0, true),
                 operand(read.data, read.ld, 0), 0.0f, {result.data(), result.columns()});
  return result;
}

CudaOperators::Matrix CudaOperators::rounded(const Matrix& x, const IntegerRounding& rounding) {
  Matrix y = matrix(x.rows(), x.columns());
  round_input(rounding, x.data(), x.rows(), x.columns(), y.data(), stream_);
  return y;
}

CudaOperators::Matrix CudaOperators::linear(const Matrix& x, const LinearSet& set) {
  const std::optional<IntegerRounding> rounding = integer_rounding_of(set);
  const Matrix own = rounding ? rounded(x, *rounding) : Matrix();
  const Factor read = factor(rounding ? own : x);
  Matrix y = matrix(x.rows(), set.n());
  std::int64_t column = 0;
  for (const Linear& part : set.parts) {
    linear(read, part, y, column);
    column += part.weight.n;
  }
  return y;
}

void CudaOperators::linear(const Matrix& x, const Linear& part, Matrix& y, std::int64_t column) {
  linear(factor(x), part, y, column);
}

void CudaOperators::linear(const Factor& read, const Linear& part, Matrix& y, std::int64_t column) {
  const std::int64_t n = part.weight.n;
  const std::int64_t k = part.weight.k;
  blas_.multiply(y.rows(), n, k, 1.0f, operand(read.data, read.ld, 0),
                 operand(weight_of(part), k, 0, true), 0.0f, {y.data() + column, y.columns()});
  if (const float* const bias = constant(part.bias)) {
    ops::cuda::add_bias(y.data(), bias, y.rows(), y.columns(), column, n, stream_);
  }
}

void CudaOperators::add_parameter_gradients(const LinearSet& set, const Factor& read,
                                            const Factor& slope, const Matrix& g,
                                            const ParameterGradients& parameters) {
  std::int64_t column = 0;
  for (const Linear& part : set.parts) {
    const std::int64_t n = part.weight.n;
    const std::int64_t k = part.weight.k;
    if (const auto to = parameters.of(part.weight); !to.empty()) {
      blas_.multiply(n, k, g.rows(), 1.0f, operand(slope.data, slope.ld, column, true),
                     operand(read.data, read.ld, 0), 1.0f, {to.data(), k});
    }
    if (const auto to = parameters.of(part.bias); !to.empty()) {
      add_column_sums(g.data() + column, g.rows(), n, g.columns(), to.data(), stream_);
    }
    column += n;
  }
}

void CudaOperators::linear_back(const LinearSet& set, const Matrix& x, const Matrix& g,
                                const LinearWitness<Matrix>& witness, Matrix& dx) {
  const std::optional<IntegerRounding> rounding = integer_rounding_of(set);
  const Matrix own = rounding && witness.is_there() ? rounded(x, *rounding) : Matrix();
  const Matrix& read = rounding ? own : x;
  if (witness.observer) {
    witness.observer(set, read, g);
  }
  const Factor slope = factor(g);
  if (witness.parameters != nullptr) {
    add_parameter_gradients(set, factor(read), slope, g, *witness.parameters);
  }
  const bool cuts = rounding && rounding->cuts();
  Matrix uncut = cuts ? zeros(x.rows(), x.columns()) : Matrix();
  Matrix& to = cuts ? uncut : dx;
  std::int64_t column = 0;
  for (const Linear& part : set.parts) {
    const std::int64_t n = part.weight.n;
    blas_.multiply(x.rows(), set.k(), n, 1.0f, operand(slope.data, slope.ld, column),
                   operand(weight_of(part), set.k(), 0), 1.0f, {to.data(), set.k()});
    column += n;
  }
  if (cuts) {
    cut_gradient(*rounding, x.data(), x.rows(), x.columns(), uncut.data(), stream_);
    add(dx, uncut);
  }
}

}  // namespace nibble::ops::gradient::cuda
