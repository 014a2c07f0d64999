#include "ops/cuda/gemm/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "formats/packed_weight.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/gemm/gemm_on_device_for_tests.h"
#include "ops/cuda/gemm/gemm_reference.h"
#include "ops/cuda/gemm/gemm_test_data.h"
#include "ops/cuda/gemm/half_output_for_tests.h"
#include "ops/cuda/packed/unit_writer.h"

namespace nibble::ops::cuda {
namespace {

struct Shape {
  int tokens;
  int rows;
  int columns;
};

// Ragged in each direction: rows that are no multiple of 16 or 128, columns that are none of 128 or
// 32, odd and even numbers of blocks, more tiles than blocks of threads.
// Those with rows that are a multiple of 16 are also taken for gate and up in pairs.
constexpr Shape kShapes[] = {{1, 16, 128},    {65, 100, 200}, {127, 129, 1000}, {300, 333, 640},
                             {64, 512, 1152}, {257, 40, 384}, {96, 700, 72},    {300, 272, 200},
                             {75, 320, 416},  {520, 96, 768}};

constexpr float kPoison = -12345.5f;
constexpr int kMargin = 3;  // columns at least behind each row of y, which must not change

class GemmTest : public device::GpuTest {
 protected:
  // All the plans that the kernels have; two blocks make each take many tiles.
  static std::vector<GemmPlan> plans(const GemmWeights& weights, GemmInputs inputs) {
    std::vector<GemmPlan> all = gemm_plans(weights, inputs);
    const std::size_t count = all.size();
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(all[i]);
      all.back().blocks = 2;
    }
    return all;
  }

  static std::string name(const GemmPlan& plan, const Shape& shape) {
    return std::string(plan.wgmma ? "wgmma " : "mma ") + std::to_string(plan.row_tile) + " x " +
           std::to_string(plan.token_tile) + " in " + std::to_string(plan.cluster) +
           (plan.divides_k ? " that divide k, " : ", ") + std::to_string(plan.blocks) +
           " blocks; " + std::to_string(shape.tokens) + " tokens, " + std::to_string(shape.rows) +
           " rows, " + std::to_string(shape.columns) + " columns";
  }

  // How far rows of results are apart, `width` each. Every other time it is a multiple of 8, so
  // that the copy engine can write them.
  int stride_of(int width) {
    const int least = width + kMargin + 4;
    return least / 8 * 8 + (strides_++ % 2 == 0 ? 8 : 10);
  }

  // y of a run into poisoned memory, or into `before`, without its margin, which is checked. Twice,
  // with both strides: the bits are the same.
  template <class Run>
  std::vector<float> run_poisoned(const Shape& shape, Run&& run,
                                  const std::vector<float>& before = {}) {
    const std::vector<float> y = run_once(shape, run, before);
    EXPECT_EQ(first_difference(y, run_once(shape, run, before)), -1) << "with another stride";
    return y;
  }
  template <class Run>
  std::vector<float> run_once(const Shape& shape, Run&& run, const std::vector<float>& before) {
    const int stride = stride_of(shape.rows);
    std::vector<float> filled(static_cast<std::size_t>((shape.tokens + 1) * stride), kPoison);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::size_t rows = static_cast<std::size_t>(shape.rows);
      filled[i / rows * static_cast<std::size_t>(stride) + i % rows] = before[i];
    }
    const Buffer y = Buffer::of<float>(filled);
    device::cuda::Stream stream;
    run(y.as<float>(), stride, stream.get());
    stream.synchronize();
    const auto all = y.values<float>();
    std::vector<float> inside;
    int overwritten = 0;
    for (int i = 0; i < static_cast<int>(all.size()); ++i) {
      const float value = all[static_cast<std::size_t>(i)];
      if (i % stride < shape.rows && i / stride < shape.tokens) {
        inside.push_back(value);
      } else {
        overwritten += value == kPoison ? 0 : 1;
      }
    }
    EXPECT_EQ(overwritten, 0) << "values outside of y";
    return inside;
  }

  // Runs it where y has values already; `y` is what it gives where it has none.
  template <class Run>
  void check_added(const Shape& shape, const std::vector<float>& y, const std::string& what,
                   Run&& run) {
    const std::vector<float> before = normal_values(std::ssize(y), 12);
    std::vector<float> expected;
    std::transform(before.begin(), before.end(), y.begin(), std::back_inserter(expected),
                   std::plus<>());
    EXPECT_EQ(first_difference(run_poisoned(shape, run, before), expected), -1) << what;
  }

