// The operands of 4-bit products as the kernel makes them, multiplied by a model of the
// instructions, against sums of plain integers.

#include "ops/cuda/gemm/int4/int4_operands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/format.h"
#include "ops/cuda/elementwise/checks.h"
#include "ops/cuda/elementwise/int4_tiles_for_tests.h"
#include "ops/cuda/gemm/int4/mma_s4_model_for_tests.h"
#include "ops/cuda/gemm/right_rows.h"
#include "ops/cuda/packed/unit_writer.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kTokens = 64;  // of a warp
constexpr int kPairs = kTokens / 16;
constexpr int kUnit = 128;  // inputs
constexpr int kTile = 16;   // rows

/// Integers of a product as they are meant: codes, and what they are more than their values.
struct Plain {
  int rows = kTile;
  int inputs = 0;
  std::vector<std::uint8_t> weights;  // [rows][inputs], 0 to 15
  std::vector<int> weight_zeros;      // [rows]; 8 where they have none
  std::vector<int> x;                 // [kTokens][inputs], -8 to 7
  std::vector<int> x_zeros;           // [kTokens], -8 to 7

  int units() const { return (inputs + kUnit - 1) / kUnit; }
  std::int64_t sum(int row, int token) const {
    std::int64_t sum = 0;
    for (int k = 0; k < inputs; ++k) {
      const int w = weights[static_cast<std::size_t>(row * inputs + k)] -
                    weight_zeros[static_cast<std::size_t>(row)];
      sum += w * (x[static_cast<std::size_t>(token * inputs + k)] -
                  x_zeros[static_cast<std::size_t>(token)]);
    }
    return sum;
  }
};

/// Draws each number between its two bounds.
Plain random_plain(int rows, int inputs, bool zeros, std::array<int, 2> weights,
                   std::array<int, 2> codes, core::Random& random) {
  const auto draw = [&](std::array<int, 2> bounds) {
    return bounds[0] + static_cast<int>(random.below(bounds[1] - bounds[0] + 1));
  };
  Plain plain;
  plain.rows = rows;
  plain.inputs = inputs;
  for (int i = 0; i < rows * inputs; ++i) {
    plain.weights.push_back(static_cast<std::uint8_t>(draw(weights)));
  }
  for (int i = 0; i < rows; ++i) {
    plain.weight_zeros.push_back(zeros ? draw({0, 15}) : 8);
  }
  for (int i = 0; i < kTokens * inputs; ++i) {
    plain.x.push_back(draw(codes));
  }
  for (int i = 0; i < kTokens; ++i) {
    plain.x_zeros.push_back(zeros ? draw({-8, 7}) : 0);
  }
  return plain;
}

/// The units of the weights, as the program packs them.
std::vector<std::byte> units_of(const Plain& plain, const UnitFormat& format) {
  const bool zeros = format.has_zeros();
  formats::PackedWeightBuilder builder(
      formats::parse_scheme(zeros ? "int4-asym-row" : "int4-sym-row"), plain.rows, plain.inputs);
  for (int row = 0; row < plain.rows; ++row) {
    builder.set_group(row, 0, {1.0f, plain.weight_zeros[static_cast<std::size_t>(row)]});
    builder.set_codes(row, std::span(plain.weights)
                               .subspan(static_cast<std::size_t>(row * plain.inputs),
                                        static_cast<std::size_t>(plain.inputs)));
  }
  const formats::PackedWeight weight = builder.finish();
  const UnitGrid grid = unit_grid(plain.rows, plain.inputs);
  std::vector<std::byte> units(static_cast<std::size_t>(grid.count() * format.bytes()));
  std::vector<float> factors(static_cast<std::size_t>(grid.row_groups * kUnitRows));
  write_units(weight, format, units, {}, factors);
  return units;
}

/// What a warp of the kernel has of one tile and all tokens.
class Warp {
 public:
  explicit Warp(const Plain& plain)
      : plain_(plain), memory_(static_cast<std::size_t>(kTokens * kInt4TokenBytes)) {
    for (int token = 0; token < kTokens; ++token) {
      const auto codes = std::span(plain.x).subspan(static_cast<std::size_t>(token * plain.inputs),
                                                    static_cast<std::size_t>(plain.inputs));
      rows_.push_back(int4_tiles_row(codes, plain.units() * kUnit,
                                     plain.x_zeros[static_cast<std::size_t>(token)]));
    }
  }

