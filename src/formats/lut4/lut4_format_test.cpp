#include "formats/lut4/lut4_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/codebooks.h"

namespace nibble::formats {
namespace {

std::unique_ptr<const Format> format_of(const std::string& scheme,
                                        std::span<const float> book = {}) {
  return make_format(parse_scheme(scheme), book);
}

// The definition, without ranks or midpoints: least distance, then smaller value, then lower code.
std::uint8_t nearest_by_search(float weight, float scale, std::span<const float> book) {
  const double value = static_cast<double>(weight) / scale;
  std::size_t best = 0;
  for (std::size_t i = 1; i < book.size(); ++i) {
    const double distance = std::abs(value - book[i]);
    const double least = std::abs(value - book[best]);
    if (distance < least || (distance == least && book[i] < book[best])) {
      best = i;
    }
  }
  return static_cast<std::uint8_t>(best);
}

// Midpoints of neighbouring values in ascending order, each as (below, above, midpoint).
struct Neighbours {
  float below;
  float above;
  double midpoint() const { return (static_cast<double>(below) + above) / 2; }
};
std::vector<Neighbours> neighbours_in(std::span<const float> book) {
  std::vector<float> values(book.begin(), book.end());
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  std::vector<Neighbours> result;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    result.push_back({values[i], values[i + 1]});
  }
  return result;
}

TEST(Lut4, EachMidpointIsDecidedToTheLastBit) {
  for (const std::string scheme : {"lut4-nf4-g64", "lut4-fp4-g64", "lut4-af4-g32", "lut4-af4-g64",
                                   "lut4-af4-g128", "lut4-af4-g256"}) {
    const auto format = format_of(scheme);
    const Scheme parsed = parse_scheme(scheme);
    const GroupParameters one{1.0f, 0};
    for (const Neighbours& pair : neighbours_in(fixed_book(parsed.code.book, parsed.scale.group))) {
      const double midpoint = pair.midpoint();
      const auto at = static_cast<float>(midpoint);
      for (const float weight : {std::nextafter(at, -9.0f), at, std::nextafter(at, 9.0f)}) {
        const float expected = weight > midpoint ? pair.above : pair.below;  // a tie goes down
        EXPECT_EQ(format->decode(format->encode(weight, one), one), expected)
            << scheme << " " << weight;
      }
    }
  }
}

// Midpoints and pivots as bitsandbytes lists them; strictly above goes up.
TEST(Lut4, Nf4PivotsAreThePublishedOnes) {
  constexpr std::array<double, 15> kPivots = {
      -0.8480964004993439,  -0.6106329262256622,  -0.4599952697753906,   -0.33967943489551544,
      -0.23460740596055984, -0.13791173323988914, -0.045525018125772476, 0.03979014977812767,
      0.1202552504837513,   0.2035212516784668,   0.2920137718319893,    0.3893125355243683,
      0.5016634166240692,   0.6427869200706482,   0.8614784181118011};
  const auto format = format_of("lut4-nf4-g64");
  for (std::size_t i = 0; i < kPivots.size(); ++i) {
    const auto pivot = static_cast<float>(kPivots[i]);
    EXPECT_EQ(format->encode(pivot - 1e-6f, {1.0f, 0}), i);
    EXPECT_EQ(format->encode(pivot + 1e-6f, {1.0f, 0}), i + 1);
  }
}

TEST(Lut4, AgreesWithASearchOverAnyBook) {
  core::Random random(3);
  std::array<float, 16> book;
  for (int trial = 0; trial < 200; ++trial) {
    for (float& value : book) {  // unsorted, with equal entries
      value = static_cast<float>(random.below(20)) / 8.0f - 1.0f;
    }
    book[0] = 1.5f;
    const auto format = format_of("lut4-row-g32", book);
    for (int i = 0; i < 200; ++i) {
      const float weight =
          i % 2 == 0 ? random.normal() : static_cast<float>(random.below(64)) / 16 - 2;
      const float scale = i % 3 == 0 ? 1.0f : 0.75f;
      const std::uint8_t code = format->encode(weight, {scale, 0});
      EXPECT_EQ(code, nearest_by_search(weight, scale, book)) << weight << " " << scale;
    }
  }
}

TEST(Lut4, AgreesWithASearchOverBooksOfEightAndFour) {
  core::Random random(8);
  for (const std::size_t size : {std::size_t{8}, std::size_t{4}}) {
    const std::string scheme = size == 8 ? "lut3-row-g32" : "lut2-row-g32";
    for (int trial = 0; trial < 100; ++trial) {
      std::vector<float> book(size);
      for (float& value : book) {
        value = static_cast<float>(random.below(12)) / 4.0f - 1.5f;
      }
      book[0] = 2.0f;
      const auto format = format_of(scheme, book);
      std::vector<float> weights(96);
      for (float& weight : weights) {
        weight = 2 * random.normal();
      }
      std::vector<std::uint8_t> codes(weights.size());
      format->encode_group(weights, {0.75f, 0}, codes);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        EXPECT_EQ(codes[i], nearest_by_search(weights[i], 0.75f, book)) << weights[i];
      }
    }
    EXPECT_THROW((void)format_of(scheme, kNf4), core::Error);
  }
}

