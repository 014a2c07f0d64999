#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "ops/cpu/cpu_ops.h"

namespace nibble::eval {

/// The operators of a CPU, which show what linear layers read and give.
class RecordingOps : public ops::cpu::CpuOps {
 public:
  /// Sees input [m, k] and output [m, n] of every linear call.
  using Recorder = std::function<void(const ops::LinearSet&, const Matrix& x, const Matrix& y)>;

  using CpuOps::CpuOps;

  /// Null: nothing is shown.
  void set_recorder(Recorder recorder) {
    recorder_ = std::move(recorder);
    keep_values(recorder_ != nullptr);
  }

  Matrix linear(Input& input, const ops::LinearSet& set) {
    Matrix y = CpuOps::linear(input, set);
    if (recorder_) {
      recorder_(set, input.values(), y);
    }
    return y;
  }
  /// Nothing is fused.
  std::optional<Matrix> linear(Input& input, const ops::LinearSet& set,
                               const ops::Residual<Matrix>&) {
    return linear(input, set);
  }
  Input linear(Input& input, const ops::LinearSet& set, const ops::ActivateInto& into) {
    return into.gated ? gated_activation(linear(input, set), into.activation, into.next)
                      : mlp_activation(linear(input, set), into.activation, into.next);
  }

 private:
  Recorder recorder_;
};

}  // namespace nibble::eval
