#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/row_kernel.cuh"

namespace nibble::ops::cuda {
namespace {

SumSource sum_of(float* x, const float* delta, std::int64_t columns) {
  return {rows_of(x, columns, columns), rows_of(delta, columns, columns), x};
}

}  // namespace

void norm_matrix(const float* x, const NormWeights& norm, float* y, std::int64_t m,
                 std::int64_t columns, cudaStream_t stream) {
  check_weights(norm);
  run_rows(PlainSource{rows_of(x, columns, columns)}, norm,
           MatrixSink{rows_of(y, columns, columns), y}, m, columns, true, stream);
}

void add_norm_matrix(float* x, const float* delta, const NormWeights& norm, float* y,
                     std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  check_weights(norm);
  run_rows(sum_of(x, delta, columns), norm, MatrixSink{rows_of(y, columns, columns), y}, m, columns,
           true, stream);
}

void norm(const float* x, const NormWeights& norm, const InputTarget& target, std::int64_t m,
          std::int64_t columns, cudaStream_t stream) {
  check_weights(norm);
  run_input(PlainSource{rows_of(x, columns, columns)}, norm, target, m, columns, stream);
}

void add_norm(float* x, const float* delta, const NormWeights& norm, const InputTarget& target,
              std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  check_weights(norm);
  run_input(sum_of(x, delta, columns), norm, target, m, columns, stream);
}

}  // namespace nibble::ops::cuda
