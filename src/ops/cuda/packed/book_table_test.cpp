#include "ops/cuda/packed/book_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"

namespace nibble::ops::cuda {
namespace {

using Entries = std::array<std::int8_t, 16>;

/// PRMT of the instruction set: selectors of four bits, whose highest one asks for the sign.
std::uint32_t permuted(std::uint32_t low, std::uint32_t high, std::uint32_t selectors) {
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t selector = selectors >> (4 * i) & 15;
    const auto byte = static_cast<std::uint8_t>(bytes >> (8 * (selector & 7)));
    const std::uint32_t found = selector < 8 ? byte : byte >= 128 ? 0xff : 0;
    result |= found << (8 * i);
  }
  return result;
}

std::uint32_t word_of(const Entries& table, unsigned word) {
  std::uint32_t bits = 0;
  for (unsigned i = 0; i < 4; ++i) {
    bits |= std::uint32_t{static_cast<std::uint8_t>(table[4 * word + i])} << (8 * i);
  }
  return bits;
}

/// As kernels for few tokens do it: a sum of products with signed bytes of two words.
int product(const Entries& table, std::uint32_t codes, const std::array<int, 4>& x) {
  const std::uint32_t first = permuted(word_of(table, 0), word_of(table, 1), codes);
  const std::uint32_t second = permuted(word_of(table, 2), word_of(table, 3), ~codes);
  int sum = 0;
  for (unsigned i = 0; i < 4; ++i) {
    sum += static_cast<std::int8_t>(first >> (8 * i)) * x[i];
    sum += static_cast<std::int8_t>(second >> (8 * i)) * x[i];
  }
  return sum;
}

TEST(BookTable, ProductsWithBothPartsAreThoseWithTheEntries) {
  core::Random random(11);
  for (int trial = 0; trial < 2000; ++trial) {
    Entries entries = {};
    for (std::int8_t& entry : entries) {
      entry = static_cast<std::int8_t>(static_cast<int>(random.below(254)) - 127);
    }
    Entries table = {};
    ASSERT_TRUE(write_parts(entries, table));
    std::array<int, 4> x = {};
    std::uint32_t codes = 0;
    int expected = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const auto code = static_cast<unsigned>(random.below(16));
      x[i] = static_cast<int>(random.below(255)) - 127;
      codes |= code << (4 * i);
      expected += entries[code] * x[i];
    }
    ASSERT_EQ(product(table, codes, x), expected);
  }
}

TEST(BookTable, AllPairsOfEntriesHaveATableButThoseThatDoNotFit) {
  for (int low = -127; low <= 127; ++low) {
    for (int high = -127; high <= 127; ++high) {
      Entries entries = {};
      entries[3] = static_cast<std::int8_t>(low);
      entries[11] = static_cast<std::int8_t>(high);
      Entries table = {};
      const bool fits = !((low == 127 && high < 0) || (low < 0 && high == 127));
      ASSERT_EQ(write_parts(entries, table), fits) << low << ", " << high;
      for (unsigned code = 0; fits && code < 16; ++code) {
        ASSERT_EQ(book_entry(table.data(), code), entries[code]) << low << ", " << high;
      }
    }
  }
}

TEST(BookTable, BooksAreNegatedWhereTheirEntriesHaveNoTable) {
  std::vector<float> book(16);
  for (std::size_t i = 0; i < book.size(); ++i) {
    book[i] = static_cast<float>(i) / 7.5f - 1.0f;
  }
  book[7] = 0.0f;
  EXPECT_EQ(book_entries(book).entries[15], 127);
  book[7] = -0.07f;
  book[0] = -0.9f;
  const Int8Table whole = int8_table(book);
  const Int8Table mirrored = book_entries(book);
  EXPECT_EQ(mirrored.unit, -whole.unit);
  for (std::size_t i = 0; i < book.size(); ++i) {
    EXPECT_EQ(mirrored.entries[i], -whole.entries[i]);
  }
  book[0] = -1.0f;  // neither has a table with 127
  const Int8Table entries = book_entries(book);
  EXPECT_EQ(entries.entries[15], 126);
  EXPECT_EQ(entries.entries[0], -126);
  Entries table = {};
  ASSERT_TRUE(write_parts(entries.entries, table));
  for (std::size_t i = 0; i < book.size(); ++i) {
    EXPECT_NEAR(entries.unit * static_cast<float>(entries.entries[i]), book[i], 1.001 / 252);
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
