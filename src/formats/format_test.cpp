#include "formats/format.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace nibble::formats {
namespace {

constexpr const char* kSchemes[] = {"int2-sym-g32", "int3-asym-g32", "int8-sym-row", "lut4-nf4-g64",
                                    "lut4-fp4-g32", "mxfp4",         "nvfp4"};

TEST(Format, GroupsDecodeAsTheirCodesDo) {
  for (const char* text : kSchemes) {
    const auto format = make_format(parse_scheme(text));
    std::vector<std::uint8_t> codes(std::size_t{1} << format->scheme().code.bits);
    std::iota(codes.begin(), codes.end(), std::uint8_t{0});
    const GroupParameters parameters{0.125f, 1 << (format->scheme().code.bits - 1)};
    std::vector<float> values(codes.size());
    format->decode_group(codes, parameters, values);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      EXPECT_EQ(values[i], format->decode(codes[i], parameters)) << text << " code " << i;
    }
  }
}

TEST(Format, StoredScalesAreTheNearestThatTheTypeHolds) {
  for (const char* text : kSchemes) {
    const auto format = make_format(parse_scheme(text));
    for (const double scale : {1.0, 0.75, 0.003, 1000.25, 3e-7}) {
      if (std::string_view(text) == "nvfp4" && (scale < 0x1p-6 || scale > 448)) {
        continue;  // beyond what E4M3 holds with 3 bits of mantissa
      }
      const double stored = format->stored_scale(scale);
      EXPECT_EQ(format->stored_scale(stored), stored) << text << " " << scale;
      const double bound = std::string_view(text) == "mxfp4" ? std::sqrt(2.0) : 1 + 0x1p-3;
      EXPECT_LE(std::abs(std::log(stored / scale)), std::log(bound) + 1e-12)
          << text << " " << scale;
    }
    EXPECT_GT(format->stored_scale(0.0), 0.0f) << text;
    EXPECT_TRUE(std::isfinite(format->stored_scale(1e300))) << text;
  }
  const auto integers = make_format(parse_scheme("int4-sym-g32"));
  EXPECT_EQ(integers->stored_scale(-0.1), -0.0999755859375f);  // fp16 ae66
  const auto mx = make_format(parse_scheme("mxfp4"));
  EXPECT_EQ(mx->stored_scale(1.41), 1.0f);
  EXPECT_EQ(mx->stored_scale(1.42), 2.0f);
}

}  // namespace
}  // namespace nibble::formats