  // Runs it with pairs joined, in both orders, into poisoned memory; `y` [tokens, rows] is what it
  // gives without.
  template <class Run>
  void check_gated(const Shape& shape, const std::vector<float>& y, const std::string& what,
                   Run&& run) {
    for (const int step : {16, 64}) {
      if (shape.rows % step == 0) {
        const auto activation = static_cast<MlpActivation>(gated_runs_++ % 4);
        const std::vector<float> expected = gated(activation, shape, y);
        const bool tiles = step == 64;
        const std::vector<float> joined = run_gated_poisoned(shape, activation, tiles, run);
        EXPECT_LT(worst_error(joined, expected, 0.1), 1.1e-3)
            << what << (tiles ? ", tiles, activation " : ", activation ")
            << static_cast<int>(activation);
        EXPECT_EQ(first_difference(joined, run_gated_poisoned(shape, activation, tiles, run)), -1)
            << what << ", with another stride";
      }
    }
  }

  // activation(gate) * up of rows in pairs of eight.
  static std::vector<float> gated(MlpActivation activation, const Shape& shape,
                                  const std::vector<float>& y) {
    std::vector<float> result(static_cast<std::size_t>(shape.tokens * shape.rows / 2));
    for (std::size_t i = 0; i < result.size(); i += 8) {
      cpu::activate_gated(activation, &y[2 * i], &y[2 * i + 8], &result[i], 8);
    }
    return result;
  }

  template <class Run>
  std::vector<float> run_gated_poisoned(const Shape& shape, MlpActivation activation, bool tiles,
                                        Run&& run) {
    const int width = shape.rows / 2;
    const HalfOutput form{
        .stride = stride_of(width), .activation = activation, .pairs = true, .tiles = tiles};
    return half_results(shape.tokens, width, form, waiting(run));
  }

  // Runs it with results in float16, with both strides; `y` is what it gives as float32.
  template <class Run>
  void check_rounded(const Shape& shape, const std::vector<float>& y, const std::string& what,
                     Run&& run) {
    for (int i = 0; i < 2; ++i) {
      expect_rounded(shape.tokens, y, stride_of(shape.rows), rounded_runs_++, what, waiting(run));
    }
  }

  template <class Run>
  static auto waiting(Run& run) {
    return [&run](const HalfOutput& to) {
      const device::cuda::Stream stream;
      run(to, stream.get());
      stream.synchronize();
    };
  }

  static std::vector<float> make_bias(int rows, std::mt19937& random) {
    std::vector<float> bias;
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (int i = 0; i < rows; ++i) {
      bias.push_back(uniform(random));
    }
    return bias;
  }

  void check_int8(const WeightKind& kind, int input_group, int low, int high,
                  bool with_tail = false);
  void check_half(const WeightKind& kind);

 private:
  int gated_runs_ = 0;  // which take turns with the activations
  int rounded_runs_ = 0;
  int strides_ = 0;
};

void GemmTest::check_int8(const WeightKind& kind, int input_group, int low, int high,
                          bool with_tail) {
  std::mt19937 random(17);
  for (const Shape& shape : kShapes) {
    const TestWeights weights = make_weights(kind, shape.rows, shape.columns, random);
    const TestWeights tail =
        make_weights({.codes = CodeKind::kInt8, .group = 0}, shape.rows, 128, random);
    const int body = padded(shape.columns);
    const int columns = with_tail ? body + 128 : shape.columns;
    PlainInt8Inputs inputs =
        make_int8_inputs(shape.tokens, columns, input_group, low, high, random);
    if (with_tail) {  // padding between the segments is 0, and the tail has 8 bits
      for (int token = 0; token < shape.tokens; ++token) {
        for (int k = shape.columns; k < columns; ++k) {
          const int code = k < body ? 0 : static_cast<int>(random() % 255) - 127;
          inputs.codes[static_cast<std::size_t>(token * columns + k)] =
              static_cast<std::int8_t>(code);
        }
      }
    }
    const std::vector<float> bias = make_bias(shape.rows, random);
    const auto expected =
        reference_gemm_int8(weights.plain, with_tail ? &tail.plain : nullptr, inputs, bias);
    const OnDevice on_device(weights);
    const OnDevice tail_on_device(tail);
    const Int8OnDevice there(inputs);
    const Int8Inputs& view = there.view;
    const Buffer biases = Buffer::of<float>(bias);
    for (const GemmPlan& plan : plans(on_device.view, there.kind)) {
      const auto y = run_poisoned(shape, [&](float* to, int stride, cudaStream_t stream) {
        gemm_int8(plan, on_device.view, with_tail ? &tail_on_device.view : nullptr, view,
                  {.y = to, .stride = stride, .bias = biases.as<float>()}, stream);
      });
      const auto place = first_difference(y, expected);
      ASSERT_EQ(place, -1) << name(plan, shape) << ": token " << place / shape.rows << ", row "
                           << place % shape.rows << " is " << y[static_cast<std::size_t>(place)]
                           << ", not " << expected[static_cast<std::size_t>(place)];
      check_added(
          shape, expected, name(plan, shape), [&](float* to, int stride, cudaStream_t stream) {
            gemm_int8(plan, on_device.view, with_tail ? &tail_on_device.view : nullptr, view,
                      {.y = to, .stride = stride, .bias = biases.as<float>(), .adds = true},
                      stream);
          });
      const auto to_half = [&](const HalfOutput& to, cudaStream_t stream) {
        gemm_int8(plan, on_device.view, with_tail ? &tail_on_device.view : nullptr, view,
                  {.half = to, .bias = biases.as<float>()}, stream);
      };
      check_gated(shape, expected, name(plan, shape), to_half);
      check_rounded(shape, expected, name(plan, shape), to_half);
    }
  }
}

