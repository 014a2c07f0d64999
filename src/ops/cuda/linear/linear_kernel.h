#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <cuda_runtime_api.h>

#include "ops/cuda/dense/dense.h"
#include "ops/cuda/dense/lt_products.h"
#include "ops/cuda/device_input.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/linear/layer_plan.h"
#include "ops/cuda/linear/planned_product.h"
#include "ops/cuda/linear/unit_segment.h"
#include "ops/cuda/sparse/sparse_rows.h"
#include "ops/cuda/sparse/sparse_tiles.h"
#include "ops/cuda/trellis/trellis_products.h"
#include "ops/cuda/two_of_four/kept_products.h"
#include "ops/linear_kernel.h"

namespace nibble::ops::cuda {

/// What a kernel multiplies: a dense weight, block-sparse rows, two of each four weights, trellis
/// codes, or segments of inputs whose weights lie in units (all of them, or the head and its INT8
/// tail).
struct LayerWeights {
  DenseView dense;
  std::span<const UnitSegment> segments;
  const SparseRows* sparse = nullptr;
  const SparseTiles* tiles = nullptr;  // block-sparse rows that come into its layout
  const KeptWeights* kept = nullptr;   // of which two of each four are stored
  const TrellisWeights* trellis = nullptr;
  LtProducts* products = nullptr;         // for dense ones, and what becomes float16
  const core::Fp16* half_bias = nullptr;  // of dense ones in float16: their bias, rounded to it
};

/// Where y goes in bfloat16: y[token * stride + row].
struct Bfloat16Output {
  std::uint16_t* y = nullptr;
  std::int64_t stride = 0;
};

/// What a kernel is to do with rows of float32 before it rounds them.
struct RowReading {
  std::optional<NormKind> norm;
  bool ordered = false;  // behind the norm
};

/// A kernel of linear layers. Layouts belong to several of them: units to all but those of
/// dense weights, of block-sparse rows, of two of each four weights and of trellis codes.
struct LinearKernel {
  std::string_view name;
  /// Depends on the problem alone: no device is asked.
  Refusal (*refusal)(const LayerProblem& problem);
  /// How it reads its inputs; none: the float matrix itself.
  std::optional<InputForm> (*input_form)(const LayerProblem& problem);
  /// Whether it makes its input of rows of float32 itself (LinearInput::rows); null: never.
  bool (*reads_rows)(const LayerProblem& problem, const RowReading& reading);
  /// How it divides the layer, in words. May ask the current device.
  std::string (*schedule)(const LayerProblem& problem);
  /// All segments of the layer, on `stream`.
  void (*run)(const LayerProblem& problem, const LayerWeights& weights, const LinearInput& x,
              const GemmOutput& output, cudaStream_t stream);
  /// The product behind run(), where a GemmPlan divides it.
  const PlannedProduct* product = nullptr;
  /// The same of a bfloat16 layer without a bias, rounded to that type; null: it can't.
  void (*run_bfloat16)(const LayerProblem& problem, const LayerWeights& weights,
                       const LinearInput& x, const Bfloat16Output& output,
                       cudaStream_t stream) = nullptr;
};

}  // namespace nibble::ops::cuda
