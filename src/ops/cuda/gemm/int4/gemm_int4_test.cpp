// Products of 4-bit integers on a GPU: every bit is that of gemm_int8() on the same numbers, and of
// plain integers. Devices after compute capability 8.9 emulate the instruction, with the same sums.

#include "ops/cuda/gemm/int4/gemm_int4.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "ops/cuda/elementwise/int4_tiles_for_tests.h"
#include "ops/cuda/gemm/gemm_test_data.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

struct Shape {
  int tokens;
  int rows;
  int columns;
};

// Ragged in each direction, fewer and more units along k than there are stages.
constexpr Shape kShapes[] = {{1, 16, 128},    {65, 100, 200},  {127, 129, 1000}, {300, 333, 640},
                             {64, 512, 1152}, {257, 40, 384},  {96, 700, 72},    {300, 272, 200},
                             {75, 320, 416},  {130, 64, 4096}, {128, 128, 256}};

constexpr float kPoison = -12345.5f;
constexpr int kMargin =
    5;  // columns behind each row of y, and a row of them, which must not change

int padded(int columns) {
  return (columns + 127) / 128 * 128;
}

/// Inputs as numbers, and as rows of kInt4Tiles with what these are more.
struct Inputs {
  PlainInt8Inputs plain;
  std::vector<std::uint8_t> rows;
  std::vector<std::int32_t> zeros;

  Inputs(const Shape& shape, int group, bool has_zeros, std::mt19937& random)
      : plain(make_int8_inputs(shape.tokens, shape.columns, group, -8, 7, random)) {
    const int groups = group == 0 ? 1 : padded(shape.columns) / group;
    std::uniform_int_distribution<int> zero(-8, 7);
    std::vector<int> codes(static_cast<std::size_t>(padded(shape.columns)));
    for (int token = 0; token < shape.tokens; ++token) {
      const std::size_t first = zeros.size();
      for (int g = 0; g < groups; ++g) {
        zeros.push_back(has_zeros ? zero(random) : 0);
      }
      for (int k = 0; k < padded(shape.columns); ++k) {
        const std::int32_t of_group =
            zeros[first + static_cast<std::size_t>(group == 0 ? 0 : k / group)];
        int code = of_group;  // of padding
        if (k < shape.columns) {
          std::int8_t& value = plain.codes[static_cast<std::size_t>(token * shape.columns + k)];
          code = value;
          value = static_cast<std::int8_t>(code - of_group);
        }
        codes[static_cast<std::size_t>(k)] = code;
      }
      const auto row = int4_tiles_row(codes, padded(shape.columns), 0);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  }
};

class GemmInt4 : public device::GpuTest {
 protected:
  // y of a run into poisoned memory or into `before`; what is behind its rows is left alone.
  static std::vector<float> run(const Shape& shape, const std::vector<float>& before,
                                const std::function<void(float*, int, cudaStream_t)>& product) {
    const int stride = shape.rows + kMargin;
    std::vector<float> filled(static_cast<std::size_t>((shape.tokens + 1) * stride), kPoison);
    for (int i = 0; i < static_cast<int>(before.size()); ++i) {
      filled[static_cast<std::size_t>(i / shape.rows * stride + i % shape.rows)] =
          before[static_cast<std::size_t>(i)];
    }
    const Buffer y = Buffer::of<float>(filled);
    const device::cuda::Stream stream;
    product(y.as<float>(), stride, stream.get());
    stream.synchronize();
    std::vector<float> inside;
    int overwritten = 0;
    const auto all = y.values<float>();
    for (int i = 0; i < static_cast<int>(all.size()); ++i) {
      const float value = all[static_cast<std::size_t>(i)];
      if (i % stride < shape.rows && i / stride < shape.tokens) {
        inside.push_back(value);
      } else {
        overwritten += value != kPoison;
      }
    }
    EXPECT_EQ(overwritten, 0) << "values outside of y";
    return inside;
  }