TEST(Lut4, ScaleIsAbsmaxOverTheLargestBookValueInFp16) {
  const std::vector<float> group = {0.5f, -3.0f, 2.0f, 0.0f};
  EXPECT_EQ(format_of("lut4-nf4-g4")->fit(group).scale, 3.0f);
  EXPECT_EQ(format_of("lut4-fp4-g4")->fit(group).scale, 0.5f);
  EXPECT_EQ(format_of("lut4-af4-g64")->fit(group).scale, 3.0f);
  const std::vector<float> third = {1.0f / 3.0f};
  EXPECT_EQ(format_of("lut4-nf4-g4")->fit(third).scale, 0.333251953125f);
}

TEST(Lut4, ScalesNeverVanishOrOverflow) {
  const auto format = format_of("lut4-nf4-g4");
  EXPECT_EQ(format->fit(std::vector<float>{1e-30f, 0}).scale, 0x1p-24f);
  EXPECT_EQ(format->fit(std::vector<float>{-1e30f, 0}).scale, 65504.0f);
  const std::vector<float> zeros(8, 0.0f);
  const GroupParameters parameters = format->fit(zeros);
  EXPECT_GT(parameters.scale, 0);
  EXPECT_EQ(format->decode(format->encode(0.0f, parameters), parameters), 0.0f);
  EXPECT_EQ(format->decode(format->encode(-0.0f, parameters), parameters), 0.0f);
}

TEST(Lut4, RefusesWhatIsNotFinite) {
  const auto format = format_of("lut4-nf4-g4");
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), infinity, -infinity}) {
    try {
      (void)format->fit(std::vector<float>{0, 1, bad});
      FAIL();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
      EXPECT_NE(std::string(error.what()).find("weight 2"), std::string::npos) << error.what();
    }
  }
}

TEST(Lut4, BooksAreCheckedAndOnlyTakenWhereTheyAreLearned) {
  std::array<float, 16> book{};
  const auto refused = [](const std::string& scheme, std::span<const float> values) {
    try {
      (void)format_of(scheme, values);
    } catch (const core::Error& error) {
      return error.kind() == core::ErrorKind::kUsage;
    }
    return false;
  };
  EXPECT_TRUE(refused("lut4-matrix-g32", book));  // all zero
  book[3] = 1.0f;
  EXPECT_FALSE(refused("lut4-matrix-g32", book));
  EXPECT_TRUE(refused("lut4-matrix-g32", {}));
  EXPECT_TRUE(refused("lut4-matrix-g32", std::span(book).first(15)));
  EXPECT_TRUE(refused("lut4-nf4-g32", book));
  EXPECT_TRUE(refused("int4-sym-g32", book));
  EXPECT_TRUE(refused("f16", {}));
  book[5] = std::nanf("");
  EXPECT_TRUE(refused("lut4-row-g32", book));
}

// IQ4's values reach -127 and 113: the largest weight of a group becomes -127, whatever its sign.
TEST(Lut4, TheSideOfABookThatReachesFurtherIsUsed) {
  const auto format = format_of("lut4-iq4-g32");
  for (const float sign : {1.0f, -1.0f}) {
    const std::vector<float> group = {0.1f * sign, -0.5f * sign, 1.27f * sign, 0.9f * sign};
    const GroupParameters parameters = format->fit(group);
    EXPECT_EQ(parameters.scale, -sign * core::to_float(core::to_fp16(0.01f)));
    std::vector<std::uint8_t> codes(group.size());
    format->encode_group(group, parameters, codes);
    EXPECT_EQ(codes, (std::vector<std::uint8_t>{7, 12, 0, 2}));  // -10, 53, -127, -83
  }
  EXPECT_GT(format_of("lut4-nf4-g32")->fit(std::vector<float>{1.0f, 0.5f}).scale, 0);
}

// Groups are encoded with limits in units of the weights, single weights by division.
TEST(Lut4Format, GroupsEncodeAsTheirWeightsDo) {
  const std::vector<float> uneven = {-1.0f, -0.731f, -0.5f,   -0.4f, -0.3f, -0.2f, -0.1f, 0.0f,
                                     0.1f,  0.2f,    0.3001f, 0.4f,  0.5f,  0.6f,  0.75f, 1.3f};
  for (const bool learned : {false, true}) {
    const auto format = learned ? make_format(parse_scheme("lut4-row-g64"), uneven)
                                : make_format(parse_scheme("lut4-nf4-g64"));
    const std::span<const float> book = learned ? std::span<const float>(uneven) : kNf4;
    for (const float scale :
         {1.0f, -1.0f, 0.000732421875f, -0.0999755859375f, 0x1p-24f, 65504.0f}) {
      std::vector<float> weights = {0.0f, -0.0f, 3 * scale, -3 * scale};
      for (std::size_t i = 0; i + 1 < book.size(); ++i) {
        const float tie =
            static_cast<float>((static_cast<double>(book[i]) + book[i + 1]) / 2 * scale);
        weights.insert(weights.end(),
                       {tie, std::nextafter(tie, -1e30f), std::nextafter(tie, 1e30f)});
      }
      const GroupParameters parameters{scale, 0};
      std::vector<std::uint8_t> codes(weights.size());
      format->encode_group(weights, parameters, codes);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        EXPECT_EQ(codes[i], format->encode(weights[i], parameters)) << weights[i] << " " << scale;
      }
    }
  }
}

}  // namespace
}  // namespace nibble::formats
