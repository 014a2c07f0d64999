#include "engine/page_pool.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"

namespace nibble::engine {
namespace {

std::vector<std::int32_t> page_of(std::int32_t first) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(kPageTokens));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

PagePool::PageTokens tokens_of(const std::vector<std::int32_t>& tokens) {
  return PagePool::PageTokens(tokens);
}

TEST(PagePool, HandsOutAndTakesBack) {
  PagePool pool(2);
  const PageId first = pool.take().value();
  const PageId second = pool.take().value();
  EXPECT_NE(first, second);
  EXPECT_FALSE(pool.take().has_value());
  pool.release(first);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.take(), first);
  pool.release(first);
  EXPECT_THROW(pool.release(first), core::Error) << "nobody uses it";
}

TEST(PagePool, PrefixesAreFoundByAllTheirTokens) {
  PagePool pool(4);
  const auto one = page_of(0);
  const auto two = page_of(100);
  const PageId first = pool.take().value();
  const PageId second = pool.take().value();
  const PrefixId root = pool.root("");
  const PrefixId after = pool.publish(root, tokens_of(one), first);
  pool.publish(after, tokens_of(two), second);

  const auto found = pool.find(root, tokens_of(one));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->page, first);
  EXPECT_EQ(pool.find(found->prefix, tokens_of(two))->page, second);
  EXPECT_FALSE(pool.find(root, tokens_of(two))) << "the same tokens elsewhere";
  EXPECT_FALSE(pool.find(after, tokens_of(one)));
  EXPECT_FALSE(pool.find(pool.root("another key"), tokens_of(one))) << "another salt";
  EXPECT_EQ(pool.root(""), root);
  auto almost = one;
  almost.back() += 1;
  EXPECT_FALSE(pool.find(root, tokens_of(almost)));
}

TEST(PagePool, KeepsPrefixesUntilTheirPagesAreNeeded) {
  PagePool pool(2);
  const auto one = page_of(0);
  const auto two = page_of(100);
  const PageId first = pool.take().value();
  const PageId second = pool.take().value();
  pool.publish(pool.root(""), tokens_of(one), first);
  pool.publish(pool.root(""), tokens_of(two), second);
  pool.release(first);
  pool.release(second);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_EQ(pool.cached(), 2);
  pool.release(pool.find(pool.root(""), tokens_of(one))->page);  // used last
  EXPECT_EQ(pool.take(), second) << "unused for longest";
  EXPECT_FALSE(pool.find(pool.root(""), tokens_of(two)));
  EXPECT_TRUE(pool.find(pool.root(""), tokens_of(one)));
  EXPECT_FALSE(pool.take()) << "the other has a user again";
}

TEST(PagePool, TheFirstOfEqualPrefixesStays) {
  PagePool pool(2);
  const auto one = page_of(0);
  const PageId first = pool.take().value();
  const PageId second = pool.take().value();
  const PrefixId root = pool.root("");
  const PrefixId prefix = pool.publish(root, tokens_of(one), first);
  EXPECT_EQ(pool.publish(root, tokens_of(one), second), prefix);
  pool.release(second);
  EXPECT_EQ(pool.cached(), 0) << "the second holds nothing that is found";
  EXPECT_EQ(pool.find(root, tokens_of(one))->page, first);
}

// Random operations against a model that keeps users and contents in plain maps.
TEST(PagePool, AgreesWithAModelOverRandomOperations) {
  core::Random random(11);
  PagePool pool(12);
  std::map<PageId, int> users;                                  // of pages in use
  std::map<PageId, std::pair<PrefixId, std::int32_t>> content;  // what a page was published as
  const auto used = [&] {
    auto at = users.begin();
    std::advance(at, random.below(std::ssize(users)));
    return at->first;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t what = random.below(4);
    if (what == 0) {
      const auto page = pool.take();
      ASSERT_EQ(page.has_value(), users.size() < 12);
      if (page) {
        ASSERT_TRUE(users.emplace(*page, 1).second) << "a page that is in use";
        content.erase(*page);
      }
    } else if (what == 1 && !users.empty()) {
      const PageId page = used();
      pool.release(page);
      if (--users[page] == 0) {
        users.erase(page);
      }
    } else if (what == 2 && !users.empty()) {
      const PageId page = used();
      if (!content.contains(page)) {
        const PrefixId before = pool.root(random.below(2) == 0 ? "a" : "b");
        const auto first = static_cast<std::int32_t>(random.below(6));
        const bool is_new = std::none_of(content.begin(), content.end(), [&](const auto& each) {
          return each.second == std::pair(before, first);
        });
        pool.publish(before, tokens_of(page_of(first)), page);
        if (is_new) {
          content[page] = {before, first};
        }
      }
    } else if (what == 3) {
      const PrefixId before = pool.root(random.below(2) == 0 ? "a" : "b");
      const auto first = static_cast<std::int32_t>(random.below(6));
      const auto found = pool.find(before, tokens_of(page_of(first)));
      const auto expected = std::find_if(content.begin(), content.end(), [&](const auto& each) {
        return each.second == std::pair(before, first);
      });
      ASSERT_EQ(found.has_value(), expected != content.end());
      if (found) {
        ASSERT_EQ(found->page, expected->first);
        ++users[found->page];
      }
    }
    ASSERT_EQ(pool.free(), 12 - std::ssize(users));
  }
}

}  // namespace
}  // namespace nibble::engine