  static void check(const WeightKind& kind, int input_group, bool input_zeros);
};

void GemmInt4::check(const WeightKind& kind, int input_group, bool input_zeros) {
  std::mt19937 random(31);
  for (const Shape& shape : kShapes) {
    const std::string what = std::to_string(shape.tokens) + " tokens, " +
                             std::to_string(shape.rows) + " rows, " +
                             std::to_string(shape.columns) + " columns";
    TestWeights weights = make_weights(kind, shape.rows, shape.columns, random);
    const Inputs inputs(shape, input_group, input_zeros, random);
    const std::vector<float> bias(static_cast<std::size_t>(shape.rows), 0.375f);
    const std::vector<float> expected =
        reference_gemm_int8(weights.plain, nullptr, inputs.plain, bias);
    const Buffer units = Buffer::of<std::uint8_t>(weights.units);
    const Buffer rows = Buffer::of<std::uint8_t>(inputs.rows);
    const Buffer codes =
        Buffer::of<std::int8_t>(in_tile_order(inputs.plain, padded(shape.columns)));
    const Buffer scales = Buffer::of<float>(inputs.plain.scales);
    const Buffer zeros = Buffer::of<std::int32_t>(inputs.zeros);
    const Buffer biases = Buffer::of<float>(bias);
    weights.view.units.units = units.data();
    const int token_stride = input_group == 0 ? 1 : padded(shape.columns) / 128;
    const int group_stride = input_group == 0 ? 0 : 1;
    const Int4Inputs view{.codes = rows.data(),
                          .tokens = shape.tokens,
                          .row_bytes = padded(shape.columns) / 2,
                          .scales = scales.as<float>(),
                          .zeros = input_zeros ? zeros.as<std::int32_t>() : nullptr,
                          .token_stride = token_stride,
                          .group_stride = group_stride};
    const auto product = [&](bool adds) {
      return [&, adds](float* y, int stride, cudaStream_t stream) {
        gemm_int4(weights.view, view,
                  {.y = y, .stride = stride, .bias = biases.as<float>(), .adds = adds}, stream);
      };
    };
    const std::vector<float> y = run(shape, {}, product(false));
    const auto place = first_difference(y, expected);
    ASSERT_EQ(place, -1) << what << ": token " << place / shape.rows << ", row "
                         << place % shape.rows << " is " << y[static_cast<std::size_t>(place)]
                         << ", not " << expected[static_cast<std::size_t>(place)];
    const Int8Inputs bytes{.codes = codes.as<std::int8_t>(),
                           .tokens = shape.tokens,
                           .row_bytes = padded(shape.columns),
                           .scales = scales.as<float>(),
                           .token_stride = token_stride,
                           .group_stride = group_stride};
    const auto by_int8 = run(shape, {}, [&](float* to, int stride, cudaStream_t stream) {
      gemm_int8({}, weights.view, nullptr, bytes,
                {.y = to, .stride = stride, .bias = biases.as<float>()}, stream);
    });
    EXPECT_EQ(first_difference(y, by_int8), -1) << what << ", gemm_int8";
    std::vector<float> doubled;
    for (const float value : expected) {
      doubled.push_back(value + value);
    }
    EXPECT_EQ(first_difference(run(shape, expected, product(true)), doubled), -1)
        << what << ", added";
  }
}

TEST_F(GemmInt4, ByRow) {
  check({.group = 0}, 0, false);
}
TEST_F(GemmInt4, ByGroup) {
  check({.group = 128}, 0, false);
  check({.group = 256}, 0, false);
}
TEST_F(GemmInt4, ByGroupOfBoth) {
  check({.group = 128}, 128, false);
  check({.group = 0}, 128, false);
}
TEST_F(GemmInt4, WeightsWithZeros) {
  check({.codes = CodeKind::kInt4WithZeros, .group = 0}, 0, false);
  check({.codes = CodeKind::kInt4WithZeros, .group = 128}, 0, false);
  check({.codes = CodeKind::kInt4WithZeros, .group = 128}, 128, false);
}
TEST_F(GemmInt4, InputsWithZeros) {
  check({.group = 0}, 0, true);
  check({.group = 128}, 0, true);
  check({.group = 128}, 128, true);
}
TEST_F(GemmInt4, BothWithZeros) {
  check({.codes = CodeKind::kInt4WithZeros, .group = 0}, 0, true);
  check({.codes = CodeKind::kInt4WithZeros, .group = 256}, 0, true);
  check({.codes = CodeKind::kInt4WithZeros, .group = 128}, 128, true);
}

TEST(GemmInt4Refusals, NameWhatItCannotCompute) {
  float y = 0.0f;
  const auto refusal = [&](const GemmWeights& weights, std::int64_t row_bytes) {
    try {
      gemm_int4(weights, {.tokens = 1, .row_bytes = row_bytes}, {.y = &y, .stride = 16}, nullptr);
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  GemmWeights weights{.units = {.format = {}, .n = 16, .k = 256}};
  EXPECT_NE(refusal(weights, 112).find("weights need 128"), std::string::npos);
  EXPECT_NE(refusal(weights, 136).find("multiples of 16"), std::string::npos);
  weights.units.k = 256'000;
  EXPECT_NE(refusal(weights, 128'000).find("are exact up to"), std::string::npos);
  weights.units.k = 256;
  weights.units.format.groups = 4;
  EXPECT_NE(refusal(weights, 128).find("in groups of 128"), std::string::npos);
  weights.units.format = {.codes = CodeKind::kInt8};
  EXPECT_NE(refusal(weights, 128).find("integers of 4 bits"), std::string::npos);
}

}  // namespace
}  // namespace nibble::ops::cuda
