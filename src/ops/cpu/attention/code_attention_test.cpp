#include "ops/cpu/attention/code_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/random_values_for_tests.h"
#include "ops/cpu/attention/attention.h"
#include "ops/cpu/attention/problem_for_tests.h"

namespace nibble::ops::cpu {
namespace {

struct Case {
  std::int64_t dim;
  std::int64_t heads;  // of the group
  std::int64_t first;
  std::int64_t rows;
  std::int64_t window;
  float softcap;
  bool bidirectional;
};

std::string name_of(const Case& c, KvTypes types) {
  return std::to_string(static_cast<int>(types.keys)) + "-" +
         std::to_string(static_cast<int>(types.values)) + ", " + std::to_string(c.heads) +
         " heads of " + std::to_string(c.dim) + ", " + std::to_string(c.rows) + " rows from " +
         std::to_string(c.first) + ", window " + std::to_string(c.window);
}

constexpr KvTypes kTypes[] = {KvType::kInt8,
                              KvType::kInt4,
                              {KvType::kInt8, KvType::kInt4},
                              {KvType::kInt4, KvType::kInt8},
                              {KvType::kF16, KvType::kInt4},
                              {KvType::kInt8, KvType::kF16},
                              {KvType::kF32, KvType::kInt8}};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t dim : {8, 24, 64, 80, 128}) {
    for (const std::int64_t heads : {1, 2, 4, 7}) {
      for (const auto& [first, rows] : {std::pair<std::int64_t, std::int64_t>{0, 1},
                                        {15, 1},
                                        {16, 2},
                                        {200, 1},
                                        {0, 19},
                                        {61, 70}}) {
        for (const std::int64_t window : {0, 1, 18, 100}) {
          all.push_back({dim, heads, first, rows, window, window == 18 ? 0.7f : 0.0f, false});
        }
      }
    }
  }
  all.push_back({256, 2, 90, 3, 0, 0.0f, false});
  all.push_back({320, 2, 90, 3, 0, 0.0f, false});  // of less fine queries
  all.push_back({32, 3, 0, 40, 0, 0.0f, true});
  return all;
}

// What a row does not see is NaN in the cache: behind the last token, before the window, in the
// rest of the last page.
struct Poisoned {
  Poisoned(const Case& c, KvTypes types)
      : q(core::normal_values(c.rows * c.heads * c.dim, 1)),
        cache(types, 1, 1, c.dim, c.first + c.rows + 40) {
    const std::int64_t keys = c.first + c.rows;
    const std::vector<float> nothing(static_cast<std::size_t>(c.dim), std::nanf(""));
    const std::vector<float> k = core::normal_values(keys * c.dim, 2);
    const std::vector<float> v = core::normal_values(keys * c.dim, 3);
    for (std::int64_t j = 0; j < cache.capacity(); ++j) {
      cache.store(0, 0, j, nothing.data(), nothing.data());
    }
    for (std::int64_t j = c.window > 0 ? std::max<std::int64_t>(0, c.first - c.window + 1) : 0;
         j < keys; ++j) {
      cache.store(0, 0, j, k.data() + j * c.dim, v.data() + j * c.dim);
    }
    p = testing::problem_of(c, q, cache);
  }
  std::vector<float> run(void (*attend)(const AttentionProblem&)) const {
    std::vector<float> out(q.size(), std::nanf(""));
    AttentionProblem problem = p;
    problem.out = out.data();
    attend(problem);
    return out;
  }
  std::vector<float> q;
  KvCache cache;
  AttentionProblem p;
};

TEST(CodeAttention, ReadsWhatItSees) {
  std::size_t next = 0;
  for (const Case& c : cases()) {
    for (int turn = 0; turn < 2; ++turn) {
      const KvTypes types = kTypes[next++ % std::size(kTypes)];
      const Poisoned problem(c, types);
      const std::vector<float> right = problem.run(attend_reference);
      const std::vector<float> rows = problem.run(attend_rows);
      ASSERT_EQ(problem.run(attend_blocks), rows) << name_of(c, types);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        ASSERT_NEAR(rows[i], right[i], 3e-4) << name_of(c, types) << " at " << i;
      }
    }
  }
}

// The error is that of 16-bit rounding: far below that of the codes.
TEST(CodeAttention, RoundsFarFinerThanCodes) {
  const auto difference = [](const std::vector<float>& a, const std::vector<float>& b) {
    double error = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      error += std::pow(a[i] - b[i], 2);
    }
    return std::sqrt(error);
  };
  const Case c = {64, 4, 1000, 1, 0, 0.0f, false};
  const Poisoned problem(c, KvType::kInt8);
  const std::vector<float> right = problem.run(attend_reference);
  const double of_codes = difference(right, Poisoned(c, KvType::kF32).run(attend_reference));
  const double of_products = difference(right, problem.run(attend_rows));
  EXPECT_LT(of_products, 0.05 * of_codes);
  EXPECT_GT(of_products, 0);
}

// Queries that are no numbers, and values that are none: NaN comes out, for their heads alone.
TEST(CodeAttention, NaNComesThrough) {
  const auto is_nan = [](float x) { return std::isnan(x); };
  const Case c = {64, 2, 40, 1, 0, 0.0f, false};
  for (const KvTypes types : {KvTypes(KvType::kInt8), KvTypes(KvType::kInt4)}) {
    for (const float broken : {std::nanf(""), INFINITY}) {
      Poisoned problem(c, types);
      problem.q[70] = broken;
      const std::vector<float> out = problem.run(attend_rows);
      EXPECT_TRUE(std::none_of(out.begin(), out.begin() + 64, is_nan));
      EXPECT_TRUE(std::all_of(out.begin() + 64, out.end(), is_nan));
    }
    Poisoned problem(c, types);
    const std::vector<float> key(64, 1.0f);
    std::vector<float> value(64, 1.0f);
    value[9] = std::nanf("");
    problem.cache.store(0, 0, 7, key.data(), value.data());
    const std::vector<float> out = problem.run(attend_rows);
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), is_nan));
  }
}

// Queries of zeros, and so small that they have no inverse.
TEST(CodeAttention, QueriesOfNothingSeeAllAlike) {
  const Case c = {32, 1, 40, 1, 0, 0.0f, false};
  for (const float tiny : {0.0f, 1e-40f}) {
    Poisoned problem(c, KvType::kInt8);
    std::fill(problem.q.begin(), problem.q.end(), tiny);
    const std::vector<float> right = problem.run(attend_reference);
    const std::vector<float> out = problem.run(attend_rows);
    for (std::size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(out[i], right[i], 1e-4);
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
