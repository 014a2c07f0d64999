#include "compress/search/group_search.h"

#include <cmath>
#include <limits>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "compress/search/plain_search_for_tests.h"

namespace nibble::compress {
namespace {

constexpr const char* kSchemes[] = {"int2-asym-g48", "int2-sym-g48", "int3-asym-g48",
                                    "int4-asym-g48", "int4-sym-g48", "int8-asym-g48",
                                    "int8-sym-g48",  "lut4-nf4-g48", "lut4-af4-g48",
                                    "lut4-fp4-g48",  "mxfp4",        "nvfp4"};

struct Group {
  std::vector<float> weights;
  std::vector<float> importance;
};

Group random_group(std::size_t count, std::uint64_t seed) {
  Group group{core::normal_values(static_cast<std::int64_t>(count), seed),
              core::normal_values(static_cast<std::int64_t>(count), seed + 1000)};
  for (float& h : group.importance) {
    h = std::exp(2 * h);
  }
  return group;
}

TEST(GroupSearch, NeverLosesMoreThanRoundToNearest) {
  for (const char* text : kSchemes) {
    const auto format = formats::make_format(formats::parse_scheme(text));
    double found = 0;
    double plain = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const Group group = random_group(48, seed);
      GroupSearch search(24);
      const GroupFit fit = search.search(*format, group.weights, group.importance);
      const double nearest =
          search.loss(*format, group.weights, group.importance, format->fit(group.weights));
      EXPECT_LE(fit.loss, nearest) << text;
      EXPECT_EQ(fit.loss, search.loss(*format, group.weights, group.importance, fit.parameters));
      found += fit.loss;
      plain += nearest;
    }
    EXPECT_LT(found, (std::string(text) == "mxfp4" ? 0.99 : 0.85) * plain) << text;
  }
}

TEST(GroupSearch, ParametersAreWhatTheTypeStores) {
  for (const char* text : kSchemes) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    const auto format = formats::make_format(scheme);
    const std::int64_t count = scheme.scale.group;
    const Group group = random_group(static_cast<std::size_t>(count), 7);
    const GroupFit fit = GroupSearch(24).search(*format, group.weights, group.importance);
    formats::PackedWeightBuilder builder(scheme, 1, count);
    if (scheme.scale.type == formats::ScaleType::kE4m3) {
      builder.set_global(1.0f);  // as make_format() takes it
    }
    EXPECT_NO_THROW(builder.set_group(0, 0, fit.parameters)) << text;
    EXPECT_EQ(format->stored_scale(fit.parameters.scale), fit.parameters.scale) << text;
  }
}

// A learned book with two equal values, of either sign.
std::vector<float> learned_book(int bits) {
  std::vector<float> book = core::normal_values(std::int64_t{1} << bits, 77);
  book[1] = 0.0f;
  book[2] = -0.0f;
  return book;
}

std::vector<float> weights_of(std::int64_t kind, std::size_t count, std::uint64_t seed) {
  std::vector<float> weights = core::normal_values(static_cast<std::int64_t>(count), seed);
  for (std::size_t i = 0; i < count; ++i) {
    switch (kind) {
      case 0:
        weights[i] *= 0.02f;
        break;
      case 1:
        weights[i] = std::abs(weights[i]) + 3;
        break;  // of one sign
      case 2:
        weights[i] = std::round(3 * weights[i]);
        break;  // many alike, many ties
      case 3:
        weights[i] = std::pow(weights[i], 5.0f);
        break;  // outliers
      case 4:
        weights[i] = i == count / 2 ? weights[i] : 0.0f;
        break;
      default:
        weights[i] *= 0x1p-22f;  // scales at the end of fp16
    }
  }
  return weights;
}

// The bits of a search for a group and of the plain one.
void expect_same_search(const formats::Format& format, const Group& group, GroupSearch& search) {
  formats::GroupParameters known = format.fit(group.weights);
  const bool learns = formats::has_learned_book(format.scheme());
  known.scale = format.stored_scale((learns ? -0.6 : 0.6) * known.scale);
  PlainSearch plain(format, group.weights, group.importance);
  const GroupFit expected = plain.search(24, known);
  const GroupFit found = search.search_from(format, group.weights, group.importance, known);
  ASSERT_EQ(found.loss, expected.loss);
  ASSERT_EQ(found.parameters.scale, expected.parameters.scale);
  ASSERT_EQ(found.parameters.zero, expected.parameters.zero);
  ASSERT_EQ(found.parameters.minimum, expected.parameters.minimum);
  ASSERT_EQ(search.loss(format, group.weights, group.importance, known), plain.loss(known));
}

