#include "formats/two_of_four.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/block_sparse.h"
#include "formats/column_slice.h"
#include "formats/cut_weights_for_tests.h"
#include "formats/format.h"
#include "formats/row_slice.h"
#include "formats/sparse_rows_for_tests.h"

namespace nibble::formats {
namespace {

using core::Tensor;

constexpr const char* kSchemes[] = {"int4-sym-g128-2of4",
                                    "int4-asym-g128-2of4",
                                    "int4-asym-g32-2of4",
                                    "int4-sym-row-2of4",
                                    "int8-sym-row-2of4",
                                    "int8-asym-g64-2of4",
                                    "int8-sym-row-2of4-a8",
                                    "int4-sym-g96-2of4-a8g32",
                                    "f16-2of4",
                                    "int8-sym-row-2of4-a8s",
                                    "bf16-2of4"};

// Weights of which at most two of four are not 0: in turn each number of them at each place.
std::vector<float> pruned_values(std::int64_t n, std::int64_t k) {
  core::Random random(17);
  std::vector<float> w(static_cast<std::size_t>(n * k));
  for (std::int64_t at = 0; at < n * k; at += kFour) {
    const auto first = static_cast<std::int64_t>(random.below(4));
    const auto second = static_cast<std::int64_t>(random.below(4));
    if (at / kFour % 7 != 0) {  // else all are 0
      w[static_cast<std::size_t>(at + first)] = random.normal();
      w[static_cast<std::size_t>(at + second)] = random.normal();
    }
  }
  return w;
}

PackedWeight weight_of(const std::string& scheme, std::int64_t n = 5, std::int64_t k = 264) {
  return round_to_nearest(pruned_values(n, k), n, k, parse_scheme(scheme));
}

TEST(TwoOfFour, HoldsWhatTheFullWeightHolds) {
  for (const std::string text : kSchemes) {
    const Scheme scheme = parse_scheme(text);
    for (const std::int64_t k : {4, 36, 260, 1088, 2052}) {
      SCOPED_TRACE(text + " of " + std::to_string(k));
      const std::vector<float> w = pruned_values(3, k);
      const PackedWeight full = round_to_nearest(w, 3, k, full_scheme(scheme));
      const PackedWeight sparse = round_to_nearest(w, 3, k, scheme);
      EXPECT_EQ(sparse.scheme, scheme);
      for (std::int64_t row = 0; row < 3; ++row) {
        EXPECT_EQ(decoded(sparse, row), decoded(full, row));
        if (!has_codes(scheme)) {
          continue;
        }
        const auto groups = static_cast<std::size_t>(groups_per_row(scheme, k));
        std::vector<std::uint8_t> codes[2], zeros[2];
        std::vector<float> scales[2], unscaled[2];
        for (const int i : {0, 1}) {
          const PackedWeight& weight = i == 0 ? full : sparse;
          codes[i].resize(static_cast<std::size_t>(k));
          unscaled[i].resize(codes[i].size());
          zeros[i].resize(groups);
          scales[i].resize(groups);
          unpack_codes(weight, row, codes[i]);
          decode_unscaled(weight, row, unscaled[i]);
          unpack_zeros(weight, row, zeros[i]);
          unpack_scales(weight, row, scales[i]);
        }
        EXPECT_EQ(codes[1], codes[0]);
        EXPECT_EQ(unscaled[1], unscaled[0]);
        EXPECT_EQ(zeros[1], zeros[0]);
        EXPECT_EQ(scales[1], scales[0]);
      }
      EXPECT_EQ(parts(to_two_of_four(full)).size(), parts(sparse).size());
    }
  }
}

TEST(TwoOfFour, StoresHalfOfTheWeightsAndFourBitsForEachFour) {
  for (const auto& [scheme, bits] :
       {std::pair("int4-sym-g128-2of4", 3.125), std::pair("int4-asym-g128-2of4", 3.15625),
        std::pair("int8-sym-g128-2of4", 5.125), std::pair("f16-2of4", 9.0)}) {
    const PackedWeight weight = weight_of(scheme, 4, 1024);
    EXPECT_DOUBLE_EQ(bits_per_weight(weight), bits) << scheme;
  }
}

TEST(TwoOfFour, StoresTheFirstZerosBesideFewerWeights) {
  const std::vector<float> w = {0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1};
  for (const char* scheme : {"f16-2of4", "int4-sym-row-2of4"}) {
    const PackedWeight weight = round_to_nearest(w, 1, 20, parse_scheme(scheme));
    std::string stored;
    for (std::int64_t four = 0; four < 5; ++four) {
      const KeptPair kept = kept_pair(weight, 0, four);
      stored += std::to_string(kept.first) + std::to_string(kept.second) + " ";
    }
    EXPECT_EQ(stored, "01 03 01 23 03 ");
  }
}

TEST(TwoOfFour, RefusesMoreThanTwoOfFour) {
  for (const char* scheme : {"f16-2of4", "int4-asym-g32-2of4"}) {
    std::vector<float> w = pruned_values(3, 64);
    std::fill_n(w.begin() + 64 + 20, 3, 0.5f);
    try {
      round_to_nearest(w, 3, 64, parse_scheme(scheme));
      ADD_FAILURE() << scheme;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
      EXPECT_NE(std::string(error.what()).find("3 of the four weights from input 20 of row 1"),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_THROW(weight_of("int4-sym-row-2of4", 2, 66), core::Error) << "no whole fours";
  EXPECT_THROW(to_two_of_four(round_to_nearest(std::vector<float>(8), 2, 4, parse_scheme("f32"))),
               core::Error);
}

TEST(TwoOfFour, TakesSchemesThatAreStoredSo) {
  for (const std::string text : kSchemes) {
    EXPECT_EQ(to_string(parse_scheme(text)), text);
  }
  for (const char* text : {"f32-2of4",
                           "int3-sym-g32-2of4",
                           "int2-asym-g32-2of4",
                           "int4-sym-g16-2of4",
                           "int4-sym-g48-2of4",
                           "int8-sym-tensor-2of4",
                           "int4-min-g32-2of4",
                           "int4-asym-g32-s7-2of4",
                           "lut4-nf4-g64-2of4",
                           "mxfp4-2of4",
                           "fp8-row-2of4",
                           "int4-asym-g32-2of4-h32",
                           "int4-sym-g128-2of4-order",
                           "int4-sym-g128-2of4-a4g128-tail128",
                           "int8-sym-row-2of4-a8o",
                           "int4-sym-g128-2of4-a4-asym",
                           "int4-sym-g128-2of4-a8g16",
                           "int4-asym-g32-bsr-2of4",
                           "f16-2of4-a8",
                           "int4-sym-g128-a8-2of4"}) {
    EXPECT_THROW(parse_scheme(text), core::Error) << text;
  }
}

TEST(TwoOfFour, IsCutAsTheFullWeightIs) {
  for (const std::string text : kSchemes) {
    SCOPED_TRACE(text);
    const Scheme scheme = parse_scheme(text);
    const std::int64_t step = std::max<std::int64_t>(column_cuts(scheme, 768).step, 4);
    const PackedWeight weight = weight_of(text, 6, 772);
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>(0, step),
                                     std::pair<std::int64_t, std::int64_t>(step, 772)}) {
      const PackedWeight slice = columns_of(weight, begin, end);
      validate(slice, "slice");
      for (std::int64_t row = 0; row < 6; ++row) {
        const std::vector<float> whole = decoded(weight, row);
        EXPECT_EQ(decoded(slice, row),
                  std::vector<float>(whole.begin() + begin, whole.begin() + end));
      }
    }
    const PackedWeight rows = own_rows_of(weight, 2, 5);
    validate(rows, "rows");
    for (std::int64_t row = 0; row < 3; ++row) {
      EXPECT_EQ(decoded(rows, row), decoded(weight, row + 2));
    }
  }
}

// The message of the refusal of a damaged weight; empty when it is accepted.
std::string refusal(const std::string& scheme, const std::function<void(PackedWeight&)>& damage) {
  return refusal_of(weight_of(scheme, 4, 68), damage);
}

void set_pair(PackedWeight& weight, std::size_t four, int first, int second) {
  std::uint8_t& byte = weight.indices.mutable_data<std::uint8_t>()[four / 2];
  const int bits = first | second << 2;
  byte = static_cast<std::uint8_t>(four % 2 == 0 ? (byte & 0xf0) | bits : (byte & 15) | bits << 4);
}

TEST(DamagedTwoOfFour, IsRefused) {
  for (const char* scheme : {"int4-asym-g32-2of4", "int8-sym-row-2of4-a8", "f16-2of4"}) {
    EXPECT_EQ(refusal(scheme, [](PackedWeight&) {}), "");
    const auto named = [&](const std::string& words,
                           const std::function<void(PackedWeight&)>& damage) {
      EXPECT_NE(refusal(scheme, damage).find("model.layers.0.q_proj." + words), std::string::npos)
          << scheme << ": " << refusal(scheme, damage);
    };
    const std::string first_row = "indices: row 0 stores inputs ";
    named(first_row + "0 and 0 of the four from input 0", [](auto& w) { set_pair(w, 0, 0, 0); });
    named(first_row + "3 and 3 of the four from input 4", [](auto& w) { set_pair(w, 1, 3, 3); });
    named(first_row + "2 and 1 of the four from input 64", [](auto& w) { set_pair(w, 16, 2, 1); });
    named("indices: row 3 stores inputs 1 and 0 of the four from input 8",
          [](auto& w) { set_pair(w, std::size_t{3 * 9 * 2 + 2}, 1, 0); });
    named("indices: row 0 has bits set after its last code",
          [](auto& w) { w.indices.template mutable_data<std::uint8_t>()[8] |= 0x40; });
    named("indices: missing", [](auto& w) { w.indices = Tensor(); });
    named("indices: U8 [4, 8]", [](auto& w) {
      w.indices = Tensor::zeros(core::DType::kU8, {4, 8});
    });
    named("groups: the scheme", [](auto& w) {
      w.groups = Tensor::zeros(core::DType::kU8, {4, 1});
    });
  }
  EXPECT_NE(refusal("f16-2of4",
                    [](PackedWeight& w) {
                      w.values = Tensor::zeros(core::DType::kF16, {4, 68});
                    }),
            "");
  EXPECT_NE(refusal("f16-2of4",
                    [](PackedWeight& w) {
                      w.dense = Tensor::zeros(core::DType::kF16, {4, 68});
                    }),
            "");
  EXPECT_NE(refusal("int4-asym-g32-2of4",
                    [](PackedWeight& w) {
                      w.codes = Tensor::zeros(core::DType::kU8, {4, 34});
                    }),
            "");
}

}  // namespace
}  // namespace nibble::formats