  /// One unit: the codes of a tile as they lie, and the tokens' bytes as the kernel copies them.
  void multiply(const std::byte* tile, int unit) {
    constexpr int kPieces = kInt4TokenBytes / 16;
    for (int token = 0; token < kTokens; ++token) {
      for (int piece = 0; piece < kPieces; ++piece) {
        const auto place = static_cast<std::size_t>(piece_place<kInt4TokenBytes>(token, piece));
        std::memcpy(&memory_[place],
                    &rows_[static_cast<std::size_t>(token)]
                          [static_cast<std::size_t>(unit * kInt4TokenBytes + piece * 16)],
                    16);
      }
    }
    const auto left = left_of(tile);
    for (std::size_t product = 0; product < kInt4Products; ++product) {
      model::Registers<2> ones;
      ones.fill({kInt4Ones, kInt4Ones});
      model::multiply(of_rows_, left[product], ones);
      for (std::size_t pair = 0; pair < kPairs; ++pair) {
        const model::Registers<4> right =
            right_of(static_cast<int>(pair), static_cast<int>(product));
        for (std::size_t column = 0; column < 2; ++column) {
          model::Registers<2> half = {};
          for (std::size_t lane = 0; lane < model::kLanes; ++lane) {
            half[lane] = {right[lane][2 * column], right[lane][2 * column + 1]};
          }
          model::multiply(sums_[2 * pair + column], left[product], half);
          model::multiply(of_tokens_[pair], ones_of(static_cast<int>(column)), half);
        }
      }
    }
  }

  /// Sum number i of eight tokens' four, of a lane, less what is due to zeros.
  std::int32_t corrected(std::size_t lane, std::size_t column, std::size_t i, std::uint32_t zeros,
                         int inputs) const {
    const std::size_t r = i / 2;
    const int token = token_of(lane, column, i);
    return int4_corrected(sums_[column][lane][i], of_rows_[lane][2 * r],
                          of_tokens_[column / 2][lane][column % 2 * 2 + i % 2],
                          int4_shifts(zeros).rows[r],
                          plain_.x_zeros[static_cast<std::size_t>(token)], inputs);
  }
  std::int32_t sum(std::size_t lane, std::size_t column, std::size_t i) const {
    return sums_[column][lane][i];
  }
  // As TileStore has them (gemm/store_tile.cuh).
  static int token_of(std::size_t lane, std::size_t column, std::size_t i) {
    return static_cast<int>(8 * column + lane % 4 * 2 + i % 2);
  }
  static int row_of(std::size_t lane, std::size_t i) {
    return static_cast<int>(lane / 4 + 8 * (i / 2));
  }

 private:
  static model::Registers<4> ones_of(int half) {
    std::uint32_t left[4] = {};
    int4_ones(left, half);
    model::Registers<4> all;
    all.fill({left[0], left[1], left[2], left[3]});
    return all;
  }

  static std::array<model::Registers<4>, kInt4Products> left_of(const std::byte* tile) {
    std::array<model::Registers<4>, kInt4Products> left = {};
    for (std::size_t lane = 0; lane < model::kLanes; ++lane) {
      std::uint32_t words[8];  // two vectors of 16 bytes (unit_format.h)
      std::memcpy(words, tile + lane * 16, 16);
      std::memcpy(words + 4, tile + 512 + lane * 16, 16);
      Int4Left registers = {};
      int4_left(registers, words);
      for (std::size_t product = 0; product < kInt4Products; ++product) {
        std::copy_n(registers[product], 4, left[product][lane].begin());
      }
    }
    return left;
  }

  model::Registers<4> right_of(int pair, int product) const {
    std::array<int, model::kLanes> places = {};
    for (int lane = 0; lane < model::kLanes; ++lane) {
      const RightRow row = right_row(lane, pair, product);
      places[static_cast<std::size_t>(lane)] = piece_place<kInt4TokenBytes>(row.token, row.piece);
    }
    return model::load_matrices(memory_, places);
  }

  const Plain& plain_;
  std::vector<std::vector<std::uint8_t>> rows_;  // of tokens, all inputs
  std::vector<std::uint8_t> memory_;             // of a stage
  std::array<model::SumRegisters, 2 * kPairs> sums_ = {};
  std::array<model::SumRegisters, kPairs> of_tokens_ = {};  // eight in each half
  model::SumRegisters of_rows_ = {};
};

/// Number of sums of all units that are not those of plain integers.
int wrong_sums(const Plain& plain, bool zeros) {
  const UnitFormat format{zeros ? CodeKind::kInt4WithZeros : CodeKind::kInt4};
  const std::vector<std::byte> units = units_of(plain, format);
  int wrong = 0;
  for (int first = 0; first < plain.rows; first += kTile) {
    Warp warp(plain);
    const std::byte* tile = nullptr;
    for (int unit = plain.units() - 1; unit >= 0; --unit) {
      tile = units.data() + (first / 64 * plain.units() + unit) * format.bytes() +
             first % 64 / kTile * format.tile_bytes();
      warp.multiply(tile, unit);
    }
    for (std::size_t lane = 0; lane < model::kLanes; ++lane) {
      std::uint16_t of_rows = 0;  // zeros of rows g and g + 8
      std::memcpy(&of_rows, tile + format.zero_offset() + 2 * (lane / 4), zeros ? 2 : 0);
      for (std::size_t column = 0; column < 2 * kPairs; ++column) {
        for (std::size_t i = 0; i < 4; ++i) {
          const int row = first + Warp::row_of(lane, i);
          if (row < plain.rows) {
            const std::int64_t expected = plain.sum(row, Warp::token_of(lane, column, i));
            wrong +=
                expected != (zeros ? warp.corrected(lane, column, i, of_rows, plain.units() * kUnit)
                                   : warp.sum(lane, column, i));
          }
        }
      }
    }
  }
  return wrong;
}

