#pragma once

#include <vector>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/schedules/linear_shape.h"
#include "ops/linear_kernel.h"

namespace nibble::ops::cuda {

/// The weights of a layer in units.
struct UnitWeights {
  UnitsView head;
  const UnitsView* tail = nullptr;  // an INT8 segment of inputs behind the head, or none
};

/// A product for any number of tokens that a GemmPlan divides: the part of a kernel of linear
/// layers that `nibble tune-kernels` times and chooses for.
struct PlannedProduct {
  /// Why it does not compute layers of this shape, on whatever device.
  Refusal (*refusal)(const LinearShape& shape);
  /// Those that the current device has; none: it lacks the instructions.
  std::vector<GemmPlan> (*plans)(const LinearShape& shape);
  /// The fewest tokens that can come to it on the current device: fewer have a kernel of its
  /// format before it in the table, which has nothing to choose.
  std::int64_t (*fewest_tokens)(const LinearShape& shape);
  /// In which form it reads the input.
  InputForm (*input_form)(const LinearShape& shape);
  /// y = x W^T of m tokens in that form.
  void (*run)(const LinearShape& shape, const GemmPlan& plan, const UnitWeights& weights,
              const InputTarget& x, std::int64_t m, const GemmOutput& output, cudaStream_t stream);
};

}  // namespace nibble::ops::cuda