void GemmTest::check_half(const WeightKind& kind) {
  std::mt19937 random(18);
  for (const Shape& shape : kShapes) {
    const TestWeights weights = make_weights(kind, shape.rows, shape.columns, random);
    const auto inputs = make_half_inputs(shape.tokens, shape.columns, random);
    const std::vector<float> bias = make_bias(shape.rows, random);
    const auto expected = reference_gemm_half(weights.plain, inputs, shape.tokens, bias);
    const OnDevice on_device(weights);
    const int width = padded(shape.columns);
    const Buffer values =
        Buffer::of<__half>(in_tile_order(inputs, shape.tokens, shape.columns, width));
    const Buffer biases = Buffer::of<float>(bias);
    const HalfInputs view{.values = values.data(), .tokens = shape.tokens, .row_bytes = 2 * width};
    std::vector<float> of_plans[2];
    for (const GemmPlan& plan : plans(on_device.view, GemmInputs::kHalf)) {
      const auto y = run_poisoned(shape, [&](float* to, int stride, cudaStream_t stream) {
        gemm_half(plan, on_device.view, view,
                  {.y = to, .stride = stride, .bias = biases.as<float>()}, stream);
      });
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_LE(std::abs(y[i] - expected.y[i]), expected.bounds[i])
            << name(plan, shape) << ": token " << static_cast<int>(i) / shape.rows << ", row "
            << static_cast<int>(i) % shape.rows << " is " << y[i] << ", not " << expected.y[i];
      }
      if (plan.wgmma) {  // tiles do not change a bit
        std::vector<float>& first = of_plans[plan.divides_k ? 1 : 0];
        first = first.empty() ? y : first;
        ASSERT_EQ(first_difference(y, first), -1) << name(plan, shape);
      }
      check_added(shape, y, name(plan, shape), [&](float* to, int stride, cudaStream_t stream) {
        gemm_half(plan, on_device.view, view,
                  {.y = to, .stride = stride, .bias = biases.as<float>(), .adds = true}, stream);
      });
      const auto to_half = [&](const HalfOutput& to, cudaStream_t stream) {
        gemm_half(plan, on_device.view, view, {.half = to, .bias = biases.as<float>()}, stream);
      };
      check_gated(shape, y, name(plan, shape), to_half);
      check_rounded(shape, y, name(plan, shape), to_half);
    }
  }
}

TEST_F(GemmTest, Int8WeightsByRow) {
  check_int8({.codes = CodeKind::kInt8, .group = 0}, 0, -127, 127);
}
TEST_F(GemmTest, Int8WeightsByGroup) {
  check_int8({.codes = CodeKind::kInt8, .group = 128}, 0, -127, 127);
}
TEST_F(GemmTest, Int4WeightsByRow) {
  check_int8({.group = 0}, 0, -127, 127);
}
TEST_F(GemmTest, Int4WeightsByRowWithZeros) {
  check_int8({.codes = CodeKind::kInt4WithZeros, .group = 0}, 0, -127, 127);
}
TEST_F(GemmTest, Int4WeightsByGroup) {
  check_int8({.group = 128}, 0, -127, 127);
}
TEST_F(GemmTest, Int4WeightsByGroupOf256WithZeros) {
  check_int8({.codes = CodeKind::kInt4WithZeros, .group = 256}, 0, -127, 127);
}
TEST_F(GemmTest, Int4WeightsAndInputsByGroup) {
  check_int8({.group = 128}, 128, -8, 7);
}
TEST_F(GemmTest, Int4WeightsAndInputsByGroupWithTail) {
  check_int8({.group = 128}, 128, -8, 7, true);
}
TEST_F(GemmTest, Int4WeightsWithZerosAndInputsByGroupWithTail) {
  check_int8({.codes = CodeKind::kInt4WithZeros, .group = 128}, 128, -15, 15, true);
}

