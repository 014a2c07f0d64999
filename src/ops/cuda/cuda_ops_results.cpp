#include <algorithm>

#include "core/error.h"
#include "device/cuda/check.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/sampling/draw_rows.h"
#include "ops/cuda/sampling/draw_tokens.h"
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

RankedRows CudaOps::rank(const Matrix& logits, std::int64_t count) {
  RankedRows ranked{
      {pool_, logits.rows() * count * std::int64_t{sizeof(RankedToken)}}, logits.rows(), count};
  const PooledBuffer scratch(pool_, ranking_bytes(logits.rows(), logits.columns(), count));
  cuda::rank(logits.data(), logits.rows(), logits.columns(), count, ranked.tokens.as<RankedToken>(),
             scratch.as<void>(), stream());
  return ranked;
}

RankedRows CudaOps::draw(const Matrix& logits, const RankedRows& ranked,
                         std::span<const TokenDraw> draws) {
  core::require(ranked.count >= 1 && ranked.count <= kMostDrawn &&
                    std::ssize(draws) == ranked.rows && logits.rows() == ranked.rows,
                core::ErrorKind::kFailed, "{} draws of {} rows, from {} tokens of at most {}",
                draws.size(), ranked.rows, ranked.count, kMostDrawn);
  RankedRows drawn{{pool_, ranked.rows * std::int64_t{sizeof(RankedToken)}}, ranked.rows, 1};
  const auto* const first = ranked.tokens.as<const RankedToken>();
  auto* const target = drawn.tokens.as<RankedToken>();
  draw_tokens(first, ranked.rows, ranked.count, draws.data(), target, stream());
  if (std::any_of(draws.begin(), draws.end(),
                  [](const TokenDraw& draw) { return draw.temperature > 0 && draw.top_k == 0; })) {
    draw_rows(logits.data(), ranked.rows, logits.columns(), first, ranked.count, draws.data(),
              target, stream());
  }
  return drawn;
}

}  // namespace nibble::ops::cuda
