#include "formats/hadamard.h"

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/hadamard_loops.h"
#include "formats/split_mix.h"

namespace nibble::formats {
namespace {

using Matrix = std::vector<std::vector<float>>;

// Row i of H is what it makes of the unit vector e_i.
Matrix matrix(const Hadamard& hadamard) {
  const auto n = static_cast<std::size_t>(hadamard.size());
  Matrix rows(n, std::vector<float>(n));
  for (std::size_t i = 0; i < n; ++i) {
    rows[i][i] = 1.0f;
    hadamard.apply(rows[i]);
  }
  return rows;
}

std::string signs(const std::vector<float>& row) {
  std::string text;
  for (const float value : row) {
    text += value > 0 ? '+' : '-';
  }
  return text;
}

const std::vector<std::int64_t> kSizes = {1,  2,  4,  8,  12, 16,  20,  24,  28,  36,  40, 44,
                                          56, 60, 64, 76, 84, 104, 108, 128, 140, 148, 312};

TEST(Hadamard, HasEqualMagnitudesAndOrthogonalRows) {
  for (const std::int64_t size : kSizes) {
    SCOPED_TRACE(size);
    ASSERT_TRUE(hadamard_exists(size));
    const Matrix rows = matrix(Hadamard(size));
    const float entry = 1.0f / std::sqrt(static_cast<float>(size));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        ASSERT_EQ(std::fabs(rows[i][j]), entry) << i << ", " << j;
        double product = 0;
        for (std::size_t k = 0; k < rows.size(); ++k) {
          product += static_cast<double>(rows[i][k]) * rows[j][k];
        }
        ASSERT_NEAR(product, i == j ? 1.0 : 0.0, 1e-6) << i << ", " << j;
      }
    }
  }
}

TEST(Hadamard, IsSymmetricWhenItSaysSo) {
  for (const std::int64_t size : kSizes) {
    const Hadamard hadamard(size);
    const Matrix rows = matrix(hadamard);
    bool symmetric = true;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        symmetric = symmetric && rows[i][j] == rows[j][i];
      }
    }
    EXPECT_EQ(hadamard.symmetric(), symmetric) << size;
  }
  EXPECT_TRUE(Hadamard(36).symmetric());
  EXPECT_FALSE(Hadamard(12).symmetric());
}

TEST(Hadamard, IsSylvestersForPowersOfTwo) {
  const Matrix rows = matrix(Hadamard(64));
  for (unsigned i = 0; i < 64; ++i) {
    for (unsigned j = 0; j < 64; ++j) {
      ASSERT_EQ(rows[i][j], std::popcount(i & j) % 2 == 0 ? 0.125f : -0.125f);
    }
  }
}

// From NumPy, with Euler's criterion for the residues.
TEST(Hadamard, IsPaleysOtherwise) {
  const std::vector<std::string> expected = {"++++++++++++", "-+-+---+++-+", "-++-+---+++-",
                                             "--++-+---+++", "-+-++-+---++", "-++-++-+---+",
                                             "-+++-++-+---", "--+++-++-+--", "---+++-++-+-",
                                             "----+++-++-+", "-+---+++-++-", "--+---+++-++"};
  const Matrix twelve = matrix(Hadamard(12));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(signs(twelve[i]), expected[i]) << i;
  }
  const Matrix thirty_six = matrix(Hadamard(36));
  EXPECT_EQ(signs(thirty_six[0]), "+-++++++++++++++++++++++++++++++++++");
  EXPECT_EQ(signs(thirty_six[1]), "--+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-");
  EXPECT_EQ(signs(thirty_six[3]), "+---+-+--++--+-+-++-+--+-+-++--++-+-");
  EXPECT_EQ(signs(thirty_six[35]), "+-+-+--++--+-+-++-+--+-+-++--++-+---");
}

TEST(Hadamard, MultipliesTheBaseWithSylvesters) {
  const Matrix twelve = matrix(Hadamard(12));
  const Matrix large = matrix(Hadamard(96));
  for (unsigned i = 0; i < 96; ++i) {
    for (unsigned j = 0; j < 96; ++j) {
      const bool positive = (twelve[i / 8][j / 8] > 0) == (std::popcount(i % 8 & j % 8) % 2 == 0);
      ASSERT_EQ(large[i][j] > 0, positive) << i << ", " << j;
    }
  }
}

TEST(Hadamard, TurnsBlocksAloneAndBack) {
  for (const std::int64_t block : {4, 20, 24, 1408}) {
    const auto width = static_cast<std::size_t>(block);
    const std::vector<float> original = split_mix_normals(7, 3 * width);
    std::vector<float> row = original;
    apply_hadamard(row, block);
    std::vector<float> alone(original.begin() + block, original.begin() + 2 * block);
    apply_hadamard(alone, block);
    for (std::size_t i = 0; i < width; ++i) {
      ASSERT_EQ(row[width + i], alone[i]);
    }
    apply_hadamard_transposed(row, block);
    std::vector<double> precise(original.begin(), original.end());
    const Hadamard hadamard(block);
    hadamard.apply(precise);
    hadamard.apply_transposed(precise);
    for (std::size_t i = 0; i < row.size(); ++i) {
      ASSERT_NEAR(row[i], original[i], 1e-5);
      ASSERT_NEAR(precise[i], original[i], 1e-13);
    }
  }
}

// All instruction sets make the same additions.
TEST(Hadamard, HasTheSameBitsInAllVectors) {
  for (const std::int64_t size : {1, 2, 4, 8, 12, 16, 20, 32, 64, 96, 128, 704, 1408, 2048, 5632}) {
    for (const bool transposed : {false, true}) {
      std::int64_t base = size;
      while (base % 2 == 0) {
        base /= 2;
      }
      base = base == 1 ? 1 : base * 4;
      std::vector<float> signs(static_cast<std::size_t>(base * base));
      for (std::size_t i = 0; i < signs.size(); ++i) {
        signs[i] = (i * i + i / 3) % 5 < 2 ? -1.0f : 1.0f;  // any will do
      }
      const HadamardTurn turn = {base, size / base, base > 1 ? signs.data() : nullptr, transposed};
      std::vector<float> best = split_mix_normals(7, static_cast<std::size_t>(3 * size));
      std::vector<float> plain = best;
      std::vector<float> scratch(static_cast<std::size_t>(size));
      turn_blocks(turn, best.data(), 3, scratch.data());
      turn_blocks_plainly(turn, plain.data(), 3, scratch.data());
      ASSERT_EQ(best, plain) << size;
    }
  }
}

TEST(Hadamard, ExistsForTheWidthsOfModels) {
  for (const std::int64_t width : {576, 768, 896, 960, 1408, 1536, 2048, 3072, 4096, 4864, 5120,
                                   5632, 6656, 13824, 14336, 18944}) {
    EXPECT_TRUE(hadamard_exists(width)) << width;
  }
}

TEST(Hadamard, RefusesSizesThatCannotBeBuilt) {
  for (const std::int64_t size : {-4, 0, 3, 6, 10, 22, 52, 100, 172, 11008}) {
    EXPECT_FALSE(hadamard_exists(size)) << size;
    EXPECT_THROW(Hadamard{size}, core::Error) << size;
  }
  std::vector<float> row(100);
  EXPECT_THROW(apply_hadamard(row, 8), core::Error);
}

}  // namespace
}  // namespace nibble::formats
