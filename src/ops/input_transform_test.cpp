#include "ops/input_transform.h"

#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace nibble::ops {
namespace {

std::vector<float> unit(std::size_t size, std::size_t at) {
  std::vector<float> row(size);
  row[at] = 1.0f;
  return row;
}

// Where a row is mixed: entries of the block are +-1/sqrt(size), all others stay.
void expect_mixed(const InputTransform& transform, std::size_t k, std::size_t begin,
                  std::size_t end) {
  for (std::size_t at = begin; at < end; ++at) {
    std::vector<float> row = unit(k, at);
    transform.apply(row);
    for (std::size_t i = 0; i < k; ++i) {
      const float size =
          i >= begin && i < end ? 1.0f / std::sqrt(static_cast<float>(end - begin)) : 0;
      EXPECT_FLOAT_EQ(std::fabs(row[i]), size) << at << " " << i;
    }
  }
}

TEST(InputTransform, MixesBlocksAndASmallerOneAtTheEnd) {
  const InputTransform transform(formats::parse_scheme("int4-sym-g32-h64"), 112);
  EXPECT_TRUE(transform.mixes());
  expect_mixed(transform, 112, 0, 64);
  expect_mixed(transform, 112, 64, 112);
  const InputTransform row(formats::parse_scheme("int4-sym-g32-hrow"), 96);
  expect_mixed(row, 96, 0, 96);
}

TEST(InputTransform, LeavesTheTailAlone) {
  const InputTransform transform(formats::parse_scheme("int4-sym-g32-a4-h32-tail16"), 96);
  expect_mixed(transform, 96, 32, 64);
  expect_mixed(transform, 96, 64, 80);
  for (std::size_t at = 80; at < 96; ++at) {
    std::vector<float> row = unit(96, at);
    transform.apply(row);
    EXPECT_EQ(row, unit(96, at));
  }
}

TEST(InputTransform, GathersInTheStoredOrder) {
  const std::vector<std::int32_t> order = {3, 0, 2, 1};
  const InputTransform transform(core::Tensor::from<std::int32_t>(order, {1, 4}));
  EXPECT_FALSE(transform.is_identity());
  EXPECT_FALSE(transform.mixes());
  std::vector<float> row = {10, 11, 12, 13};
  transform.apply(row);
  EXPECT_EQ(row, (std::vector<float>{13, 10, 12, 11}));
}

TEST(InputTransform, EqualOrdersAreEqual) {
  const auto with = [](std::vector<std::int32_t> order) {
    return InputTransform(core::Tensor::from<std::int32_t>(order, {1, std::ssize(order)}));
  };
  EXPECT_EQ(with({1, 0}), with({1, 0}));
  EXPECT_FALSE(with({1, 0}) == with({0, 1}));
  EXPECT_FALSE(with({1, 0}) == InputTransform());
  const InputTransform a(formats::parse_scheme("int4-sym-g32-h32"), 64);
  EXPECT_EQ(a, InputTransform(formats::parse_scheme("int8-sym-row-h32"), 64));
  EXPECT_FALSE(a == InputTransform(formats::parse_scheme("int4-sym-g32-h16"), 64));
  EXPECT_TRUE(InputTransform().is_identity());
}

}  // namespace
}  // namespace nibble::ops
