#include "core/releasable_memory.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::core {
namespace {

TEST(ReleasableMemory, IsZeroWhenItIsTakenAgain) {
  constexpr std::int64_t kBytes = 10'000;  // ends inside a page
  ReleasableMemory memory(kBytes);
  EXPECT_EQ(memory.bytes(), kBytes);
  std::byte* const data = memory.data();
  const auto all = [&](std::byte value) {
    return std::all_of(data, data + kBytes, [&](std::byte byte) { return byte == value; });
  };
  EXPECT_TRUE(all(std::byte{0}));
  std::fill_n(data, kBytes, std::byte{7});
  memory.release();
  memory.take_again();
  EXPECT_EQ(memory.data(), data);
  EXPECT_TRUE(all(std::byte{0}));
  std::fill_n(data, kBytes, std::byte{9});
  EXPECT_TRUE(all(std::byte{9}));
}

TEST(ReleasableMemory, ReadingWhatWasReleasedEndsTheProcess) {
  ReleasableMemory memory(4096);
  memory.release();
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile std::byte*>(memory.data())), "");
}

TEST(ReleasableMemory, MoreThanTheMachineHasIsRefused) {
  try {
    ReleasableMemory memory(std::int64_t{1} << 60);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
  }
}

}  // namespace
}  // namespace nibble::core
