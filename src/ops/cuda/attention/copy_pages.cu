#include <algorithm>

#include "device/cuda/check.h"
#include "ops/cuda/attention/copy_pages.h"

namespace nibble::ops::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kAtOnce = 256;

struct Copies {
  PageCopy all[kAtOnce];
};

// A block copies one page of one layer. No kernel behind it starts before it has ended.
__global__ void __launch_bounds__(kThreads)
    copy_kernel(const __grid_constant__ Copies copies, std::byte* pages, std::int64_t page_bytes,
                std::int64_t layer_bytes) {
  const PageCopy copy = copies.all[blockIdx.x];
  std::byte* const layer = pages + blockIdx.y * layer_bytes;
  const auto* const from = reinterpret_cast<const uint4*>(layer + copy.from * page_bytes);
  auto* const to = reinterpret_cast<uint4*>(layer + copy.to * page_bytes);
  const auto count = static_cast<unsigned>(page_bytes / static_cast<std::int64_t>(sizeof(uint4)));
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    to[i] = from[i];
  }
}

}  // namespace

void copy_pages(const KvPool& pool, std::span<const PageCopy> copies, cudaStream_t stream) {
  const std::int64_t page_bytes = pool.layout().page_bytes();
  for (std::span<const PageCopy> left = copies; !left.empty();) {
    const auto some = left.first(std::min(left.size(), kAtOnce));
    left = left.subspan(some.size());
    Copies all{};
    std::copy(some.begin(), some.end(), all.all);
    for (const PageCopy& copy : some) {
      check_page(pool, copy.from);
      check_page(pool, copy.to);
    }
    const dim3 grid(static_cast<unsigned>(some.size()), static_cast<unsigned>(pool.layers()));
    copy_kernel<<<grid, kThreads, 0, stream>>>(all, pool.layer(0), page_bytes,
                                               pool.pages() * page_bytes);
    device::cuda::check_launch("copy_kernel");
  }
}

}  // namespace nibble::ops::cuda
