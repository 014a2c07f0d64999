#include "formats/mx/mx_format.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::formats {
namespace {

std::unique_ptr<const Format> mxfp4() {
  return make_format(parse_scheme("mxfp4"));
}

float scale_for(float extreme) {
  return mxfp4()->fit(std::vector<float>{0.0f, extreme}).scale;
}

TEST(Mx, ThresholdsAreRoundToNearestEven) {
  // Midpoint, the code at it; codes below and above it are the neighbours.
  struct Threshold {
    float midpoint;
    int below;
    int at;
  };
  const auto format = mxfp4();
  for (const auto& [midpoint, below, at] :
       {Threshold{0.25f, 0, 0}, Threshold{0.75f, 1, 2}, Threshold{1.25f, 2, 2},
        Threshold{1.75f, 3, 4}, Threshold{2.5f, 4, 4}, Threshold{3.5f, 5, 6},
        Threshold{5.0f, 6, 6}}) {
    for (const float scale : {1.0f, 0x1p-127f, 0x1p-20f, 0x1p100f}) {
      const GroupParameters parameters{scale, 0};
      const float tie = midpoint * scale;
      EXPECT_EQ(format->encode(tie, parameters), at);
      EXPECT_EQ(format->encode(std::nextafter(tie, 0.0f), parameters), below);
      EXPECT_EQ(format->encode(std::nextafter(tie, 3e38f), parameters), below + 1);
      EXPECT_EQ(format->encode(-tie, parameters), at + 8);
      EXPECT_EQ(format->encode(-std::nextafter(tie, 3e38f), parameters), below + 9);
    }
  }
  EXPECT_EQ(format->encode(1e30f, {1.0f, 0}), 7);  // saturates
  EXPECT_EQ(format->encode(-1e30f, {1.0f, 0}), 15);
  EXPECT_EQ(format->encode(0.0f, {1.0f, 0}), 0);
  EXPECT_EQ(format->encode(-0.0f, {1.0f, 0}), 8);
  EXPECT_LT(format->encode(std::nanf(""), {1.0f, 0}), 16);
}

TEST(Mx, TheExponentRoundsTheLargestMagnitudeToOneMantissaBit) {
  EXPECT_EQ(scale_for(4.0f), 1.0f);
  EXPECT_EQ(scale_for(6.0f), 1.0f);
  EXPECT_EQ(scale_for(std::nextafter(7.0f, 0.0f)), 1.0f);  // saturates to 6
  EXPECT_EQ(scale_for(7.0f), 2.0f);
  EXPECT_EQ(scale_for(-7.0f), 2.0f);
  EXPECT_EQ(scale_for(std::nextafter(4.0f, 0.0f)), 1.0f);
  EXPECT_EQ(scale_for(std::nextafter(3.5f, 0.0f)), 0.5f);
  EXPECT_EQ(scale_for(0.01f), 0x1p-9f);  // 0.01 = 1.28 * 2^-7
}

TEST(Mx, ScalesStayWithinE8m0AndFloat32) {
  EXPECT_EQ(scale_for(0.0f), 0x1p-127f);
  EXPECT_EQ(scale_for(1e-45f), 0x1p-127f);
  EXPECT_EQ(scale_for(std::numeric_limits<float>::min()), 0x1p-127f);
  EXPECT_EQ(scale_for(std::numeric_limits<float>::max()), 0x1p125f);
  const auto format = mxfp4();
  const GroupParameters largest{0x1p125f, 0};
  EXPECT_TRUE(std::isfinite(format->decode(7, largest)));
}

TEST(Mx, RefusesWhatIsNotFinite) {
  try {
    (void)mxfp4()->fit(std::vector<float>{0, 1, 2, std::nanf("")});
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("weight 3"), std::string::npos) << error.what();
  }
}

TEST(Mx, RefusesRowsThat32DoesNotDivideNamingTheShape) {
  const std::vector<float> w(2 * 40, 1.0f);
  try {
    (void)round_to_nearest(w, 2, 40, parse_scheme("mxfp4"));
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("[2, 40]"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace nibble::formats
