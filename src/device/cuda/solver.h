#pragma once

#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "device/cuda/memory.h"

namespace nibble::device::cuda {

/// Factorisations by cuSOLVER in double precision, on symmetric matrices [n, n] on the device of
/// which the upper triangle in column-major order is read and written. They wait for their result.
class Solver {
 public:
  /// Throws kUsage where cuSOLVER is not installed.
  explicit Solver(cudaStream_t stream);
  ~Solver();
  Solver(Solver&&) noexcept;
  Solver& operator=(Solver&&) noexcept;

  /// a becomes U with a = U^T U; false when a is not positive definite.
  bool factor(double* a, std::int64_t n);

  /// U of factor() becomes the inverse of U^T U; false when U is singular.
  bool invert(double* u, std::int64_t n);

 private:
  struct Handle;
  double* workspace(std::int64_t values);
  bool succeeded() const;

  std::unique_ptr<Handle> handle_;
  cudaStream_t stream_ = nullptr;
  Buffer workspace_;
  Buffer status_;  // one int: 0, or where it failed
};

}  // namespace nibble::device::cuda
