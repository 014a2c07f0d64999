#include "ops/cuda/attention/copy_pages.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/attention/kv_pool_for_tests.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaCopyPages = device::GpuTest;
// More pages than one launch takes, in every layer, and nothing else.
TEST_F(CudaCopyPages, CopiesEachPageInEveryLayer) {
  for (const KvLayout& layout : {KvLayout{KvType::kF16, 2, 64}, {KvType::kF32, 3, 18}}) {
    const KvPool pool(layout, 3, 700);
    PoolBytes expected = fill(pool);
    std::vector<PageCopy> copies = {{0, 699}};
    for (PageId i = 1; i < 300; ++i) {
      copies.push_back({i % 50, 300 + i});  // some pages to several
    }
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      const auto page = [&](PageId id) {
        return expected.begin() + (layer * 700 + id) * layout.page_bytes();
      };
      for (const PageCopy& copy : copies) {
        std::copy_n(page(copy.from), layout.page_bytes(), page(copy.to));
      }
    }
    const device::cuda::Stream stream;
    copy_pages(pool, copies, stream.get());
    stream.synchronize();
    EXPECT_EQ(bytes_of(pool), expected);
  }
}

TEST_F(CudaCopyPages, RefusesPagesThatAreNotThere) {
  const KvPool pool({KvType::kF16, 1, 64}, 1, 4);
  const device::cuda::Stream stream;
  for (const PageCopy& copy : {PageCopy{0, 4}, {4, 0}, {-1, 0}}) {
    EXPECT_THROW(copy_pages(pool, {&copy, 1}, stream.get()), core::Error);
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
