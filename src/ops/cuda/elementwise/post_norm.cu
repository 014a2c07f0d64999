#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/post_norm_rows.h"
#include "ops/cuda/elementwise/row_kernel.cuh"

/// Norms of a sum that stand in the residual stream.
namespace nibble::ops::cuda {
namespace {

/// body(x + delta as a source, y as a sink) for matrices of one type.
template <typename Body>
void with_stream(const MatrixView& x, const MatrixView& delta, const MutableMatrixView& y,
                 std::int64_t columns, const Body& body) {
  check_types(x, delta);
  check_types(x, y);
  if (x.half) {
    const auto rows = [&](const MatrixView& view) {
      return rows_of(static_cast<const core::Fp16*>(view.data), columns, columns, view.saturated);
    };
    body(AddedSource<HalfRows>{rows(x), rows(delta)},
         matrix_sink(static_cast<core::Fp16*>(y.data), columns));
  } else {
    const auto rows = [&](const MatrixView& view) {
      return rows_of(static_cast<const float*>(view.data), columns, columns);
    };
    body(AddedSource<Rows>{rows(x), rows(delta)},
         matrix_sink(static_cast<float*>(y.data), columns));
  }
}

}  // namespace

void post_norm_matrix(const MatrixView& x, const MatrixView& delta, const NormWeights& norm,
                      const MutableMatrixView& y, std::int64_t m, std::int64_t columns,
                      cudaStream_t stream) {
  check_weights(norm);
  with_stream(x, delta, y, columns, [&](const auto& source, const auto& sink) {
    run_rows(source, norm, sink, m, static_cast<int>(columns), true, stream);
  });
}

void post_norm(const MatrixView& x, const MatrixView& delta, const NormWeights& norm,
               const MutableMatrixView& y, const InputTarget& target, std::int64_t m,
               std::int64_t columns, cudaStream_t stream) {
  check_weights(norm);
  if (serves_post_norm_rows(x, delta, norm, y, target, m, columns)) {
    check_target(target);
    return post_norm_rows(x, delta, norm, y, target, m, columns, stream);
  }
  with_stream(x, delta, y, columns,
              [&]<typename R>(const AddedSource<R>& source, const MatrixSink<R>& matrix) {
                const auto with_matrix = [&]<typename Sink>(const Sink& sink) {
                  return StreamSink<R, Sink>{matrix, sink};
                };
                run_input_into(InputSinks(), source, norm, target, with_matrix, m, columns, stream);
              });
}

}  // namespace nibble::ops::cuda