TEST(GroupSearch, FindsWhatThePlainSearchFinds) {
  constexpr std::int64_t kKinds = 6;
  for (const char* text :
       {"int2-asym-g48",   "int2-sym-g48",    "int3-asym-g48",   "int4-asym-g48",
        "int4-sym-g48",    "int8-asym-g48",   "int8-sym-g48",    "int4-min-g32",
        "int8-min-g32",    "lut4-nf4-g48",    "lut4-af4-g48",    "lut4-fp4-g48",
        "lut4-row-g48",    "lut3-row-g48",    "lut2-matrix-g48", "mxfp4",
        "nvfp4",           "int2-min-g16-s8", "int3-sym-g16-s8", "lut4-iq4-g32-s8",
        "int4-min-g32-s8", "int5-min-g32-s8", "int6-sym-g16-s8", "int5-sym-g32"}) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    const auto format = formats::make_format(scheme, formats::has_learned_book(scheme)
                                                         ? learned_book(scheme.code.bits)
                                                         : std::vector<float>());
    for (int level = 0; level <= static_cast<int>(core::vector_level()); ++level) {
      GroupSearch search(24, static_cast<core::VectorLevel>(level));
      for (const std::size_t count : {1, 7, 16, 31, 32, 33, 48, 64, 130}) {
        for (std::int64_t kind = 0; kind < kKinds; ++kind) {
          SCOPED_TRACE(
              fmt::format("{}, level {}, {} weights of kind {}", text, level, count, kind));
          const auto seed = 100 * count + static_cast<std::uint64_t>(kind);
          Group group{weights_of(kind, count, seed), random_group(count, seed).importance};
          if (count % 2 == 0) {
            group.importance.assign(count, 1.0f);
          }
          ASSERT_NO_FATAL_FAILURE(expect_same_search(*format, group, search));
        }
      }
    }
  }
}

// Every fp16 scale around the best and every zero.
double best_by_enumeration(const formats::Format& format, const Group& group, double center) {
  double best = std::numeric_limits<double>::infinity();
  GroupSearch search(1);
  const int zeros = !formats::has_zeros(format.scheme()) ? 1 : 1 << format.scheme().code.bits;
  for (int i = -1200; i <= 1200; ++i) {
    const float scale = format.stored_scale(center * std::exp2(i / 800.0));
    for (int zero = 0; zero < zeros; ++zero) {
      const formats::GroupParameters parameters{scale, !formats::has_zeros(format.scheme())
                                                           ? 1 << (format.scheme().code.bits - 1)
                                                           : zero};
      best = std::min(best, search.loss(format, group.weights, group.importance, parameters));
      if (!formats::has_zeros(format.scheme()) && format.scheme().code.bits < 8) {
        best = std::min(
            best, search.loss(format, group.weights, group.importance, {-scale, parameters.zero}));
      }
    }
  }
  return best;
}

TEST(GroupSearch, IsCloseToTheBestOfAllParameters) {
  for (const char* text : {"int2-asym-g16", "int3-sym-g16", "int4-asym-g16"}) {
    const auto format = formats::make_format(formats::parse_scheme(text));
    double found = 0;
    double best = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const Group group = random_group(16, seed + 50);
      const GroupFit fit = GroupSearch(64).search(*format, group.weights, group.importance);
      const double least = best_by_enumeration(*format, group, std::abs(fit.parameters.scale));
      EXPECT_GE(fit.loss, least * (1 - 1e-9));
      found += fit.loss;
      best += least;
    }
    EXPECT_LT(found, 1.15 * best) << text;
  }
}

TEST(GroupSearch, TakesGroupsOfZerosAndGroupsWithoutImportance) {
  const std::vector<float> zeros(32, 0.0f);
  const std::vector<float> ones(32, 1.0f);
  const Group group = random_group(32, 3);
  for (const char* text : kSchemes) {
    const auto format = formats::make_format(formats::parse_scheme(text));
    EXPECT_EQ(GroupSearch(8).search(*format, zeros, ones).loss, 0.0) << text;
    const GroupFit silent = GroupSearch(8).search(*format, group.weights, zeros);
    EXPECT_EQ(silent.parameters.scale, format->fit(group.weights).scale) << text;
  }
}

}  // namespace
}  // namespace nibble::compress
