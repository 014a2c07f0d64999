#include "ops/cpu/packed/page_buffer.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"

namespace nibble::ops::cpu {
namespace {

bool holds(const PageBuffer& buffer, int value) {
  return std::all_of(buffer.data(), buffer.data() + buffer.bytes(),
                     [value](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

// Buffers of all sizes come and go in any order: each is zero at first, and nobody else writes to
// it.
void come_and_go(std::uint64_t seed) {
  core::Random random(seed);
  std::vector<PageBuffer> buffers;
  std::vector<int> values;
  for (int step = 0; step < 200; ++step) {
    if (buffers.size() < 12 && random.below(3) != 0) {
      const std::int64_t bytes = 1 + random.below(std::int64_t{1} << (8 + random.below(15)));
      PageBuffer& buffer = buffers.emplace_back(bytes);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
      ASSERT_TRUE(holds(buffer, 0)) << bytes;
      values.push_back(1 + step % 250);
      std::memset(buffer.data(), values.back(), static_cast<std::size_t>(bytes));
    } else if (!buffers.empty()) {
      const auto gone = static_cast<std::size_t>(random.below(std::ssize(buffers)));
      ASSERT_TRUE(holds(buffers[gone], values[gone]));
      std::swap(values[gone], values.back());
      std::swap(buffers[gone], buffers.back());
      values.pop_back();
      buffers.pop_back();
    }
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_TRUE(holds(buffers[i], values[i]));
  }
}

TEST(PageBuffer, BuffersComeAndGoInAnyOrder) {
  come_and_go(1);
}

TEST(PageBuffer, ThreadsTakeThemAtOnce) {
  std::thread other([] { come_and_go(2); });
  come_and_go(3);
  other.join();
}

TEST(PageBuffer, LargerThanARegionAndLargerThanTheMachine) {
  const PageBuffer large((std::int64_t{16} << 20) + 5);
  EXPECT_EQ(large.data()[large.bytes() - 1], std::byte{0});
  EXPECT_THROW(PageBuffer(std::int64_t{1} << 60), core::Error);
  EXPECT_EQ(PageBuffer(0).data(), nullptr);
}

}  // namespace
}  // namespace nibble::ops::cpu
