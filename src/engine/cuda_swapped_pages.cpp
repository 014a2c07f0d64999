#include "engine/cuda_swapped_pages.h"

#include "core/error.h"

namespace nibble::engine {
namespace {

using ops::cuda::SwapDirection;
using ops::cuda::SwappedPage;

std::vector<SwappedPage> pairs_of(std::span<const ops::PageId> pages,
                                  std::span<std::byte* const> places) {
  std::vector<SwappedPage> pairs;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    pairs.push_back({pages[i], places[i]});
  }
  return pairs;
}

}  // namespace

std::optional<SwappedPages::Id> CudaSwappedPages::swap_out(std::span<const ops::PageId> pages) {
  ops_.make_current();
  const std::vector<std::byte*> places = space_.take(std::ssize(pages));
  if (std::ssize(places) < std::ssize(pages)) {
    return std::nullopt;
  }
  const Id id = ++last_id_;
  try {
    const auto pairs = pairs_of(pages, places);
    kept_.emplace(id, places);
    ops_.swap_pages(pairs, SwapDirection::kOut);
  } catch (...) {
    kept_.erase(id);
    space_.give_back(places);
    throw;
  }
  return id;
}

void CudaSwappedPages::swap_in(Id id, std::int64_t first, std::span<const ops::PageId> pages) {
  ops_.make_current();
  const std::vector<std::byte*>& places = kept_.at(id);
  core::require(first >= 0 && first + std::ssize(pages) <= std::ssize(places),
                core::ErrorKind::kFailed, "{} pages from {} on, of {} that were swapped out",
                pages.size(), first, places.size());
  ops_.swap_pages(pairs_of(pages, std::span(places).subspan(static_cast<std::size_t>(first))),
                  SwapDirection::kIn);
}

void CudaSwappedPages::drop(Id id) {
  const auto at = kept_.find(id);
  if (at != kept_.end()) {
    space_.give_back(at->second);
    kept_.erase(at);
  }
}

}  // namespace nibble::engine
