#include "ops/cuda/divided/pair_norm.h"
#include "ops/cuda/divided/pair_source.cuh"
#include "ops/cuda/elementwise/row_kernel.cuh"

namespace nibble::ops::cuda {

void add_begun_norm(const PairSum& sum, float* x, const NormWeights& norm,
                    const InputTarget& target, std::int64_t m, std::int64_t columns,
                    cudaStream_t stream) {
  check_weights(norm);
  run_input(pair_source(sum, x, 0, columns), norm, target, m, columns, stream);
}

}  // namespace nibble::ops::cuda
