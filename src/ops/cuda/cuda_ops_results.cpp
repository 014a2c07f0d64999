#include "device/cuda/check.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/sampling/ranking.h"
#include "ops/routing.h"

/// The operators whose results the host reads.
namespace nibble::ops::cuda {
std::vector<ExpertRows> CudaOps::route(const Matrix& logits, const RoutingSpec& spec) {
  const std::int64_t count = logits.rows() * logits.columns();
  auto* const on_host = router_logits_.room_for<float>(count);
  device::cuda::check(
      cudaMemcpyAsync(on_host, logits.data(), static_cast<std::size_t>(count) * sizeof(float),
                      cudaMemcpyDeviceToHost, stream()),
      "cudaMemcpyAsync");
  synchronize();
  waited_ = true;
  std::vector<ExpertRows> routes =
      ops::route(on_host, logits.rows(), logits.columns(), spec, softmax_numerators);
  experts_.send(routes, stream());
  return routes;
}

void CudaOps::rank(const Matrix& logits, std::int64_t count, RankedToken* ranked) {
  const PooledBuffer scratch(pool_, ranking_bytes(logits.rows(), logits.columns(), count));
  cuda::rank(logits.data(), logits.rows(), logits.columns(), count, ranked, scratch.as<void>(),
             stream());
}

}  // namespace nibble::ops::cuda
