#include "ops/cuda/expert_lists.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "device/cuda/check.h"

namespace nibble::ops::cuda {

static_assert(sizeof(float) == sizeof(std::int32_t));

void ExpertLists::send(const std::vector<ExpertRows>& routes, cudaStream_t stream) {
  lists_.clear();
  std::int64_t count = 0;
  for (const ExpertRows& expert : routes) {
    const auto rows = static_cast<std::int64_t>(expert.rows.size());
    if (rows > 0) {
      lists_.push_back({expert.rows.data(), rows, count});
    }
    count += rows;
  }
  if (count > capacity_) {
    const std::int64_t bytes = 2 * count * static_cast<std::int64_t>(sizeof(float));
    host_ = device::cuda::PinnedBuffer(bytes);
    device_ = device::cuda::Buffer(bytes);
    capacity_ = count;
  }
  std::int32_t* rows = host_.as<std::int32_t>();
  float* weights = host_.as<float>() + capacity_;
  for (const ExpertRows& expert : routes) {
    rows = std::copy(expert.rows.begin(), expert.rows.end(), rows);
    weights = std::copy(expert.weights.begin(), expert.weights.end(), weights);
  }
  if (count > 0) {
    device::cuda::check(
        cudaMemcpyAsync(device_.data(), host_.data(), static_cast<std::size_t>(device_.bytes()),
                        cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  }
}

const ExpertLists::List* ExpertLists::find(const std::int32_t* rows, std::size_t count) const {
  const auto at = std::find_if(lists_.begin(), lists_.end(), [&](const List& list) {
    return list.rows == rows && std::cmp_equal(list.count, count);
  });
  return at == lists_.end() ? nullptr : &*at;
}

const std::int32_t* ExpertLists::rows(std::span<const std::int32_t> rows) const {
  const List* list = find(rows.data(), rows.size());
  return list == nullptr ? nullptr : device_.as<std::int32_t>() + list->first;
}

const float* ExpertLists::weights(const ExpertRows& expert) const {
  const List* list = find(expert.rows.data(), expert.rows.size());
  core::require(list != nullptr, core::ErrorKind::kFailed,
                "{} rows of an expert were not sent to the GPU", expert.rows.size());
  return device_.as<float>() + capacity_ + list->first;
}

}  // namespace nibble::ops::cuda
