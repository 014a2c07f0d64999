#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <cuda_runtime_api.h>

#include "core/dtype.h"

namespace nibble::device::cuda {

/// y [m, n] = x [m, k] w^T (+ bias) (+ y), all row-major on the device. w and x have one type: F32,
/// F16 or BF16. Sums are float32, and so is y; or y has the 16 bits of w, where there is nothing to
/// be added. What is beyond float16 becomes infinite then.
struct LtProduct {
  core::DType type = core::DType::kF32;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t m = 0;
  const void* w = nullptr;  // rows k elements apart
  const void* x = nullptr;
  std::int64_t ldx = 0;  // elements from row to row
  void* y = nullptr;
  core::DType type_of_y = core::DType::kF32;
  std::int64_t ldy = 0;
  const void* bias = nullptr;  // [n] in the type of y, or null
  bool adds = false;           // to what y holds
};

/// Dense products by cuBLASLt, float32 ones never in TF32. Move-only; used on one stream, since all
/// products share one workspace.
///
/// cuBLASLt's heuristic chooses an algorithm for each shape and power of two of tokens, once: the
/// same for all numbers of tokens that round up to it, so that an element does not depend on m
/// among them. Algorithms whose partial sums meet in no fixed order are left out.
class BlasLt {
 public:
  /// Why the library can't be opened; empty where it can. It is opened once.
  static std::string_view absence();

  /// Throws kUsage where cuBLASLt is not installed, kOutOfMemory.
  BlasLt();
  ~BlasLt();
  BlasLt(BlasLt&&) noexcept;
  BlasLt& operator=(BlasLt&&) noexcept;

  /// Nothing where m is 0. Waits for nothing, and can be recorded into a graph once a product of
  /// this kind ran. Throws kFailed where cuBLASLt has no algorithm.
  void multiply(const LtProduct& product, cudaStream_t stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nibble::device::cuda
