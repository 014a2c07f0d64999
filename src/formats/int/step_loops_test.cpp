#include "formats/int/step_loops.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/random_values_for_tests.h"

namespace nibble::formats {
namespace {

struct Problem {
  GroupParameters parameters;
  StepCodes codes;
};

const Problem kProblems[] = {{{0.25f, 8}, {0, 15}},    {{-0.3f, 8}, {0, 15}},
                             {{0.1f, 3}, {0, 7}},      {{0.02f, 128}, {1, 255}},
                             {{0.1f, 128}, {96, 159}}, {{0.2f, 0, -1.5f}, {0, 31}}};

// Ties between codes, and what no code is near to.
std::vector<float> weights_with_ties(std::size_t count, const Problem& problem) {
  std::vector<float> weights = core::normal_values(static_cast<std::int64_t>(count), count);
  for (std::size_t i = 0; i < count; i += 3) {
    weights[i] = problem.parameters.scale * (static_cast<float>(i) - 8.5f);
  }
  weights[count / 2] = std::numeric_limits<float>::quiet_NaN();
  weights[count - 1] = 1e30f;
  return weights;
}

TEST(StepLoops, EveryInstructionSetGivesTheSameBits) {
  for (const Problem& problem : kProblems) {
    const GroupParameters& p = problem.parameters;
    for (std::size_t count = 1; count < 200; count += count < 70 ? 1 : 13) {
      const std::vector<float> weights = weights_with_ties(count, problem);
      for (int i = 0; i <= static_cast<int>(core::vector_level()); ++i) {
        const auto level = static_cast<core::VectorLevel>(i);
        std::vector<std::uint8_t> codes(count);
        std::vector<float> values(count);
        std::vector<float> with_minima(count);
        core::VectorVersions<EncodeSteps>::at(level)(weights, p, problem.codes, codes);
        core::VectorVersions<DecodeSteps>::at(level)(codes, p, values);
        core::VectorVersions<DecodeMinima>::at(level)(codes, p, with_minima);
        for (std::size_t w = 0; w < count; ++w) {
          ASSERT_EQ(codes[w], step_code(weights[w], p, problem.codes)) << count << ", level " << i;
          ASSERT_EQ(values[w], p.scale * static_cast<float>(codes[w] - p.zero));
          ASSERT_EQ(with_minima[w], p.scale * static_cast<float>(codes[w]) + p.minimum);
        }
      }
    }
  }
}

TEST(StepLoops, CodesEndWhereTheirBitsOrBlocksEnd) {
  const auto expect = [](const char* scheme, int first, int last) {
    const StepCodes codes = step_codes(parse_scheme(scheme));
    EXPECT_EQ(codes.first, first) << scheme;
    EXPECT_EQ(codes.last, last) << scheme;
  };
  expect("int4-sym-g32", 0, 15);
  expect("int3-asym-g32", 0, 7);
  expect("int8-sym-g32", 1, 255);
  expect("int8-asym-g32", 0, 255);
  expect("int4-min-g32", 0, 15);
  expect("int8-min-g32", 0, 255);
  expect("int8-min-g32-s8", 0, 255);
  expect("int8-sym-g16-s8", 1, 255);
  expect("int5-min-g32-s8", 0, 31);    // Q5_K
  expect("int5-sym-g32", 112, 143);    // Q5_0
  expect("int6-sym-g16-s8", 96, 159);  // Q6_K
  expect("int3-sym-g16-s8", 0, 7);     // Q3_K
}

}  // namespace
}  // namespace nibble::formats
