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

__device__ std::uint32_t taken(std::uint32_t bits, const TakenTokens& from) {
  const auto token = static_cast<std::int32_t>(bits);
  if (token >= 0) {
    return bits;
  }
  const std::int64_t row = -1 - std::int64_t{token};
  return row < from.rows ? static_cast<std::uint32_t>(max(0, from.ranked[row * from.ranks].id)) : 0;
}

// A thread for each 16 bytes. It finds their place before it reads: all of a warp, whose threads
// may have different runs, cross the bus together.
__global__ void __launch_bounds__(kThreads)
    fetch_kernel(const __grid_constant__ DeviceRuns all, const __grid_constant__ TakenTokens take) {
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
    uint4 found = __ldcv(from);
    const auto at = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) -
                                              reinterpret_cast<std::uintptr_t>(take.tokens)) /
                    std::int64_t{sizeof(std::int32_t)};
    if (at >= 0 && at < take.count) {
      found.x = taken(found.x, take);
      found.y = at + 1 < take.count ? taken(found.y, take) : found.y;
      found.z = at + 2 < take.count ? taken(found.z, take) : found.z;
      found.w = at + 3 < take.count ? taken(found.w, take) : found.w;
    }
    *to = found;
  }
  __threadfence();  // kernels that do not wait see it, too
}

}  // namespace

void StepUpload::start(cudaStream_t stream, const TakenTokens& taken) {
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
    fetch_kernel<<<(end + kThreads - 1) / kThreads, kThreads, 0, stream>>>(all, taken);
    device::cuda::check_launch("fetch_kernel");
  }
  read_.record(stream);
}

}  // namespace nibble::ops::cuda
