#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/row_kernel.cuh"

namespace nibble::ops::cuda {

void input(const float* x, const InputTarget& target, std::int64_t m, std::int64_t columns,
           cudaStream_t stream) {
  run_input(PlainSource{rows_of(x, columns, columns)}, NoNorm{}, target, m, columns, stream);
}

void input(const core::Fp16* x, const InputTarget& target, std::int64_t m, std::int64_t columns,
           cudaStream_t stream) {
  run_input(HalfSource{x, static_cast<int>(columns)}, NoNorm{}, target, m, columns, stream);
}

void mlp_activation(const float* x, MlpActivation activation, const InputTarget& target,
                    std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  run_input(ActivationSource{rows_of(x, columns, columns), activation}, NoNorm{}, target, m,
            columns, stream);
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

void mlp_activation_matrix(const float* x, MlpActivation activation, float* y, std::int64_t m,
                           std::int64_t columns, cudaStream_t stream) {
  run_rows(ActivationSource{rows_of(x, columns, columns), activation}, NoNorm{},
           MatrixSink{rows_of(y, columns, columns), y}, m, static_cast<int>(columns), false,
           stream);
}

void gated_activation_matrix(const GateUp& gate_up, MlpActivation activation, float* y,
                             std::int64_t m, std::int64_t columns, cudaStream_t stream) {
  const MatrixSink sink{rows_of(y, columns, columns), y};
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
