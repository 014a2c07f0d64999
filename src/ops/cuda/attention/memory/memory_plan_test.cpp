#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random_values_for_tests.h"
#include "ops/cpu/attention/attention.h"
#include "ops/cuda/attention/memory/memory_attention.h"
#include "ops/cuda/attention/memory/memory_reference.h"

// Plans of attention to memories, as the kernels follow them, on the host; and the reference of the
// kernels beside that of the CPU's.
namespace nibble::ops::cuda {
namespace {

using Pages = std::vector<std::int32_t>;

/// Pages of a text of so many tokens, from `first` on in steps of three.
Pages pages_of(std::int64_t tokens, std::int32_t first) {
  Pages pages(static_cast<std::size_t>(pages_for(tokens)));
  for (std::size_t i = 0; i < pages.size(); ++i) {
    pages[i] = first + 3 * static_cast<std::int32_t>(i);
  }
  return pages;
}

/// What stands in a pool where the rows of a batch have been stored: slot to row.
std::map<std::int32_t, std::int64_t> stored(const AttentionPlan& plan) {
  std::map<std::int32_t, std::int64_t> rows;
  for (std::size_t row = 0; row < plan.slots.size(); ++row) {
    if (plan.slots[row] >= 0) {
      EXPECT_TRUE(rows.emplace(plan.slots[row], row).second) << "two rows in one place";
    }
  }
  return rows;
}

/// The slots that the items of each row read, in their order.
std::vector<std::vector<std::int32_t>> read(const AttentionPlan& plan, std::int64_t m) {
  std::vector<DecodeItem> items = plan.decode;
  std::stable_sort(items.begin(), items.end(),
                   [](const DecodeItem& a, const DecodeItem& b) { return a.split < b.split; });
  std::vector<std::vector<std::int32_t>> slots(static_cast<std::size_t>(m));
  for (const DecodeItem& item : items) {
    auto& row = slots[static_cast<std::size_t>(item.row)];
    for (std::int32_t position = item.begin; position < item.end; ++position) {
      const std::int32_t page = (position - item.first) / 16;
      EXPECT_LT(page, item.pages);
      const std::int32_t id = plan.table[static_cast<std::size_t>(item.table + page)];
      if (page < static_cast<std::int32_t>(kLeadingPages)) {
        EXPECT_EQ(item.leading[static_cast<std::size_t>(page)], id);
      }
      row.push_back(id * 16 + position % 16);
    }
  }
  return slots;
}

TEST(MemoryPlan, EachRowReadsItsTextOnceAndInOrder) {
  const std::vector<std::int64_t> tokens = {1, 16, 17, 700, 1024, 33};
  std::vector<Pages> pages;
  std::vector<MemoryRows> texts;
  std::vector<MemoryRows> readers;
  std::int64_t row = 0;
  std::int64_t reader = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    pages.push_back(pages_of(tokens[i], static_cast<std::int32_t>(400 * i)));
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    texts.push_back({pages[i], tokens[i], row, tokens[i]});
    const auto rows = static_cast<std::int64_t>(1 + i % 3 * 4);
    readers.push_back({pages[i], tokens[i], reader, rows});
    row += tokens[i];
    reader += rows;
  }
  constexpr std::int64_t kPadding = 9;
  const AttentionPlan storing = plan_storing(texts, row + kPadding);
  ASSERT_EQ(std::ssize(storing.slots), row + kPadding);
  EXPECT_EQ(std::ssize(storing.positions), row + kPadding);
  EXPECT_TRUE(storing.decode.empty() && storing.prefill.empty());
  const auto places = stored(storing);
  EXPECT_EQ(std::ssize(places), row);  // no padding
  const AttentionPlan reading = plan_reading(readers);
  EXPECT_TRUE(reading.prefill.empty());
  const auto slots = read(reading, reader);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    for (std::int64_t at = 0; at < readers[i].rows; ++at) {
      const auto& own = slots[static_cast<std::size_t>(readers[i].row + at)];
      ASSERT_EQ(std::ssize(own), tokens[i]);
      for (std::int64_t token = 0; token < tokens[i]; ++token) {
        ASSERT_EQ(places.at(own[static_cast<std::size_t>(token)]), texts[i].row + token);
      }
    }
  }
}

