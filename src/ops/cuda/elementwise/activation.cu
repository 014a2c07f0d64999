#include "ops/cuda/elementwise/code_rows.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/row_kernel.cuh"

namespace nibble::ops::cuda {
namespace {

PlainSource<Rows> source_of(const Rows& rows) {
  return {rows};
}
HalfSource source_of(const HalfRows& rows) {
  return {rows};
}

}  // namespace

void input(const MatrixView& x, const InputTarget& target, std::int64_t m, std::int64_t columns,
           cudaStream_t stream) {
  if (serves_code_rows(x, target, m, columns)) {
    check_target(target);
    return code_rows(x, target, m, columns, stream);
  }
  with_rows(x, columns, [&](const auto& rows) {
    run_input(source_of(rows), NoNorm{}, target, m, columns, stream);
  });
}

void convert(const MatrixView& x, const MutableMatrixView& y, std::int64_t m, std::int64_t columns,
             cudaStream_t stream) {
  with_rows(x, columns, [&](const auto& rows) {
    with_sink(y, columns, [&](const auto& sink) {
      run_rows(source_of(rows), NoNorm{}, sink, m, static_cast<int>(columns), false, stream);
    });
  });
}

void mlp_activation(const MatrixView& x, MlpActivation activation, const InputTarget& target,
                    std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  with_rows(x, columns, [&]<typename R>(const R& rows) {
    run_input(ActivationSource<R>{rows, activation}, NoNorm{}, target, m, columns, stream);
  });
}

void gated_activation(const GateUp& gate_up, MlpActivation activation, const InputTarget& target,
                      std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  if (gate_up.paired) {
    const PairedSource source{gate_up.data, static_cast<int>(columns), activation};
    return run_input(source, NoNorm{}, target, m, columns, stream);
  }
  const GatedSource source{rows_of(gate_up.data, 2 * columns, columns),
                           rows_of(gate_up.data + columns, 2 * columns, columns), activation};
  run_input(source, NoNorm{}, target, m, columns, stream);
}

void mlp_activation_matrix(const MatrixView& x, MlpActivation activation,
                           const MutableMatrixView& y, std::int64_t m, std::int64_t columns,
                           cudaStream_t stream) {
  with_rows(x, columns, [&]<typename R>(const R& rows) {
    with_sink(y, columns, [&](const auto& sink) {
      run_rows(ActivationSource<R>{rows, activation}, NoNorm{}, sink, m, static_cast<int>(columns),
               false, stream);
    });
  });
}

void gated_activation_matrix(const GateUp& gate_up, MlpActivation activation, float* y,
                             std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  const auto sink = matrix_sink(y, columns);
  const auto width = static_cast<int>(columns);
  if (gate_up.paired) {
    const PairedSource source{gate_up.data, width, activation};
    return run_rows(source, NoNorm{}, sink, m, width, false, stream);
  }
  const GatedSource source{rows_of(gate_up.data, 2 * columns, columns),
                           rows_of(gate_up.data + columns, 2 * columns, columns), activation};
  run_rows(source, NoNorm{}, sink, m, width, false, stream);
}

}  // namespace nibble::ops::cuda
