#pragma once

#include <cstdint>

#include "core/float16.h"

namespace nibble::ops::cuda {

/// What a product with float16 activations reads and writes beside its weights [n][k]:
/// y [m][ldy] = x W^T + bias.
struct HalfProduct {
  const core::Fp16* x = nullptr;  // [m][ldx], in natural order
  std::int64_t ldx = 0;
  std::int64_t m = 0;
  float* y = nullptr;
  std::int64_t ldy = 0;
  const float* bias = nullptr;  // [n], or none
  bool adds = false;            // to what y holds
};

}  // namespace nibble::ops::cuda