TEST(Int4Operands, GiveTheSumsOfPlainIntegers) {
  core::Random random(1);
  for (int trial = 0; trial < 24; ++trial) {
    for (const int inputs : {128, 256, 72, 300, 41}) {
      EXPECT_EQ(wrong_sums(random_plain(16, inputs, false, {0, 15}, {-8, 7}, random), false), 0)
          << inputs << " inputs, trial " << trial;
    }
  }
  EXPECT_EQ(wrong_sums(random_plain(150, 200, false, {0, 15}, {-8, 7}, random), false), 0);
}

TEST(Int4Operands, AreCorrectedForZeros) {
  core::Random random(2);
  for (int trial = 0; trial < 24; ++trial) {
    for (const int inputs : {128, 384, 72, 301}) {
      EXPECT_EQ(wrong_sums(random_plain(16, inputs, true, {0, 15}, {-8, 7}, random), true), 0)
          << inputs << " inputs, trial " << trial;
    }
  }
  EXPECT_EQ(wrong_sums(random_plain(70, 200, true, {0, 15}, {-8, 7}, random), true), 0);
}

TEST(Int4Operands, HoldTheLargestMagnitudes) {
  core::Random random(3);
  for (const int code : {0, 8, 15}) {
    for (const int x : {-8, 0, 7}) {
      for (const bool zeros : {false, true}) {
        EXPECT_EQ(wrong_sums(random_plain(16, 1000, zeros, {code, code}, {x, x}, random), zeros), 0)
            << code << " x " << x;
      }
    }
  }
}

// Where one input alone is not zero, its place is seen, and no other.
TEST(Int4Operands, MeetTheInputOfTheSameNumber) {
  core::Random random(4);
  for (int k = 0; k < kUnit; ++k) {
    Plain plain = random_plain(16, kUnit, false, {0, 15}, {0, 0}, random);
    for (int token = 0; token < kTokens; ++token) {
      plain.x[static_cast<std::size_t>(token * kUnit + k)] = token % 16 - 8;
    }
    EXPECT_EQ(wrong_sums(plain, false), 0) << k;
  }
}

// Words and bytes of a row of activations, by the two formulas that kernels write them with.
TEST(Int4Tiles, HaveTheirColumnsWhereTheFormulasSay) {
  core::Random random(5);
  std::vector<int> codes(256);
  for (int& code : codes) {
    code = static_cast<int>(random.below(16)) - 8;
  }
  const std::vector<std::uint8_t> row = int4_tiles_row(codes, 256, 0);
  const auto nibble = [&](int column) {
    return static_cast<std::uint32_t>(codes[static_cast<std::size_t>(column)]) & 15;
  };
  for (int byte = 0; byte < 128; ++byte) {
    const int column = int4_column(byte);
    EXPECT_EQ(row[static_cast<std::size_t>(byte)], nibble(column) | nibble(column + kInt4Apart)
                                                                        << 4);
  }
  for (int column = 0; column < 256; column += 8) {
    std::uint32_t halves[2] = {};
    for (int i = 0; i < 8; ++i) {
      constexpr int kByte[] = {0, 2, 1, 3};
      halves[i / 4] |= nibble(column + i) << (8 * kByte[i % 4]);
    }
    std::uint32_t word = 0;
    std::memcpy(&word, &row[static_cast<std::size_t>(int4_word_byte(column))], 4);
    EXPECT_EQ(word, joined_int4(halves[0], halves[1])) << column;
  }
}

TEST(Int4Tiles, RefuseCodesThatDoNotFit) {
  EXPECT_NO_THROW(check_int4(4, 0));
  EXPECT_NO_THROW(check_int4(3, 256));
  EXPECT_THROW(check_int4(8, 0), core::Error);
  EXPECT_THROW(check_int4(4, 64), core::Error);
}

// Eight rows of a matrix that ldmatrix reads at once lie in 32 different banks.
template <int kTokenBytes>
void check_banks() {
  std::set<int> places;
  for (int token = 0; token < kTokens; ++token) {
    for (int piece = 0; piece < kTokenBytes / 16; ++piece) {
      places.insert(piece_place<kTokenBytes>(token, piece));
    }
  }
  EXPECT_EQ(std::ssize(places), kTokens * kTokenBytes / 16);
  EXPECT_EQ(*places.rbegin(), kTokens * kTokenBytes - 16);
  for (int product = 0; product < kTokenBytes / 32; ++product) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::set<int> banks;
      for (int row = 0; row < 8; ++row) {
        const RightRow at = right_row(8 * matrix + row, 1, product);
        banks.insert(piece_place<kTokenBytes>(at.token, at.piece) % 128);
      }
      EXPECT_EQ(banks.size(), 8u);
    }
  }
}

TEST(RightRows, MeetNoBankTwice) {
  check_banks<64>();
  check_banks<128>();
}

}  // namespace
}  // namespace nibble::ops::cuda
