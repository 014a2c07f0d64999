#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ops/cuda/schedules/schedules.h"
#include "ops/linear_problem.h"

namespace nibble::ops::cuda {

/// What a device has, as far as the choice of a kernel depends on it.
struct DeviceKernels {
  int multiprocessors = 0;
  bool medium_batch = false;  // warpgroup products (medium_batch_runs())
  // Why there is no cuBLASLt, or empty; asked for when it is wanted. Null: it is there.
  std::string_view (*blas_lt_absence)() = nullptr;
  bool int4_products = false;  // int4_products_run()
};

/// Of the current device.
DeviceKernels device_kernels(const Schedules& schedules);

/// How each kernel would divide a compressed layer, or its tail: what was measured, else what is
/// built in. Looked up once, when a layer is made.
struct LayerPlan {
  LinearShape shape;
  DeviceKernels device;
  bool is_planned = false;    // a kernel takes any number of tokens by plans of gemm.h
  std::int64_t most_few = 0;  // tokens of a launch of small_batch.h
  SmallBatchSchedule few;
  std::array<MediumBatchSchedule, kMediumColumns.size()> medium;
  std::array<std::optional<ManyTokens>, kTokenBuckets.size()> many;  // measured, or built in

  const MediumBatchSchedule& medium_schedule(std::int64_t m) const {
    return medium[medium_index(m * shape.digits())];
  }
  /// What was measured of so many tokens, being more than a launch of small_batch.h takes; or null.
  const ManyTokens* measured_choice(std::int64_t m) const;
};

LayerPlan plan_layer(const LinearShape& shape, const Schedules& schedules,
                     const DeviceKernels& device);

/// A layer on a device, with m tokens and one epilogue. `plan` is of its compressed weights; of
/// dense ones it has the device alone.
struct LayerProblem {
  LinearProblem linear;
  const LayerPlan& plan;
};

}  // namespace nibble::ops::cuda
