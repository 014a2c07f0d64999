#pragma once

#include <cstdint>
#include <functional>

#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/medium_batch/medium_batch.h"
#include "ops/cuda/schedules/linear_shape.h"
#include "ops/cuda/small_batch/small_batch.h"
#include "ops/linear_problem.h"

namespace nibble::ops::cuda {

/// A linear layer of random weights, to be timed on the current device: graph launches, each kernel
/// on the next of as many copies of the weights as do not fit the L2 cache.
class LinearTrial {
 public:
  /// For up to so many tokens. Results are float32, or what the epilogue makes of them with
  /// Epilogue::half. Throws kOutOfMemory.
  LinearTrial(const LinearShape& shape, std::int64_t most_tokens, const Epilogue& epilogue = {});

  /// Seconds of the layer with m tokens: in as many launches as they need, without a tail, which is
  /// a layer of its own for few tokens; or in one.
  double few_tokens(std::int64_t m, const SmallBatchSchedule& schedule) const;
  double medium(std::int64_t m, const MediumBatchSchedule& schedule) const;
  double gemm(std::int64_t m, const GemmPlan& plan) const;

  /// Bytes of the weights.
  std::int64_t weight_bytes() const { return bytes_; }

 private:
  using Launch = std::function<void(int turn, cudaStream_t stream)>;

  double time(std::int64_t m, const Launch& launch) const;
  UnitsView view(int turn) const;
  GemmOutput output() const;

  LinearShape shape_;
  Epilogue epilogue_;
  std::int64_t bytes_;
  std::int64_t row_inputs_;
  device::cuda::Buffer units_;
  device::cuda::Buffer tail_units_;
  device::cuda::Buffer tables_;
  device::cuda::Buffer factors_;
  device::cuda::Buffer inputs_;
  device::cuda::Buffer scales_;
  device::cuda::Buffer y_;
  device::cuda::Stream stream_;
};

}  // namespace nibble::ops::cuda
