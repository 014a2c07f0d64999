#include "ops/cuda/attention/swap_space.h"

#include <algorithm>

#include "core/error.h"
#include "core/memory.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{256} << 20;  // taken from the host at a time
constexpr std::int64_t kLeft = std::int64_t{1} << 30;          // for others

}  // namespace

SwapSpace::SwapSpace(std::int64_t page_bytes, std::int64_t bytes, core::ThreadPool& pool)
    : page_bytes_(page_bytes), most_(bytes / page_bytes), pool_(pool) {}

std::vector<std::byte*> SwapSpace::take(std::int64_t count) {
  if (count > free()) {
    return {};
  }
  while (std::ssize(free_) < count) {
    const std::int64_t pages =
        std::min(std::max<std::int64_t>(1, kPieceBytes / page_bytes_), most_ - made_);
    if (core::available_memory_bytes() < pages * page_bytes_ + kLeft) {
      return {};
    }
    free_.reserve(static_cast<std::size_t>(made_ + pages));  // for all that come back
    try {
      memory_.emplace_back(pages * page_bytes_, pool_);
    } catch (const core::Error&) {
      most_ = made_;  // no more is to be had
      return {};
    }
    made_ += pages;
    for (std::int64_t i = 0; i < pages; ++i) {
      free_.push_back(memory_.back().data() + i * page_bytes_);
    }
  }
  const std::vector<std::byte*> places(free_.end() - count, free_.end());
  free_.resize(free_.size() - static_cast<std::size_t>(count));
  taken_ += count;
  return places;
}

void SwapSpace::give_back(std::span<std::byte* const> places) {
  free_.insert(free_.end(), places.begin(), places.end());
  taken_ -= std::ssize(places);
}

}  // namespace nibble::ops::cuda
