#include "formats/codebooks.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numbers>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "formats/mx/e8m0.h"

namespace nibble::formats {
namespace {

TEST(Codebooks, FixedBooksAreNormalisedAndContainZero) {
  for (const Book book : {Book::kNf4, Book::kE2m1, Book::kAf4}) {
    for (const std::int64_t group : {0, 1, 32, 64, 128, 256, 4096}) {
      const auto values = fixed_book(book, group);
      ASSERT_EQ(values.size(), 16u);
      EXPECT_EQ(*std::max_element(values.begin(), values.end()), book == Book::kE2m1 ? 6.0f : 1.0f);
      EXPECT_EQ(*std::min_element(values.begin(), values.end()),
                book == Book::kE2m1 ? -6.0f : -1.0f);
      EXPECT_NE(std::find(values.begin(), values.end(), 0.0f), values.end());
      EXPECT_TRUE(book == Book::kE2m1 || std::is_sorted(values.begin(), values.end()));
    }
  }
  EXPECT_TRUE(std::signbit(kE2m1[8]));
}

TEST(Codebooks, Af4TakesTheNearestGroupSizeInLog2) {
  const auto book = [](std::int64_t group) { return fixed_book(Book::kAf4, group).data(); };
  EXPECT_EQ(book(1), book(32));
  EXPECT_EQ(book(45), book(32));
  EXPECT_EQ(book(46), book(64));
  EXPECT_EQ(book(90), book(64));
  EXPECT_EQ(book(91), book(128));
  EXPECT_EQ(book(181), book(128));
  EXPECT_EQ(book(182), book(256));
  EXPECT_EQ(book(8192), book(256));
  EXPECT_EQ(book(0), book(256));
  EXPECT_NE(book(32), book(64));
}

TEST(Codebooks, LearnedBooksAreNotFixed) {
  for (const Book book : {Book::kNone, Book::kPerRow, Book::kPerMatrix}) {
    EXPECT_THROW((void)fixed_book(book, 64), core::Error);
  }
}

// P(|x| / max <= t) for an x that is not the largest of `block` normal numbers, by the midpoint
// rule.
double normalised_cdf(double t, int block) {
  double sum = 0;
  double total = 0;
  for (int i = 0; i < 4000; ++i) {
    const double m = (i + 0.5) * 0.002;
    const double inside = std::erf(m / std::numbers::sqrt2);
    const double density = std::pow(inside, block - 1) * std::exp(-m * m / 2);
    sum += density * std::erf(t * m / std::numbers::sqrt2) / inside;
    total += density;
  }
  return sum / total;
}

// The defining property: with the absolute error each free value is the median of its cell.
TEST(Codebooks, EveryFreeAf4ValueIsTheMedianOfItsCell) {
  for (const int block : {32, 64, 128, 256}) {
    const auto book = fixed_book(Book::kAf4, block);
    for (std::size_t i = 1; i < 15; ++i) {
      if (book[i] == 0) {
        continue;
      }
      const double inner = normalised_cdf(std::abs(book[i] + book[i - 1]) / 2.0, block);
      const double outer = normalised_cdf(std::abs(book[i] + book[i + 1]) / 2.0, block);
      EXPECT_NEAR(normalised_cdf(std::abs(book[i]), block), (inner + outer) / 2, 1e-6)
          << block << " " << i;
    }
  }
}

TEST(Codebooks, Af4AgreesWithAnIndependentSolution) {
  const std::string path = NIBBLE_SOURCE_DIR "/../shared/goldens/af4_codebooks.json";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is missing";
  }
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const core::Json books = core::parse_json(text, path);
  for (const int group : {32, 64, 128, 256}) {
    const core::Json& expected = books.at(std::to_string(group)).at("z");
    const auto book = fixed_book(Book::kAf4, group);
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_NEAR(book[i], expected.at(i).get<double>(), 1.5e-4) << group << " " << i;
    }
  }
}

TEST(E8m0, DecodesAllBytes) {
  for (int byte = 0; byte < 255; ++byte) {
    EXPECT_EQ(e8m0_to_float(static_cast<std::uint8_t>(byte)), std::ldexp(1.0f, byte - 127)) << byte;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

}  // namespace
}  // namespace nibble::formats
