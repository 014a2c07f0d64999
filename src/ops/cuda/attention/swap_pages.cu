#include <algorithm>

#include "device/cuda/check.h"
#include "ops/cuda/attention/swap_pages.h"

namespace nibble::ops::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kAtOnce = 128;

struct Pages {
  SwappedPage all[kAtOnce];
};

// A block copies one page of one layer over the bus. No kernel behind it starts before it has
// ended.
template <SwapDirection kDirection>
__global__ void __launch_bounds__(kThreads)
    swap_kernel(const __grid_constant__ Pages pages, std::byte* pool, std::int64_t page_bytes,
                std::int64_t layer_bytes) {
  const SwappedPage swapped = pages.all[blockIdx.x];
  auto* const device =
      reinterpret_cast<uint4*>(pool + blockIdx.y * layer_bytes + swapped.page * page_bytes);
  auto* const host = reinterpret_cast<uint4*>(swapped.host + blockIdx.y * page_bytes);
  const auto count = static_cast<unsigned>(page_bytes / static_cast<std::int64_t>(sizeof(uint4)));
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    if constexpr (kDirection == SwapDirection::kOut) {
      host[i] = device[i];
    } else {
      device[i] = __ldcv(host + i);
    }
  }
  __threadfence();
}

}  // namespace

void swap_pages(const KvPool& pool, std::span<const SwappedPage> pages, SwapDirection direction,
                cudaStream_t stream) {
  const std::int64_t page_bytes = pool.layout().page_bytes();
  for (const SwappedPage& page : pages) {
    check_page(pool, page.page);
  }
  for (std::span<const SwappedPage> left = pages; !left.empty();) {
    const auto some = left.first(std::min(left.size(), kAtOnce));
    left = left.subspan(some.size());
    Pages all{};
    std::copy(some.begin(), some.end(), all.all);
    const dim3 grid(static_cast<unsigned>(some.size()), static_cast<unsigned>(pool.layers()));
    const auto kernel = direction == SwapDirection::kOut ? &swap_kernel<SwapDirection::kOut>
                                                         : &swap_kernel<SwapDirection::kIn>;
    kernel<<<grid, kThreads, 0, stream>>>(all, pool.layer(0), page_bytes,
                                          pool.pages() * page_bytes);
    device::cuda::check_launch("swap_kernel");
  }
}

}  // namespace nibble::ops::cuda
