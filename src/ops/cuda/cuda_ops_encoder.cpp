#include <utility>

#include "core/error.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/elementwise/vectors.h"

/// What encoders need beside the other operators.
namespace nibble::ops::cuda {

using core::ErrorKind;

void CudaOps::activate(Matrix& x, MlpActivation activation) {
  x = activated(x, activation, x.type());
}

void CudaOps::scale(Matrix& x, float factor) {
  cuda::scale(view(x), factor, x.count(), stream());
}

CudaOps::Matrix CudaOps::widened(Matrix x) {
  return x.is_half() ? copied(x) : std::move(x);
}

void CudaOps::check_range() {
  core::require(!range_.take(), ErrorKind::kFailed,
                "numbers between two layers reached {}, where float16 ends, or are none (NaN); "
                "compute in float32 with --activations float",
                core::kFp16Max);
}

CudaOps::Matrix CudaOps::pool(const Matrix& x, TextPooling pooling,
                              std::span<const std::int32_t> begins,
                              std::span<const std::int32_t> ends) {
  Matrix y = matrix(std::ssize(begins), x.columns());
  pool_texts(pooling, view(x), x.columns(), step_.on_device(begins), step_.on_device(ends),
             y.data(), y.rows(), stream());
  return y;
}

}  // namespace nibble::ops::cuda
