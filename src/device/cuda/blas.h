#pragma once

#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "core/dtype.h"

namespace nibble::device::cuda {

/// A matrix on the device as an operand: row-major with rows `ld` numbers apart, or the transpose
/// of such a one.
struct Operand {
  const void* data = nullptr;
  std::int64_t ld = 0;
  bool transposed = false;
  std::int64_t stride = 0;               // numbers to the matrix of the next product of a batch
  core::DType type = core::DType::kF32;  // or BF16; both operands have one type
};

struct Product {
  float* data = nullptr;
  std::int64_t ld = 0;
  std::int64_t stride = 0;
};

/// How products of float32 are computed.
enum class FloatProducts { kFloat32, kTf32 };

/// Dense products by cuBLAS whose sums are float32: the same bits each time. Move-only.
class Blas {
 public:
  /// Products run on `stream`. Throws kUsage where cuBLAS is not installed.
  explicit Blas(cudaStream_t stream, FloatProducts products = FloatProducts::kFloat32);
  ~Blas();
  Blas(Blas&&) noexcept;
  Blas& operator=(Blas&&) noexcept;

  /// c [m, n] = alpha a [m, k] b [k, n] + beta c, `batch` times. Nothing where m or n is 0.
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Operand& a,
                const Operand& b, float beta, const Product& c, std::int64_t batch = 1) const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace nibble::device::cuda
