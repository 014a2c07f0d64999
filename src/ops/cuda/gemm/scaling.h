#pragma once

namespace nibble::ops::cuda {

/// How the sums of a GEMM become numbers.
enum class Scaling {
  kNone,           // they are the result (float16 weights are scaled before)
  kByRow,          // by row and token, at the end
  kByGroup,        // by row in each group of 128, by token at the end
  kByGroupOfBoth,  // by row and token in each group of 128
};

}  // namespace nibble::ops::cuda
