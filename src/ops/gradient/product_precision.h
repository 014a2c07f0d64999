#pragma once

#include <string_view>

namespace nibble::ops::gradient {

/// What the products of matrices on a GPU take in; their sums are float32, as is all else.
enum class ProductPrecision {
  kFloat32,
  kTf32,      // float32 with 10 bits of mantissa
  kBfloat16,  // as PyTorch's autocast
};

/// "float32", "tf32", "bf16"; throws kUsage for anything else.
ProductPrecision parse_precision(std::string_view word);
std::string_view to_string(ProductPrecision precision);

}  // namespace nibble::ops::gradient