// Inputs as doubles of E2M1 numbers are.
TEST_F(GemmTest, BooksAndInputsByGroup) {
  check_int8({.codes = CodeKind::kBook, .group = 128}, 128, -12, 12);
}
TEST_F(GemmTest, BooksAndInputsByGroupWithTail) {
  check_int8({.codes = CodeKind::kBook, .group = 128}, 128, -12, 12, true);
}
TEST_F(GemmTest, BooksByRowAndInputsByGroup) {
  check_int8({.codes = CodeKind::kBook, .group = 0}, 128, -127, 127);
}

TEST_F(GemmTest, HalfFromInt4) {
  check_half({.group = 128});
  check_half({.group = 64});
  check_half({.group = 32});
}
TEST_F(GemmTest, HalfFromInt4WithZeros) {
  check_half({.codes = CodeKind::kInt4WithZeros, .group = 32});
  check_half({.codes = CodeKind::kInt4WithZeros, .group = 0});
}
TEST_F(GemmTest, HalfFromInt8) {
  check_half({.codes = CodeKind::kInt8, .group = 0});
  check_half({.codes = CodeKind::kInt8WithZeros, .group = 64});
}
TEST_F(GemmTest, HalfFromBook) {
  check_half({.codes = CodeKind::kBook, .group = 128});
  check_half({.codes = CodeKind::kBook, .group = 32});
}
TEST_F(GemmTest, HalfFromIntegersWithShifts) {
  check_half({.codes = CodeKind::kInt4WithShifts, .group = 32});
  check_half({.codes = CodeKind::kInt4WithShifts, .group = 16});
  check_half({.codes = CodeKind::kInt4WithShifts, .group = 256});
  check_half({.codes = CodeKind::kInt8WithShifts, .group = 32});
  check_half({.codes = CodeKind::kInt8WithShifts, .group = 0});
}
TEST_F(GemmTest, HalfFromGroupsOf16) {
  check_half({.group = 16});
  check_half({.codes = CodeKind::kInt4WithZeros, .group = 16});
  check_half({.codes = CodeKind::kInt8, .group = 16});
  check_half({.codes = CodeKind::kInt8WithZeros, .group = 48});
  check_half({.codes = CodeKind::kBook, .group = 16});
}

// Weights as the program packs them, against the numbers that they stand for.
TEST_F(GemmTest, ReadsWhatTheUnitWriterWrites) {
  constexpr int kRows = 150;
  constexpr int kColumns = 416;
  constexpr int kTokens = 70;
  std::mt19937 random(21);
  const auto inputs = make_half_inputs(kTokens, kColumns, random);
  const Buffer values = Buffer::of<__half>(in_tile_order(inputs, kTokens, kColumns, 512));
  for (const std::string scheme :
       {"int4-sym-g128", "int4-asym-g32", "int4-sym-row", "int3-asym-g64", "int3-sym-row",
        "int2-sym-g128", "int2-asym-g32", "int8-sym-row", "int8-asym-g128"}) {
    const auto weight = cpu::testing::random_weight(scheme, kRows, kColumns, 22);
    GemmWeights packed;
    packed.units = {.format = unit_format_of(weight.scheme), .n = kRows, .k = kColumns};
    const UnitGrid grid = unit_grid(kRows, kColumns);
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(grid.count() * packed.units.format.bytes()));
    std::vector<float> factors(static_cast<std::size_t>(grid.row_groups * kUnitRows));
    write_units(weight, packed.units.format, bytes, {}, factors);
    const Buffer units = Buffer::of<std::byte>(bytes);
    packed.units.units = units.data();
    const auto y =
        run_poisoned({kTokens, kRows, kColumns}, [&](float* to, int stride, cudaStream_t stream) {
          gemm_half(plan_gemm(packed, GemmInputs::kHalf, kTokens), packed,
                    {.values = values.data(), .tokens = kTokens, .row_bytes = 1024},
                    {.y = to, .stride = stride}, stream);
        });
    std::vector<float> row(kColumns);
    for (int n = 0; n < kRows; ++n) {
      formats::decode_row(weight, n, row);
      for (int token = 0; token < kTokens; ++token) {
        double sum = 0.0;
        double magnitude = 0.0;
        for (int k = 0; k < kColumns; ++k) {
          const double product =
              static_cast<double>(inputs[static_cast<std::size_t>(token * kColumns + k)]) *
              row[static_cast<std::size_t>(k)];
          sum += product;
          magnitude += std::abs(product);
        }
        // Weights are rounded to float16, and so is their decoded value at most.
        ASSERT_NEAR(y[static_cast<std::size_t>(token * kRows + n)], sum, magnitude * 0x1p-10)
            << scheme << ": token " << token << ", row " << n;
      }
    }
  }
}

