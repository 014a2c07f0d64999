#include "device/cuda/check.h"
#include "ops/cuda/sampling/take_tokens.h"

namespace nibble::ops::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Kernels behind it that start early find everything there, as behind StepUpload.
__global__ void __launch_bounds__(kThreads)
    take_tokens_kernel(std::int32_t* tokens, unsigned m, const RankedToken* ranked,
                       std::int64_t rows, std::int64_t count) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i < m && tokens[i] < 0) {
    const std::int64_t row = -1 - std::int64_t{tokens[i]};
    tokens[i] = row < rows ? max(0, ranked[row * count].id) : 0;
  }
  __threadfence();
}

}  // namespace

void take_tokens(std::int32_t* tokens, std::int64_t m, const RankedToken* ranked, std::int64_t rows,
                 std::int64_t count, cudaStream_t stream) {
  if (m == 0) {
    return;
  }
  const auto threads = static_cast<unsigned>(m);
  take_tokens_kernel<<<(threads + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
      tokens, threads, ranked, rows, count);
  device::cuda::check_launch("take_tokens_kernel");
}

}  // namespace nibble::ops::cuda
