#pragma once

#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>

#include "device/cuda/event.h"
#include "ops/ranked_token.h"

namespace nibble::ops::cuda {

/// Tokens of a step that it takes from the rows which the last one ranked, without the host: -1 - r
/// becomes the first token of row r. Token 0 takes the place of those of rows with NaN, and of rows
/// that there are not.
struct TakenTokens {
  std::int32_t* tokens = nullptr;  // [count], where a run brings them, at its beginning
  std::int64_t count = 0;
  const RankedToken* ranked = nullptr;  // [rows, ranks], as rank() leaves it
  std::int64_t rows = 0;
  std::int64_t ranks = 0;
};

/// Brings the numbers of a step to the device: runs of pinned host memory, all of which one kernel
/// reads over the bus. For a few KB this is faster than copies, one for each run.
///
/// Kernels behind it that start early (device_code/dependent_launch.cuh) find everything there from
/// their first instruction on: the kernel lets none start before it has ended.
class StepUpload {
 public:
  /// Begins a step, when the runs of the last one have been read: now the host may write to them.
  void begin();
  /// The first `bytes` at `host`, which is pinned, go to `device`. Both lie at multiples of
  /// kAlignment bytes and have room up to the next one.
  void add(const void* host, void* device, std::int64_t bytes);
  /// Copies the runs, behind what `stream` does so far, and puts taken tokens into their places.
  void start(cudaStream_t stream, const TakenTokens& taken = {});

  static constexpr std::int64_t kAlignment = 16;

 private:
  struct Run {
    const void* host;
    void* device;
    std::int64_t bytes;
  };
  std::vector<Run> runs_;
  device::cuda::Event read_;
};

}  // namespace nibble::ops::cuda
