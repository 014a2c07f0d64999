#include "device/cuda/check.h"
#include "ops/cuda/sampling/send_tokens.h"

namespace nibble::ops::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    send_tokens_kernel(const RankedToken* ranked, std::int64_t count, RankedToken* host) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) {
    host[i] = ranked[i];
  }
}

}  // namespace

void send_tokens(const RankedToken* ranked, std::int64_t count, RankedToken* host,
                 cudaStream_t stream) {
  if (count == 0) {
    return;
  }
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  send_tokens_kernel<<<blocks, kThreads, 0, stream>>>(ranked, count, host);
  device::cuda::check_launch("send_tokens_kernel");
}

}  // namespace nibble::ops::cuda