// What kernels without tensor cores read in place of items.
TEST(MemoryPlan, PositionsAndStartsAreThoseOfTheLastToken) {
  const Pages first = pages_of(40, 0);
  const Pages second = pages_of(17, 100);
  const std::vector<MemoryRows> readers = {{first, 40, 0, 2}, {second, 17, 2, 1}};
  const AttentionPlan plan = plan_reading(readers);
  EXPECT_EQ(plan.positions, (std::vector<std::int32_t>{39, 39, 16}));
  EXPECT_EQ(plan.starts, (std::vector<std::int32_t>{0, 0, 3}));
  EXPECT_EQ(plan.table, (Pages{0, 3, 6, 100, 103}));  // once for the rows that share it
}

// Rows of other texts between them list pages again.
TEST(MemoryPlan, SharesThePagesOfNeighboursOnly) {
  const Pages first = pages_of(20, 0);
  const Pages second = pages_of(20, 100);
  const std::vector<MemoryRows> readers = {
      {first, 20, 0, 1}, {second, 20, 1, 1}, {first, 20, 2, 1}, {first, 9, 3, 1}};
  const AttentionPlan plan = plan_reading(readers);
  EXPECT_EQ(plan.table, (Pages{0, 3, 100, 103, 0, 3, 0}));
  EXPECT_EQ(plan.starts, (std::vector<std::int32_t>{0, 2, 4, 6}));
}

TEST(MemoryPlan, RefusesTextsWithoutRoomOrTokens) {
  const Pages pages = {5};
  EXPECT_THROW(plan_storing(std::vector<MemoryRows>{{pages, 17, 0, 17}}, 17), core::Error);
  EXPECT_THROW(plan_reading(std::vector<MemoryRows>{{pages, 17, 0, 1}}), core::Error);
  EXPECT_THROW(plan_reading(std::vector<MemoryRows>{{pages, 0, 0, 1}}), core::Error);
}

/// One text at the CPU's own reference.
std::vector<double> on_cpu(const MemoryProblem& p) {
  const std::int64_t tokens = p.texts.front().tokens;
  const std::int64_t rows = p.texts.front().rows;
  cpu::KvCache cache(KvType::kF32, 1, p.kv_heads, p.head_dim, tokens);
  const std::int64_t group = p.heads / p.kv_heads;
  std::vector<float> out(p.q.size());
  for (std::int64_t head = 0; head < p.kv_heads; ++head) {
    for (std::int64_t token = 0; token < tokens; ++token) {
      const float* key =
          &p.kv[static_cast<std::size_t>((2 * token * p.kv_heads + head) * p.head_dim)];
      cache.store(0, head, token, key, key + p.kv_heads * p.head_dim);
    }
    cpu::AttentionProblem problem;
    problem.q = p.q.data() + head * group * p.head_dim;
    problem.ldq = problem.ldo = p.heads * p.head_dim;
    problem.out = out.data() + head * group * p.head_dim;
    problem.rows = rows;
    problem.heads = group;
    problem.head_dim = p.head_dim;
    problem.scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim));
    problem.memory_rows = tokens;
    problem.mask.bidirectional = true;
    problem.keys = cache.keys(0, head);
    problem.values = cache.values(0, head);
    cpu::attend_reference(problem);
  }
  return {out.begin(), out.end()};
}

TEST(MemoryReference, IsThatOfTheCpu) {
  for (const auto& [heads, kv_heads, head_dim] :
       {std::tuple{4, 4, 32}, {3, 1, 64}, {6, 2, 80}, {1, 1, 128}}) {
    MemoryProblem p{heads, kv_heads, head_dim, {{45, 7}}, {}, {}};
    p.q = core::normal_values(p.rows() * heads * head_dim, 1);
    p.kv = core::normal_values(p.tokens() * 2 * kv_heads * head_dim, 2);
    const std::vector<double> expected = on_cpu(p);
    const std::vector<double> made = reference_memory_attention(p, false, false);
    ASSERT_EQ(made.size(), expected.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      ASSERT_NEAR(made[i], expected[i], 1e-5) << i;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
