#include "device/cuda/check.h"
#include "ops/cpu/routing.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/sampling/ranking.h"

/// The operators whose results the host reads: they wait for the device.
namespace nibble::ops::cuda {
namespace {

// Grows and never shrinks.
void* room(device::cuda::PinnedBuffer& buffer, std::int64_t bytes) {
  if (buffer.bytes() < bytes) {
    buffer = device::cuda::PinnedBuffer(bytes);
  }
  return buffer.data();
}

void start_download(void* target, const void* source, std::int64_t bytes, cudaStream_t stream) {
  device::cuda::check(cudaMemcpyAsync(target, source, static_cast<std::size_t>(bytes),
                                      cudaMemcpyDeviceToHost, stream),
                      "cudaMemcpyAsync");
}

}  // namespace

std::vector<ExpertRows> CudaOps::route(const Matrix& logits, const RoutingSpec& spec) {
  const std::int64_t bytes =
      logits.rows() * logits.columns() * static_cast<std::int64_t>(sizeof(float));
  start_download(room(router_logits_, bytes), logits.data(), bytes, stream());
  synchronize();
  waited_ = true;
  std::vector<ExpertRows> routes =
      cpu::route(router_logits_.as<float>(), logits.rows(), logits.columns(), spec);
  experts_.send(routes, stream());
  return routes;
}

std::span<const RankedToken> CudaOps::rank(const Matrix& logits, std::int64_t count) {
  const std::int64_t values = logits.rows() * count;
  const std::int64_t bytes = values * static_cast<std::int64_t>(sizeof(RankedToken));
  const PooledBuffer ranked(pool_, bytes);
  const PooledBuffer scratch(pool_, ranking_bytes(logits.rows(), logits.columns(), count));
  cuda::rank(logits.data(), logits.rows(), logits.columns(), count, ranked.as<RankedToken>(),
             scratch.as<void>(), stream());
  start_download(room(ranked_, bytes), ranked.as<void>(), bytes, stream());
  synchronize();
  return {ranked_.as<RankedToken>(), static_cast<std::size_t>(values)};
}

}  // namespace nibble::ops::cuda
