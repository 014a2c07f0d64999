#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/row_kernel.cuh"

namespace nibble::ops::cuda {
namespace {

/// body(x as rows, delta as rows, where x begins) for matrices of one type.
template <typename Body>
void with_sum(const MutableMatrixView& x, const MatrixView& delta, std::int64_t columns,
              const Body& body) {
  check_types(x, delta);
  if (x.half) {
    auto* const halves = static_cast<core::Fp16*>(x.data);
    body(SumSource<HalfRows>{
        {rows_of(halves, columns, columns, x.saturated),
         rows_of(static_cast<const core::Fp16*>(delta.data), columns, columns, delta.saturated)},
        halves});
  } else {
    auto* const floats = static_cast<float*>(x.data);
    body(SumSource<Rows>{{rows_of(floats, columns, columns),
                          rows_of(static_cast<const float*>(delta.data), columns, columns)},
                         floats});
  }
}

}  // namespace

void norm_matrix(const MatrixView& x, const NormWeights& norm, const MutableMatrixView& y,
                 std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  check_weights(norm);
  with_rows(x, columns, [&]<typename R>(const R& rows) {
    with_sink(y, columns, [&](const auto& sink) {
      run_rows(PlainSource<R>{rows}, norm, sink, m, static_cast<int>(columns), true, stream);
    });
  });
}

void norm(const MatrixView& x, const NormWeights& norm, const InputTarget& target, std::int64_t m,
          std::int64_t columns, cudaStream_t stream) {
  check_weights(norm);
  with_rows(x, columns, [&]<typename R>(const R& rows) {
    run_input(PlainSource<R>{rows}, norm, target, m, columns, stream);
  });
}

void add_norm(const MutableMatrixView& x, const MatrixView& delta, const NormWeights& norm,
              const InputTarget& target, std::int64_t m, std::int64_t columns,
              cudaStream_t stream) {
  check_weights(norm);
  with_sum(x, delta, columns,
           [&](const auto& source) { run_input(source, norm, target, m, columns, stream); });
}

}  // namespace nibble::ops::cuda
