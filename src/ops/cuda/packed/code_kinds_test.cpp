#include "ops/cuda/packed/code_kinds.h"

#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cuda/packed/unit_parts.h"

namespace nibble::ops::cuda {
namespace {

// Files of schedules have them.
constexpr std::pair<CodeKind, const char*> kNames[] = {
    {CodeKind::kInt4, "int4"},
    {CodeKind::kInt4WithZeros, "int4_with_zeros"},
    {CodeKind::kInt8, "int8"},
    {CodeKind::kInt8WithZeros, "int8_with_zeros"},
    {CodeKind::kBook, "book"},
    {CodeKind::kBytes, "bytes"},
    {CodeKind::kInt3, "int3"},
    {CodeKind::kInt3WithZeros, "int3_with_zeros"},
    {CodeKind::kInt2, "int2"},
    {CodeKind::kInt2WithZeros, "int2_with_zeros"},
    {CodeKind::kBook3, "book3"},
    {CodeKind::kBook2, "book2"},
    {CodeKind::kInt4WithShifts, "int4_with_shifts"},
    {CodeKind::kInt8WithShifts, "int8_with_shifts"}};

TEST(CodeKinds, HaveNames) {
  EXPECT_EQ(std::size(kNames), kCodeKinds.size());
  for (const auto& [kind, name] : kNames) {
    EXPECT_EQ(name_of(kind), name);
  }
}

// with_code_kind() knows every kind, or its switch does not compile.
TEST(CodeKinds, AreAllListed) {
  int known = 0;
  for (int number = 0; number < 100; ++number) {
    with_code_kind(static_cast<CodeKind>(number), [&]<CodeKind kKind>() {
      EXPECT_EQ(static_cast<int>(kKind), number);
      ++known;
    });
  }
  EXPECT_EQ(std::set(kCodeKinds.begin(), kCodeKinds.end()).size(), kCodeKinds.size());
  EXPECT_EQ(static_cast<std::size_t>(known), kCodeKinds.size());
}

TEST(CodeKinds, FollowFromBitsAndOffsets) {
  EXPECT_EQ(integer_kind(4, GroupOffset::kNone), CodeKind::kInt4);
  EXPECT_EQ(integer_kind(2, GroupOffset::kZero), CodeKind::kInt2WithZeros);
  EXPECT_EQ(integer_kind(8, GroupOffset::kNone), CodeKind::kInt8);
  EXPECT_EQ(integer_kind(8, GroupOffset::kShift), CodeKind::kInt8WithShifts);
  EXPECT_EQ(book_kind(4), CodeKind::kBook);
  EXPECT_EQ(book_kind(3), CodeKind::kBook3);
  EXPECT_THROW(integer_kind(3, GroupOffset::kShift), core::Error);
  EXPECT_THROW(book_kind(8), core::Error);
}

}  // namespace
}  // namespace nibble::ops::cuda
