#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "device/cuda/memory.h"
#include "ops/cuda/sparse/half_product.h"
#include "ops/cuda/two_of_four/kept_units.h"

namespace nibble::ops::cuda {

/// Units on the device (kept_units.h), as kernels get them.
struct KeptView {
  const std::byte* units = nullptr;
  KeptForm form;
  int n = 0;
  int k = 0;
};

/// The weights of a layer.
class KeptWeights {
 public:
  /// Uploads. Throws kOutOfMemory.
  explicit KeptWeights(const PackedKept& packed);

  const KeptView& view() const { return view_; }
  std::int64_t bytes() const { return units_.bytes(); }

 private:
  device::cuda::Buffer units_;
  KeptView view_;
};

/// The most tokens of a launch.
inline constexpr std::int64_t kMostKeptTokens = 64;

/// At most kMostKeptTokens tokens; columns of x, or of codes, are padded with zeros to a multiple
/// of 128.
struct KeptProblem : HalfProduct {
  const KeptView* weight = nullptr;
  const std::int8_t* codes = nullptr;  // [m][ldx] in tile order, in the place of x: for units for
                                       // INT8 products
  const float* scales = nullptr;       // [m], of the codes
};

/// Starts the product on `stream`, by sparse products of tensor cores: a thread block for each 16
/// rows, whose warps take its units in turns. For float16 products weights are rounded to float16
/// once, and sums are float32; INT8 products are exact, and scaled as by gemm_int8(). Those of the
/// warps are added in their order: a token's result is the same in every batch. Reads the weight at
/// once and all else after the kernels before it in the stream have ended (dependent_launch.cuh).
/// Needs sm_80. Throws kFailed for another number of tokens.
void kept_products(const KeptProblem& problem, cudaStream_t stream);

}  // namespace nibble::ops::cuda
