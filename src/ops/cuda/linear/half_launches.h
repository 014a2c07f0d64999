#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/sparse/half_product.h"

/// What the kernels share that multiply float16 activations into float32 results.
namespace nibble::ops::cuda {

/// What they refuse to do with their product.
Refusal float_result_refusal(const LinearProblem& linear);

/// product(HalfProduct, first token) for all tokens of a layer's input, at most `most` at a time.
template <typename Product>
void for_each_launch(const LinearProblem& linear, const LinearInput& x, const GemmOutput& output,
                     std::int64_t most, const Product& product) {
  require_unpaired(output, linear.n);
  const std::int64_t padded = padded_columns(linear.k);
  for (std::int64_t token = 0; token < x.m; token += most) {
    product(HalfProduct{x.target.values == nullptr ? nullptr : x.target.values + token * padded,
                        padded, std::min(most, x.m - token), output.y + token * output.stride,
                        output.stride, output.bias, output.adds},
            token);
  }
}

}  // namespace nibble::ops::cuda
