#include <utility>

#include "core/error.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/elementwise/vectors.h"

/// What encoders need beside the other operators.
namespace nibble::ops::cuda {

using core::ErrorKind;

void CudaOps::activate(Matrix& x, MlpActivation activation) {
  Matrix y = matrix(x.rows(), x.columns());
  mlp_activation_matrix(x.data(), activation, y.data(), x.rows(), x.columns(), stream());
  x = std::move(y);
}

void CudaOps::scale(Matrix& x, float factor) {
  cuda::scale(x.data(), factor, x.rows() * x.columns(), stream());
}

void CudaOps::remember(const Matrix& /*kv*/, const AttentionSpec& /*spec*/, std::int64_t /*layer*/,
                       const Batch<KvSequence>& /*batch*/) {
  core::fail(ErrorKind::kUsage, "encoder-decoders run on a CPU only as yet; use --device cpu");
}

CudaOps::Input CudaOps::attend(const Matrix& /*q*/, const AttentionSpec& /*spec*/,
                               std::int64_t /*layer*/, const Batch<KvSequence>& /*batch*/,
                               const LinearSet& /*set*/) {
  core::fail(ErrorKind::kUsage, "encoder-decoders run on a CPU only as yet; use --device cpu");
}

CudaOps::Matrix CudaOps::pool(const Matrix& x, TextPooling pooling,
                              std::span<const std::int32_t> begins,
                              std::span<const std::int32_t> ends) {
  Matrix y = matrix(std::ssize(begins), x.columns());
  pool_texts(pooling, x.data(), x.columns(), step_.on_device(begins), step_.on_device(ends),
             y.data(), y.rows(), stream());
  return y;
}

}  // namespace nibble::ops::cuda
