#include "ops/cuda/attention/swap_pages.h"

#include <algorithm>

#include "core/error.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/attention/kv_pool_for_tests.h"
#include "ops/cuda/attention/swap_space.h"

namespace nibble::ops::cuda {
namespace {

using CudaSwapPages = device::GpuTest;
std::vector<SwappedPage> swapped(std::span<const PageId> pages,
                                 std::span<std::byte* const> places) {
  std::vector<SwappedPage> all;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    all.push_back({pages[i], places[i]});
  }
  return all;
}

// More pages than one launch takes, in every layer, go out and come back in another place; nothing
// else changes.
TEST_F(CudaSwapPages, ComeBackInEveryLayer) {
  constexpr std::int64_t kLayers = 3;
  constexpr std::int64_t kPages = 700;
  for (const KvLayout& layout :
       {KvLayout{KvType::kF16, 2, 64}, {KvType::kF32, 3, 18}, {KvType::kInt4, 2, 128}}) {
    const KvPool pool(layout, kLayers, kPages);
    PoolBytes expected = fill(pool);
    std::vector<PageId> from;
    std::vector<PageId> to;
    for (PageId i = 0; i < 300; ++i) {
      from.push_back((i * 7) % 350);
      to.push_back(699 - i);
    }
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const auto page = [&](PageId id) {
        return expected.begin() + (layer * kPages + id) * layout.page_bytes();
      };
      for (std::size_t i = 0; i < from.size(); ++i) {
        std::copy_n(page(from[i]), layout.page_bytes(), page(to[i]));
      }
    }
    core::ThreadPool threads(2);
    SwapSpace space(kLayers * layout.page_bytes(), std::int64_t{1} << 30, threads);
    const std::vector<std::byte*> places = space.take(std::ssize(from));
    ASSERT_EQ(places.size(), from.size());
    const device::cuda::Stream stream;
    swap_pages(pool, swapped(from, places), SwapDirection::kOut, stream.get());
    swap_pages(pool, swapped(to, places), SwapDirection::kIn, stream.get());
    stream.synchronize();
    EXPECT_EQ(bytes_of(pool), expected);
  }
}

TEST_F(CudaSwapPages, RefuseWhatIsNotThere) {
  const KvPool pool({KvType::kF16, 1, 64}, 1, 4);
  const device::cuda::Stream stream;
  device::cuda::PinnedBuffer place(pool.layout().page_bytes());
  for (const PageId page : {-1, 4}) {
    const SwappedPage swapped{page, place.data()};
    EXPECT_THROW(swap_pages(pool, {&swapped, 1}, SwapDirection::kOut, stream.get()), core::Error);
  }
}

// More than is taken from the host at a time.
TEST_F(CudaSwapPages, SpaceHasSoManyPlacesAndGivesEachOnce) {
  constexpr std::int64_t kPage = std::int64_t{3} << 20;
  core::ThreadPool pool(2);
  SwapSpace space(kPage, std::int64_t{500} << 20, pool);
  EXPECT_EQ(space.free(), 166);
  EXPECT_TRUE(space.take(167).empty());
  std::vector<std::byte*> places = space.take(100);
  const std::vector<std::byte*> others = space.take(66);
  EXPECT_EQ(space.free(), 0);
  EXPECT_TRUE(space.take(1).empty());
  places.insert(places.end(), others.begin(), others.end());
  std::sort(places.begin(), places.end());
  ASSERT_EQ(places.size(), 166u);
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::fill_n(places[i], kPage, std::byte{1});
    if (i > 0) {
      EXPECT_GE(places[i] - places[i - 1], kPage);
    }
  }
  space.give_back(others);
  EXPECT_EQ(space.free(), 66);
  EXPECT_EQ(space.take(66).size(), 66u);
}

}  // namespace
}  // namespace nibble::ops::cuda