// The largest magnitudes that codes can have, all of one sign: sums must not overflow or round.
TEST_F(GemmTest, LargestIntegersAreExact) {
  constexpr int kColumns = 65'536;
  std::mt19937 random(19);
  TestWeights weights = make_weights({.codes = CodeKind::kInt8, .group = 0}, 16, kColumns, random);
  std::fill(weights.plain.values.begin(), weights.plain.values.end(), -128);
  std::fill_n(weights.plain.scales.begin(), 16, 1.0f);
  for (std::size_t tile = 0; tile < weights.units.size(); tile += 2080) {
    std::fill_n(weights.units.begin() + static_cast<std::ptrdiff_t>(tile), 2048, 0x80);
    for (std::size_t i = 0; i < 32; i += 2) {
      weights.units[tile + 2048 + i] = 0x00;
      weights.units[tile + 2049 + i] = 0x3c;  // 1 as float16
    }
  }
  PlainInt8Inputs inputs = make_int8_inputs(65, kColumns, 0, 127, 127, random);
  std::fill(inputs.scales.begin(), inputs.scales.end(), 1.0f);
  const OnDevice on_device(weights);
  const Buffer codes = Buffer::of<std::int8_t>(in_tile_order(inputs, kColumns));
  const Buffer scales = Buffer::of<float>(inputs.scales);
  const Int8Inputs view{.codes = codes.as<std::int8_t>(),
                        .tokens = 65,
                        .row_bytes = kColumns,
                        .scales = scales.as<float>()};
  const auto y = run_poisoned({65, 16, kColumns}, [&](float* to, int stride, cudaStream_t stream) {
    gemm_int8(plan_gemm(on_device.view, GemmInputs::kInt8, 65), on_device.view, nullptr, view,
              {.y = to, .stride = stride}, stream);
  });
  for (const float value : y) {
    ASSERT_EQ(value, -128.0f * 127.0f * kColumns);
  }
}

TEST_F(GemmTest, ResultsSaturateInFloat16) {
  std::mt19937 random(20);
  const Shape shape{70, 144, 256};
  const TestWeights weights = make_weights({.group = 128}, shape.rows, shape.columns, random);
  const auto inputs = make_half_inputs(shape.tokens, shape.columns, random);
  const OnDevice on_device(weights);
  const Buffer values =
      Buffer::of<__half>(in_tile_order(inputs, shape.tokens, shape.columns, shape.columns));
  std::vector<float> bias(static_cast<std::size_t>(shape.rows), 0.25f);
  bias[5] = 1e9f;  // gate and up of column 5, then of column 6
  bias[13] = 1e9f;
  bias[6] = 1e9f;
  bias[14] = -1e9f;
  const Buffer biases = Buffer::of<float>(bias);
  const HalfInputs view{
      .values = values.data(), .tokens = shape.tokens, .row_bytes = 2 * shape.columns};
  const auto y = run_gated_poisoned(
      shape, MlpActivation::kSilu, false, [&](const HalfOutput& to, cudaStream_t stream) {
        gemm_half(plan_gemm(on_device.view, GemmInputs::kHalf, shape.tokens), on_device.view, view,
                  {.half = to, .bias = biases.as<float>()}, stream);
      });
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t column = i % 72;
    const bool large = column == 5 || column == 6;
    ASSERT_EQ(std::fabs(y[i]) == 65504.0f, large) << i;
    ASSERT_TRUE(!large || (y[i] > 0.0f) == (column == 5)) << i;
  }
  const auto plain =
      half_results(shape.tokens, shape.rows, {.stride = shape.rows}, [&](const HalfOutput& to) {
        const device::cuda::Stream stream;
        gemm_half(plan_gemm(on_device.view, GemmInputs::kHalf, shape.tokens), on_device.view, view,
                  {.half = to, .bias = biases.as<float>()}, stream.get());
        stream.synchronize();
      });
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::size_t row = i % 144;
    const float expected = row == 14 ? -65504.0f : 65504.0f;
    const bool large = row == 5 || row == 6 || row == 13 || row == 14;
    ASSERT_EQ(plain[i] == expected, large) << i;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
