#include <algorithm>
#include <span>

#include "device/cuda/check.h"
#include "ops/cuda/step_upload.h"

namespace nibble::ops::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kRuns = 16;  // of one launch: a step of a model with one kind of window, or memories

struct DeviceRun {
  const uint4* host;
  uint4* device;
  unsigned end;  // counted over all runs
};

struct DeviceRuns {
  DeviceRun runs[kRuns];
};

// A thread for each 16 bytes. It finds their place before it reads: all of a warp, whose threads
// may have different runs, cross the bus together.
__global__ void __launch_bounds__(kThreads) fetch_kernel(const __grid_constant__ DeviceRuns all) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  const uint4* from = nullptr;
  uint4* to = nullptr;
  unsigned first = 0;
#pragma unroll
  for (const DeviceRun& run : all.runs) {
    if (i >= first && i < run.end) {
      from = run.host + (i - first);
      to = run.device + (i - first);
    }
    first = run.end;
  }
  if (from != nullptr) {
    *to = __ldcv(from);
  }
  __threadfence();  // kernels that do not wait see it, too
}

}  // namespace

void StepUpload::start(cudaStream_t stream) {
  for (std::span<const Run> left(runs_); !left.empty();) {
    const auto some = left.first(std::min<std::size_t>(left.size(), kRuns));
    left = left.subspan(some.size());
    DeviceRuns all{};
    unsigned end = 0;
    for (std::size_t i = 0; i < kRuns; ++i) {
      if (i < some.size()) {
        end += static_cast<unsigned>((some[i].bytes + kAlignment - 1) / kAlignment);
        all.runs[i] = {static_cast<const uint4*>(some[i].host), static_cast<uint4*>(some[i].device),
                       end};
      } else {
        all.runs[i].end = end;
      }
    }
    fetch_kernel<<<(end + kThreads - 1) / kThreads, kThreads, 0, stream>>>(all);
    device::cuda::check_launch("fetch_kernel");
  }
  read_.record(stream);
}

}  // namespace nibble::ops::cuda
