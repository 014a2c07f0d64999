#include "ops/cuda/divided/divided_cuda_ops.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "device/cuda/check.h"
#include "ops/cuda/divided/join_columns.h"

namespace nibble::ops::cuda {

void DividedCudaOps::divide(std::unique_ptr<Collectives> collectives, Division division) {
  core::require(collectives->size() <= kMostJoined, core::ErrorKind::kUsage,
                "{} GPUs are too many for one model; start at most {}", collectives->size(),
                kMostJoined);
  collectives_ = std::move(collectives);
  division_ = std::move(division);
  set_wait([this] { collectives_->wait(stream()); });
}

void DividedCudaOps::end() noexcept {
  if (collectives_) {
    collectives_->end();
  }
}

bool DividedCudaOps::adds(const LinearSet& set) const {
  const auto id = static_cast<std::size_t>(set.id);
  return collectives_ != nullptr && id < division_.sets.size() && division_.sets[id].adds;
}

// Each rank has the rows of some tokens, and zeros for the others.
CudaOps::Matrix DividedCudaOps::embed(const core::Tensor& table,
                                      std::span<const std::int32_t> ids) {
  if (collectives_ == nullptr) {
    return CudaOps::embed(table, ids);
  }
  const auto before = division_.tokens.begin() + collectives_->rank();
  Matrix x = embed_part(table, ids, std::accumulate(division_.tokens.begin(), before, 0L));
  collectives_->add(x.data(), x.count(), stream());
  return x;
}

CudaOps::Matrix DividedCudaOps::linear(Input& input, const LinearSet& set) {
  Matrix y = CudaOps::linear(input, set);
  if (adds(set)) {
    collectives_->add(y.data(), y.count(), stream());
  } else if (collectives_ != nullptr && set.id == division_.output) {
    return join(y, division_.tokens);
  }
  return y;
}

std::optional<CudaOps::Matrix> DividedCudaOps::linear(Input& input, const LinearSet& set,
                                                      const Residual<Matrix>& onto) {
  if (!adds(set)) {
    return CudaOps::linear(input, set, onto);
  }
  Matrix y = CudaOps::linear(input, set);
  if (!onto.x.is_half() && collectives_->by_peers(y.count())) {
    collectives_->add_onto(onto.x.data(), y.data(), y.count(), stream());
    return std::nullopt;
  }
  collectives_->add(y.data(), y.count(), stream());
  return y;
}

// NCCL gathers as much of each rank as the widest has.
CudaOps::Matrix DividedCudaOps::join(const Matrix& mine, const Widths& widths) {
  const std::int64_t m = mine.rows();
  const std::int64_t stride = m * *std::max_element(widths.begin(), widths.end());
  const Matrix parts = matrix(collectives_->size(), stride);
  device::cuda::check(cudaMemcpyAsync(parts.data() + collectives_->rank() * stride, mine.data(),
                                      static_cast<std::size_t>(mine.count()) * sizeof(float),
                                      cudaMemcpyDeviceToDevice, stream()),
                      "cudaMemcpyAsync");
  collectives_->gather(parts.data(), stride, stream());
  RankColumns columns;
  for (const std::int64_t width : widths) {
    columns.first[columns.ranks + 1] =
        columns.first[columns.ranks] + static_cast<std::int32_t>(width);
    ++columns.ranks;
  }
  Matrix y = matrix(m, columns.first[columns.ranks]);
  join_columns(parts.data(), stride, columns, y.data(), m, stream());
  return y;
}

}  // namespace nibble::ops::cuda
