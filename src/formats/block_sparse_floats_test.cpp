// Block-sparse rows of float16 (f16-g16-bsr).

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/block_sparse.h"
#include "formats/column_slice.h"
#include "formats/cut_weights_for_tests.h"
#include "formats/format.h"
#include "formats/row_slice.h"
#include "formats/sparse_rows_for_tests.h"
#include "formats/stored_parts.h"

namespace nibble::formats {
namespace {

using core::Tensor;

constexpr const char* kSchemes[] = {"f16-g8-bsr", "f16-g16-bsr", "f16-g32-bsr", "f16-g64-bsr"};

// The reason why there is no such scheme.
std::string problem(const std::string& text) {
  try {
    (void)parse_scheme(text);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
    return error.what();
  }
  return "";
}

TEST(BlockSparseFloats, AreAScheme) {
  for (const std::string text : kSchemes) {
    const Scheme scheme = parse_scheme(text);
    EXPECT_EQ(to_string(scheme), text);
    EXPECT_TRUE(is_block_sparse(scheme));
    EXPECT_FALSE(is_dense(scheme));
    EXPECT_FALSE(has_codes(scheme));
    EXPECT_EQ(full_scheme(scheme), parse_scheme("f16"));
    EXPECT_EQ(groups_per_row(scheme, 3 * scheme.scale.group), 3);
  }
  EXPECT_EQ(groups_per_row(parse_scheme("f16"), 64), 0);
}

TEST(BlockSparseFloats, ComeWithNothingElse) {
  const auto refused = [](const std::string& text, const std::string& words) {
    const std::string message = problem(text);
    return message.find("'" + text + "'") != std::string::npos &&
           message.find(words) != std::string::npos;
  };
  EXPECT_TRUE(refused("f16-bsr", "(f16-g16-bsr)"));
  EXPECT_TRUE(refused("f16-g16", "(f16-g16-bsr)"));
  EXPECT_TRUE(refused("f16-g0-bsr", "")) << problem("f16-g0-bsr");
  EXPECT_TRUE(refused("f16-g128-bsr", "groups of 8, 16, 32 or 64 inputs"));
  EXPECT_TRUE(refused("bf16-g16-bsr", "are float16"));
  EXPECT_TRUE(refused("f32-g16-bsr", "are float16"));
  EXPECT_TRUE(refused("f16-g16-bsr-t16", "groups of its own"));
  EXPECT_TRUE(refused("f16-g16-bsr-a8", "activations that are floats"));
  EXPECT_TRUE(refused("f16-g16-bsr-a8s", "activations that are floats"));
  EXPECT_TRUE(refused("f16-g16-bsr-h16", "neither turned nor reordered"));
  EXPECT_TRUE(refused("f16-g16-bsr-order", "neither turned nor reordered"));
  EXPECT_TRUE(refused("f16-g16-bsr-s8", "f16-g16-bsr"));
  EXPECT_TRUE(refused("f16-bsr-g16", "is not a scheme"));
  EXPECT_TRUE(refused("f16-row-bsr", "is not a scheme"));
  EXPECT_TRUE(refused("f16-g16-2of4", ""));
}

TEST(BlockSparseFloats, HoldWhatTheirGroupsHold) {
  for (const std::string text : kSchemes) {
    const Scheme scheme = parse_scheme(text);
    const std::int64_t group = scheme.scale.group;
    for (const std::int64_t groups : {1, 6, 300}) {  // 300: indices of two bytes
      const std::int64_t k = groups * group;
      const std::vector<float> w = sparse_values(5, k, group, 0.6);
      const PackedWeight full = round_to_nearest(w, 5, k, parse_scheme("f16"));
      const PackedWeight sparse = round_to_nearest(w, 5, k, scheme);
      EXPECT_EQ(sparse.scheme, scheme);
      EXPECT_EQ(sparse.groups.dim(1), groups > 256 ? 2 : 1);
      for (std::int64_t row = 0; row < 5; ++row) {
        const auto [begin, end] = stored_groups_of(sparse, row);
        EXPECT_TRUE(row != 1 || begin == end) << "an empty row";
        EXPECT_TRUE(row != 2 || end - begin == groups) << "a row with all groups";
        EXPECT_EQ(decoded(sparse, row), decoded(full, row)) << text << " row " << row;
        EXPECT_EQ(decoded(full_row(sparse, row), 0), decoded(full, row));
      }
      const std::int64_t kept = stored_group_count(sparse);
      EXPECT_EQ(stored_bytes(sparse), kept * (2 * group + sparse.groups.dim(1)) + 6 * 4);
      EXPECT_LE(stored_bytes(sparse), stored_bytes(scheme, 5, k));
      EXPECT_EQ(stored_bytes(scheme, 5, k),
                5 * groups * (2 * group + sparse.groups.dim(1)) + 6 * 4);
    }
  }
}

// Two rows of three groups of 8; the second group of the first row and all of the second go.
TEST(BlockSparseFloats, LieInMemoryAsTheDrawingSays) {
  std::vector<float> w(48, 0.0f);
  for (std::size_t i = 0; i < 8; ++i) {
    w[i] = static_cast<float>(i) - 7.0f;
    w[16 + i] = static_cast<float>(i) + 0.5f;
  }
  w[8] = -0.0f;  // is 0 too
  const PackedWeight weight = round_to_nearest(w, 2, 24, parse_scheme("f16-g8-bsr"));
  const auto ends = weight.row_index.data<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(ends.begin(), ends.end()),
            (std::vector<std::int32_t>{0, 2, 2}));
  const auto groups = weight.groups.data<std::uint8_t>();
  EXPECT_EQ(std::vector<std::uint8_t>(groups.begin(), groups.end()),
            (std::vector<std::uint8_t>{0, 2}));
  EXPECT_EQ(weight.values.shape(), (core::Shape{2, 8}));
  const auto values = weight.values.data<core::Fp16>();
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(core::to_float(values[i]), w[i]);
    EXPECT_EQ(core::to_float(values[8 + i]), w[16 + i]);
  }
  EXPECT_EQ(stored_bytes(weight), 3 * 4 + 2 + 2 * 16);
  EXPECT_EQ(parts(weight).size(), 3u);
}

