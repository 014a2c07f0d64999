#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/threads.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cpu/packed/variants.h"

// Rows of more inputs than any panel has, whose last panel is shorter than the others, in every
// form of groups: halves of a unit, units and several; with one zero, zeros of rows, and minima.
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kRows = 37;
constexpr std::int64_t kInputs = 4096 + 256;
constexpr std::int64_t kTokens = 79;

constexpr const char* kSchemes[] = {
    "int4-sym-g16",    "int4-asym-g16",   "int4-min-g16",    "int4-sym-g32",    "int4-asym-g32",
    "int4-min-g32",    "int4-sym-g64",    "int4-asym-g64",   "int4-min-g64",    "int4-min-g32-s8",
    "int3-sym-g16-s8", "int2-min-g16-s8", "int8-sym-g16-s8", "int8-min-g32-s8", "int8-min-g64",
    "int8-asym-g16",   "int8-sym-row",    "lut4-iq4-g32-s8", "lut4-row-g32"};

std::vector<float> run(const Variant& variant, const PackedLinear& linear,
                       const std::vector<float>& x, std::int64_t m, core::ThreadPool& pool) {
  QuantizedInput input;
  quantize_input(variant, x.data(), m, kInputs, kInputs, linear.needs(), input, pool);
  std::vector<float> y(static_cast<std::size_t>(m * kRows));
  const PackedLinear* part = &linear;
  packed_linear(variant, {&part, 1}, input, y.data(), kRows, pool);
  return y;
}

TEST(Panels, OfLongRowsGiveTheBitsOfTheScalarVariant) {
  core::ThreadPool pool(2);
  const std::vector<float> x = testing::random_input(kTokens, kInputs, 3);
  for (const char* scheme : kSchemes) {
    const formats::PackedWeight weight = testing::random_weight(scheme, kRows, kInputs, 5);
    const PackedLinear linear = PackedLinear::pack(weight, pool);
    const std::vector<float> expected = run(variants().front(), linear, x, kTokens, pool);
    for (const Variant& variant : variants()) {
      if (!variant.runs_here()) {
        continue;
      }
      for (const std::int64_t m : {std::int64_t{17}, std::int64_t{31}, kTokens}) {
        const std::vector<float> y = run(variant, linear, x, m, pool);
        EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0)
            << variant.name << " " << scheme << " m=" << m;
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
