#include "engine/branches.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::engine {
namespace {

using Parents = std::vector<std::int64_t>;

std::vector<ops::PageId> pages(const Branches& branches, std::int64_t row) {
  return {branches.pages(row).begin(), branches.pages(row).end()};
}

TEST(Branches, ShareFullPagesAndCopyOthers) {
  Branches branches(6);  // two rows of three pages
  EXPECT_TRUE(branches.advance(Parents{-1}).empty());
  for (int i = 1; i < 20; ++i) {
    EXPECT_TRUE(branches.advance(Parents{0}).empty());
  }
  EXPECT_EQ(branches.position(0), 19);
  const auto trunk = pages(branches, 0);
  ASSERT_EQ(trunk.size(), 2u);
  const auto copies = branches.advance(Parents{0, 0});  // in the middle of the second page
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].from, trunk[1]);
  EXPECT_EQ(pages(branches, 0)[0], trunk[0]);
  EXPECT_EQ(pages(branches, 1)[0], trunk[0]);
  EXPECT_NE(pages(branches, 0)[1], pages(branches, 1)[1]);
  EXPECT_TRUE(copies[0].to == pages(branches, 0)[1] || copies[0].to == pages(branches, 1)[1]);
  for (int i = 21; i < 32; ++i) {
    EXPECT_TRUE(branches.advance(Parents{1, 0}).empty());  // they only change places
  }
  // The second page is full: both go on behind that of row 1, each with a page of its own.
  EXPECT_TRUE(branches.advance(Parents{1, 1}).empty());
  EXPECT_EQ(branches.position(1), 32);
  EXPECT_EQ(pages(branches, 0)[1], pages(branches, 1)[1]);
  EXPECT_NE(pages(branches, 0)[2], pages(branches, 1)[2]);
}

TEST(Branches, PagesComeBack) {
  Branches branches(4);
  branches.advance(Parents{-1, -1, -1, -1});
  for (int round = 0; round < 100; ++round) {
    branches.advance(Parents{round % 4, 0, 0, 0});
    if (branches.position(0) == 15) {
      branches.advance(Parents{-1, -1, -1, -1});
    }
  }
  EXPECT_EQ(branches.pages(3).size(), 1u);
}

TEST(Branches, RefuseWhatIsNotThere) {
  Branches branches(2);
  branches.advance(Parents{-1});
  EXPECT_THROW(branches.advance(Parents{1}), core::Error);
  EXPECT_THROW(Branches(2).advance(Parents{0}), core::Error);
  EXPECT_THROW(Branches(2).advance(Parents{-1, -1, -1}), core::Error);
}

}  // namespace
}  // namespace nibble::engine