TEST(BlockSparseFloats, KeepOneGroupOfAMatrixOfZeros) {
  const std::vector<float> w(64, 0.0f);
  const PackedWeight weight = round_to_nearest(w, 2, 32, parse_scheme("f16-g16-bsr"));
  EXPECT_EQ(stored_group_count(weight), 1);
  EXPECT_EQ(decoded(weight, 0), std::vector<float>(32, 0.0f));
}

TEST(BlockSparseFloats, NeedWholeGroupsAndNumbersThatFit) {
  const Scheme scheme = parse_scheme("f16-g16-bsr");
  EXPECT_THROW(require_shape(scheme, 4, 40), core::Error);
  EXPECT_THROW(require_shape(scheme, 4, 16 * 65537), core::Error) << "an index of three bytes";
  require_shape(scheme, 4, 16 * 65536);
  EXPECT_THROW((void)round_to_nearest(std::vector<float>(40, 1.0f), 1, 40, scheme), core::Error);
  EXPECT_THROW((void)round_to_nearest(std::vector<float>(32, 70000.0f), 1, 32, scheme),
               core::Error);
  EXPECT_THROW((void)round_to_nearest(std::vector<float>(32, std::nanf("")), 1, 32, scheme),
               core::Error);
}

TEST(BlockSparseFloats, HaveNoCodes) {
  const PackedWeight weight =
      round_to_nearest(sparse_values(4, 96, 16, 0.5), 4, 96, parse_scheme("f16-g16-bsr"));
  std::vector<std::uint8_t> codes(96);
  std::vector<float> scales(6);
  EXPECT_THROW(unpack_codes(weight, 0, codes), core::Error);
  EXPECT_THROW(unpack_scales(weight, 0, scales), core::Error);
  EXPECT_THROW((void)make_format(weight.scheme), core::Error);
  EXPECT_THROW(PackedWeightBuilder(weight.scheme, 4, 96), core::Error);
}

TEST(BlockSparseFloats, AreDividedByOutputsAndInputs) {
  for (const std::string text : kSchemes) {
    const Scheme scheme = parse_scheme(text);
    const std::int64_t group = scheme.scale.group;
    EXPECT_EQ(column_cuts(scheme, 6 * group).step, group);
    for (const std::int64_t groups : {6, 300}) {
      const std::int64_t k = groups * group;
      SCOPED_TRACE(text + " of " + std::to_string(groups));
      const PackedWeight weight = round_to_nearest(sparse_values(5, k, group, 0.5), 5, k, scheme);
      expect_parts_hold_the_whole(weight);
      EXPECT_THROW((void)columns_of(weight, 0, group / 2), core::Error);
    }
  }
}

// The message of the refusal of damaged rows, or "".
std::string refusal(const std::function<void(PackedWeight&)>& damage, std::int64_t groups = 6) {
  const std::int64_t k = 16 * groups;
  return refusal_of(
      round_to_nearest(sparse_values(4, k, 16, 0.5), 4, k, parse_scheme("f16-g16-bsr")), damage);
}

TEST(DamagedBlockSparseFloats, AreRefused) {
  expect_wrong_indices_are_refused(refusal, "values");
}

TEST(DamagedBlockSparseFloats, AreRefusedForPartsOfAnotherShape) {
  for (Tensor PackedWeight::*part :
       {&PackedWeight::values, &PackedWeight::groups, &PackedWeight::row_index}) {
    EXPECT_NE(refusal([&](PackedWeight& w) { w.*part = Tensor(); }), "");
    for (const auto& [rows, columns] : {std::pair{0, 1}, {1, 0}}) {
      EXPECT_NE(refusal([&](PackedWeight& w) {
                  const Tensor& old = w.*part;
                  w.*part = Tensor::zeros(old.dtype(), {old.dim(0) + rows, old.dim(1) + columns});
                }),
                "");
    }
  }
  EXPECT_TRUE(names(refusal([](PackedWeight& w) {
                      w.values = Tensor::zeros(core::DType::kBF16, w.values.shape());
                    }),
                    "values"));
  EXPECT_TRUE(names(refusal([](PackedWeight& w) {
                      w.scales = Tensor::zeros(core::DType::kF16, {1, w.values.dim(0)});
                    }),
                    "scales"))
      << "a part that such rows do not have";
  EXPECT_TRUE(names(refusal([](PackedWeight& w) {
                      w.indices = Tensor::zeros(core::DType::kU8, {4, 12});
                    }),
                    "indices"));
  EXPECT_NE(refusal([](PackedWeight& w) { w.k -= 8; }), "");
  EXPECT_NE(refusal([](PackedWeight& w) { w.n += 1; }), "");
}

}  // namespace
}  // namespace nibble::formats
