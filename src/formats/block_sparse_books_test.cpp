// Block-sparse rows of entries of a book (lut4-row-g16-bsr).

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/block_sparse.h"
#include "formats/cut_weights_for_tests.h"
#include "formats/format.h"
#include "formats/sparse_rows_for_tests.h"
#include "formats/stored_parts.h"

namespace nibble::formats {
namespace {

using core::Tensor;

constexpr const char* kLearned[] = {"lut4-row-g16-bsr",    "lut4-matrix-g16-bsr",
                                    "lut3-row-g8-bsr",     "lut2-matrix-g32-bsr",
                                    "lut4-row-g64-bsr-a8", "lut3-matrix-g16-bsr-a8s"};
constexpr const char* kFixed[] = {"lut4-nf4-g16-bsr", "lut4-fp4-g32-bsr", "lut4-af4-g64-bsr"};

// Row r and its groups as sparse_values() has them; what is empty has scale 0. No book holds a 0.
PackedWeight learned_rows(const Scheme& scheme, std::int64_t n, std::int64_t groups) {
  const std::int64_t group = scheme.scale.group;
  const std::vector<float> pattern = sparse_values(n, groups * group, group, 0.6);
  PackedWeightBuilder builder(scheme, n, groups * group);
  core::Random random(7);
  for (std::int64_t row = 0; row < n; ++row) {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(groups * group));
    for (std::uint8_t& code : codes) {
      code = static_cast<std::uint8_t>(random.below(book_size(scheme)));
    }
    builder.set_codes(row, codes);
    for (std::int64_t g = 0; g < groups; ++g) {
      const bool empty = pattern[static_cast<std::size_t>((row * groups + g) * group)] == 0;
      const float scale = (g % 2 == 0 ? 0.25f : -0.5f) * static_cast<float>(1 + row);
      builder.set_group(row, g, {empty ? 0.0f : scale, 0});
    }
    if (row == 0 || scheme.code.book == Book::kPerRow) {
      std::vector<float> book(static_cast<std::size_t>(book_size(scheme)));
      for (std::size_t i = 0; i < book.size(); ++i) {
        book[i] = static_cast<float>(i) - 3.5f - static_cast<float>(row);
      }
      builder.set_book(row, book);
    }
  }
  return builder.finish();
}

PackedWeight learned_rows(const std::string& scheme, std::int64_t n, std::int64_t groups) {
  return learned_rows(parse_scheme(scheme), n, groups);
}

TEST(BlockSparseBooks, AreSchemes) {
  for (const std::string text : kLearned) {
    const Scheme scheme = parse_scheme(text);
    EXPECT_EQ(to_string(scheme), text);
    EXPECT_TRUE(is_block_sparse(scheme));
    EXPECT_TRUE(has_learned_book(scheme));
  }
  for (const std::string text : kFixed) {
    EXPECT_EQ(to_string(parse_scheme(text)), text);
  }
}

TEST(BlockSparseBooks, ComeWithNothingElse) {
  const auto refused = [](const std::string& text, const std::string& words) {
    try {
      (void)parse_scheme(text);
    } catch (const core::Error& error) {
      return std::string(error.what()).find(words) != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refused("lut4-iq4-g32-bsr", "no IQ4 codes"));
  EXPECT_TRUE(refused("lut4-row-g16-s7-bsr", "scales of 16 bits"));
  EXPECT_TRUE(refused("lut4-row-g16-bsr-t16", "groups of its own"));
  EXPECT_TRUE(refused("lut4-row-g128-bsr", "groups of 8, 16, 32 or 64"));
  EXPECT_TRUE(refused("lut4-row-row-bsr", "groups of 8, 16, 32 or 64"));
  EXPECT_TRUE(refused("mxfp4-bsr", "(int4-asym-g16-bsr"));
  EXPECT_TRUE(refused("lut4-row-g16-bsr-h16", "neither turned nor reordered"));
  EXPECT_TRUE(refused("lut4-row-g16-bsr-a8-asym", "symmetric integers"));
}

TEST(BlockSparseBooks, HoldWhatTheirGroupsHold) {
  for (const std::string text : kLearned) {
    const Scheme scheme = parse_scheme(text);
    const std::int64_t group = scheme.scale.group;
    for (const std::int64_t groups : {1, 6, 300}) {  // 300: indices of two bytes
      const PackedWeight full = learned_rows(full_scheme(scheme), 5, groups);
      const PackedWeight sparse = learned_rows(scheme, 5, groups);
      std::vector<float> scales(static_cast<std::size_t>(groups));
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(groups * group));
      std::vector<std::uint8_t> expected_codes(codes.size());
      for (std::int64_t row = 0; row < 5; ++row) {
        EXPECT_EQ(decoded(sparse, row), decoded(full, row)) << text << " row " << row;
        EXPECT_EQ(book_of(sparse, row), book_of(full, row));
        const auto [begin, end] = stored_groups_of(sparse, row);
        EXPECT_TRUE(row != 1 || begin == end) << "an empty row";
        EXPECT_TRUE(row != 2 || end - begin == groups) << "a row with all groups";
        unpack_scales(sparse, row, scales);
        unpack_codes(sparse, row, codes);
        unpack_codes(full, row, expected_codes);
        EXPECT_EQ(std::count(scales.begin(), scales.end(), 0.0f), groups - (end - begin));
        for (std::int64_t at = begin; at < end; ++at) {
          const std::int64_t first = stored_group(sparse, at) * group;
          EXPECT_TRUE(std::equal(codes.begin() + first, codes.begin() + first + group,
                                 expected_codes.begin() + first));
        }
      }
      const std::int64_t kept = stored_group_count(sparse);
      const std::int64_t books = scheme.code.book == Book::kPerRow ? 5 : 1;
      EXPECT_EQ(stored_bytes(sparse),
                kept * (group * scheme.code.bits / 8 + 2 + sparse.groups.dim(1)) + 6 * 4 +
                    books * 2 * book_size(scheme) + (scheme.activation.stored_scale ? 4 : 0));
      EXPECT_LE(stored_bytes(sparse), stored_bytes(scheme, 5, groups * group));
    }
  }
}

// A group goes where its codes stand for 0, too, and a row keeps none of a book without a 0 else.
TEST(BlockSparseBooks, LeaveOutWhatStandsForZero) {
  const Scheme scheme = parse_scheme("lut2-matrix-g8-bsr");
  PackedWeightBuilder builder(scheme, 1, 32);
  builder.set_book(0, std::vector<float>{-1, 0, 0.5f, 0});
  std::vector<std::uint8_t> codes(32, 1);
  std::fill(codes.begin() + 8, codes.begin() + 16, std::uint8_t{2});  // scale 0
  codes[17] = 3;
  codes[31] = 2;
  builder.set_codes(0, codes);
  for (const std::int64_t g : {0, 2, 3}) {
    builder.set_group(0, g, {1.0f, 0});
  }
  const PackedWeight weight = builder.finish();
  ASSERT_EQ(stored_group_count(weight), 1);
  EXPECT_EQ(stored_group(weight, 0), 3);
  std::vector<float> expected(32, 0.0f);
  expected[31] = 0.5f;
  EXPECT_EQ(decoded(weight, 0), expected);
  EXPECT_FALSE(std::signbit(decoded(weight, 0)[0]));
}

TEST(BlockSparseBooks, OfFixedValuesAreRoundedToAsOthersAre) {
  for (const std::string text : kFixed) {
    const Scheme scheme = parse_scheme(text);
    const std::int64_t k = 6 * scheme.scale.group;
    const std::vector<float> w = sparse_values(5, k, scheme.scale.group, 0.6);
    const PackedWeight full = round_to_nearest(w, 5, k, full_scheme(scheme));
    const PackedWeight sparse = round_to_nearest(w, 5, k, scheme);
    EXPECT_TRUE(sparse.book.empty());
    for (std::int64_t row = 0; row < 5; ++row) {
      EXPECT_EQ(decoded(sparse, row), decoded(full, row)) << text << " row " << row;
    }
    const auto [begin, end] = stored_groups_of(sparse, 1);
    EXPECT_EQ(begin, end) << "an empty row";
  }
}

TEST(BlockSparseBooks, AreDividedByOutputsAndInputs) {
  for (const std::string text : kLearned) {
    for (const std::int64_t groups : {6, 300}) {
      SCOPED_TRACE(text + " of " + std::to_string(groups));
      expect_parts_hold_the_whole(learned_rows(text, 5, groups));
    }
  }
}

TEST(DamagedBlockSparseBooks, AreRefused) {
  const auto damaged = [](const Damage& damage, std::int64_t groups) {
    return refusal_of(learned_rows("lut4-row-g16-bsr", 4, groups), damage);
  };
  expect_wrong_indices_are_refused(damaged, "codes");
}

TEST(DamagedBlockSparseBooks, AreRefusedForOtherBooks) {
  const auto refusal = [](const char* scheme, const Damage& damage) {
    return refusal_of(learned_rows(scheme, 4, 6), damage);
  };
  for (const char* const scheme : {"lut4-row-g16-bsr", "lut4-matrix-g16-bsr", "lut3-row-g16-bsr"}) {
    EXPECT_EQ(refusal(scheme, [](PackedWeight&) {}), "");
    EXPECT_TRUE(names(refusal(scheme, [](PackedWeight& w) { w.book = Tensor(); }), "book"));
    for (const auto& [rows, columns] : {std::pair{0, 1}, {0, -1}, {1, 0}, {3, 0}, {-1, 0}}) {
      EXPECT_TRUE(names(
          refusal(scheme,
                  [&](PackedWeight& w) {
                    const std::int64_t books = w.book.dim(0) + rows;
                    w.book = Tensor::zeros(core::DType::kF16, {books, w.book.dim(1) + columns});
                  }),
          "book"))
          << scheme << rows << columns;
    }
    EXPECT_TRUE(names(
        refusal(scheme,
                [](PackedWeight& w) { w.book = Tensor::zeros(core::DType::kU8, w.book.shape()); }),
        "book"));
    EXPECT_TRUE(names(
        refusal(scheme,
                [](PackedWeight& w) { w.book.mutable_data<core::Fp16>()[3] = core::Fp16{0x7c00}; }),
        "book: row 0, entry 3"));
    EXPECT_TRUE(names(refusal(scheme,
                              [](PackedWeight& w) {
                                w.scales.mutable_data<core::Fp16>()[3] = core::Fp16{0x7e00};
                              }),
                      "scales"));
    EXPECT_TRUE(names(refusal(scheme,
                              [](PackedWeight& w) {
                                w.zeros = Tensor::zeros(core::DType::kU8, {1, w.codes.dim(0) / 2});
                              }),
                      "zeros"));
  }
  EXPECT_TRUE(names(refusal_of(round_to_nearest(sparse_values(4, 96, 16, 0.5), 4, 96,
                                                parse_scheme("int4-asym-g16-bsr")),
                               [](PackedWeight& w) {
                                 w.book = Tensor::zeros(core::DType::kF16, {4, 16});
                               }),
                    "book"));
}

}  // namespace
}  // namespace nibble::formats
