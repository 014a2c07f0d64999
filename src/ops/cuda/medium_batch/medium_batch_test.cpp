#include "ops/cuda/medium_batch/medium_batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/gemm/half_output_for_tests.h"
#include "ops/cuda/small_batch/trial_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

/// In which form activations come.
enum class Inputs { kInt8ByToken, kInt8ByGroup, kTwoDigits, kHalf, kHalfWithSums };

/// Activations on the device.
class InputsOnDevice {
 public:
  // Those of float16 are integers of 11 bits times one scale, which float16 holds exactly.
  InputsOnDevice(Inputs kind, const IntegerActivations& x) : kind_(kind), digits_(x.digits) {
    if (kind != Inputs::kHalf && kind != Inputs::kHalfWithSums) {
      values_ = Buffer::of<std::int8_t>(x.in_tile_order());
      scales_ = Buffer::of<float>(x.scales);
      return;
    }
    const std::int64_t padded = padded_columns(x.k);
    const std::int64_t stride = sum_stride_of(x.m);
    std::vector<core::Fp16> halves(static_cast<std::size_t>(x.m * padded));
    // What tokens that are not there get does no harm.
    std::vector<float> sums(static_cast<std::size_t>(padded / kInputPadding * stride), NAN);
    for (std::int64_t token = 0; token < x.m; ++token) {
      for (std::int64_t block = 0; block < padded / kInputPadding; ++block) {
        float sum = 0.0f;
        for (std::int64_t k = block * kInputPadding; k < (block + 1) * kInputPadding && k < x.k;
             ++k) {
          const float value =
              static_cast<float>(x.codes[static_cast<std::size_t>(token * x.k + k)]) * x.scales[0];
          halves[static_cast<std::size_t>(token * padded + float16_tile_position(k))] =
              core::to_fp16(value);
          sum += value;
        }
        const auto at = static_cast<std::size_t>(block * stride + token / 2 * 4 + token % 2);
        sums[at] = sum * -0x1p-21f;
        sums[at + 2] = sum * -0x1p-17f;
      }
    }
    values_ = Buffer::of<core::Fp16>(halves);
    scales_ = Buffer::of<float>(sums);
  }

  TileActivations view() const {
    TileActivations x;
    if (kind_ == Inputs::kHalf || kind_ == Inputs::kHalfWithSums) {
      x.values = values_.as<core::Fp16>();
      x.sums = kind_ == Inputs::kHalfWithSums ? scales_.as<float>() : nullptr;
      return x;
    }
    x.digits = digits_;
    x.codes = values_.as<std::int8_t>();
    x.scales = scales_.as<float>();
    x.scale_of_token = kind_ == Inputs::kInt8ByToken;
    return x;
  }

 private:
  Inputs kind_;
  int digits_;
  Buffer values_;
  Buffer scales_;
};

IntegerActivations activations_of(Inputs kind, std::int64_t m, const UnitsView& weight,
                                  std::uint64_t seed) {
  const std::int64_t padded = padded_columns(weight.k);
  switch (kind) {
    case Inputs::kInt8ByToken:
      return random_activations(m, weight.k, 1, seed, padded);
    case Inputs::kInt8ByGroup:
      return random_activations(m, weight.k, 1, seed);
    case Inputs::kTwoDigits:
      return random_activations(m, weight.k, 2, seed);
    default: {
      IntegerActivations x = random_activations(m, weight.k, 2, seed);
      for (std::int32_t& code : x.codes) {
        code /= 16;  // 11 bits
      }
      std::fill(x.scales.begin(), x.scales.end(), 0x1p-9f);
      return x;
    }
  }
}

bool takes(const UnitFormat& format, Inputs kind, std::int64_t m) {
  const bool half = is_half(medium_batch_input(format, 64));
  switch (kind) {
    case Inputs::kTwoDigits:
      return m <= (half ? 16 : 64);
    case Inputs::kHalf:
      return half;
    case Inputs::kHalfWithSums:
      return medium_batch_input(format, 64) == InputForm::kFloat16Summed;
    default:
      return m <= 32 && !has_planes(format.codes);
  }
}

using MediumBatch = device::GpuTest;

/// A layer, and how it is run: all of a trial but where results go.
struct Trial {
  const OnDevice& weight;
  InputsOnDevice x;
  std::int64_t m;
  MediumBatchSchedule schedule;
  Buffer bias;

  const float* biases() const { return bias.empty() ? nullptr : bias.as<float>(); }
  void run(const GemmOutput& output, cudaStream_t stream) const {
    medium_batch({weight.view, x.view(), m, output}, schedule, stream);
  }
  // Twice, on top of `before` if that is not NaN; the bits must be the same.
  std::vector<float> results(std::int64_t ldy, float before = NAN) const {
    Buffer y(m * ldy * 4);
    const device::cuda::Stream stream;
    const auto once = [&] {
      const std::vector<float> start(static_cast<std::size_t>(m * ldy), before);
      y.upload(start.data(), y.bytes());
      device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      run({.y = y.as<float>(), .stride = ldy, .bias = biases(), .adds = !std::isnan(before)},
          stream.get());
      stream.synchronize();
      return y.values<float>();
    };
    const std::vector<float> first = once();
    const std::vector<float> second = once();
    EXPECT_EQ(0, std::memcmp(first.data(), second.data(), first.size() * 4)) << "other bits";
    return first;
  }
};

std::vector<float> some_biases(std::int64_t n) {
  std::vector<float> bias(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < bias.size(); ++i) {
    bias[i] = static_cast<float>(i % 7) - 3.0f;
  }
  return bias;
}

TEST_F(MediumBatch, EveryFormatOverRaggedShapes) {
  struct Size {
    std::int64_t n;
    std::int64_t k;
    int clusters;
  };
  const Size sizes[] = {{64, 128, 1},  {1, 32, 1},    {200, 1024, 5}, {130, 416, 1},
                        {16, 2048, 1}, {600, 640, 9}, {72, 1400, 2},  {700, 384, 3}};
  const std::string schemes[] = {
      "int4-sym-g128", "int4-asym-g128", "int4-sym-row",  "int3-asym-g128", "int8-sym-row",
      "int8-sym-g128", "lut4-fp4-g128",  "lut4-row-g128", "int2-sym-row",   "lut3-row-g128"};
  std::uint64_t seed = 1;
  for (const std::string& scheme : schemes) {
    for (const Size& size : sizes) {
      const auto weight = cpu::testing::random_weight(scheme, size.n, size.k, ++seed);
      const OnDevice on_device(weight);
      if (!has_medium_batch(on_device.view.format)) {
        GTEST_SKIP() << "this device has no products of warpgroups";
      }
      for (const Inputs kind : {Inputs::kInt8ByToken, Inputs::kInt8ByGroup, Inputs::kTwoDigits,
                                Inputs::kHalf, Inputs::kHalfWithSums}) {
        for (const std::int64_t m : {1, 9, 16, 17, 32, 33, 64}) {
          if (!takes(on_device.view.format, kind, m)) {
            continue;
          }
          const IntegerActivations x = activations_of(kind, m, on_device.view, ++seed);
          const auto bias = some_biases(seed % 2 == 0 ? size.n : 0);
          std::vector<double> magnitude;
          const std::vector<double> expected = reference(weight, x, bias, magnitude);
          const std::int64_t ldy = size.n + static_cast<std::int64_t>(seed % 3);
          // Schedules take turns, a third of them each time.
          const std::vector<MediumBatchSchedule> schedules = medium_batch_schedules(1);
          for (std::size_t turn = seed % 3; turn < schedules.size(); turn += 3) {
            MediumBatchSchedule schedule = schedules[turn];
            schedule.blocks = size.clusters * schedule.cluster;
            const Trial trial{on_device, InputsOnDevice(kind, x), m, schedule,
                              Buffer::of<float>(bias)};
            const std::vector<float> y = trial.results(ldy);
            const std::vector<float> sum = trial.results(ldy, 3.0f);
            for (std::int64_t token = 0; token < m; ++token) {
              for (std::int64_t n = 0; n < ldy; ++n) {
                const auto place = static_cast<std::size_t>(token * ldy + n);
                if (n >= size.n) {
                  ASSERT_TRUE(std::isnan(y[place]) && sum[place] == 3.0f) << "beyond the row";
                  continue;
                }
                const auto at = static_cast<std::size_t>(token * size.n + n);
                ASSERT_NEAR(y[place], expected[at], 2e-6 * magnitude[at] + 1e-30)
                    << scheme << ", n = " << size.n << ", k = " << size.k << ", m = " << m
                    << ", inputs " << static_cast<int>(kind) << ", row groups "
                    << schedule.row_groups << ", cluster " << schedule.cluster << ": token "
                    << token << ", row " << n;
                ASSERT_EQ(sum[place], 3.0f + y[place]) << "added to 3";
              }
            }
            expect_rounded(m, trial.results(size.n), size.n + size.n % 2 + 2 * (m % 3),
                           static_cast<int>(m), scheme + ", n = " + std::to_string(size.n),
                           [&](const HalfOutput& to) {
                             const device::cuda::Stream stream;
                             trial.run({.half = to, .bias = trial.biases()}, stream.get());
                             stream.synchronize();
                           });
            if (HasFatalFailure()) {
              return;
            }
          }
        }
      }
    }
  }
}

// Results in pairs become activation(gate) * up of what they are without.
TEST_F(MediumBatch, JoinsPairs) {
  std::uint64_t seed = 100;
  int runs = 0;
  for (const std::string scheme : {"int4-sym-g128", "int4-asym-g128", "int2-sym-g128"}) {
    for (const std::int64_t n : {64, 192, 624, 1280}) {
      const auto weight = cpu::testing::random_weight(scheme, n, 640, ++seed);
      const OnDevice on_device(weight);
      if (!has_medium_batch(on_device.view.format)) {
        GTEST_SKIP() << "this device has no products of warpgroups";
      }
      for (const Inputs kind : {Inputs::kHalf, Inputs::kHalfWithSums}) {
        for (const std::int64_t m : {9, 32, 33, 61}) {
          for (MediumBatchSchedule schedule : medium_batch_schedules(6)) {
            if (!takes(on_device.view.format, kind, m) ||
                !medium_batch_gates(on_device.view.format, schedule, m)) {
              continue;
            }
            const Trial trial{on_device,
                              InputsOnDevice(kind, activations_of(kind, m, on_device.view, ++seed)),
                              m, schedule, Buffer::of<float>(some_biases(seed % 2 == 0 ? n : 0))};
            const std::vector<float> y = trial.results(n);
            const bool tiles = n % 64 == 0;
            const auto activation = static_cast<MlpActivation>(runs++ % 4);
            const std::int64_t stride = n / 2 + 16;
            const Buffer halves = poisoned<core::Fp16>(m * stride);
            const device::cuda::Stream stream;
            trial.run(
                {.half = {halves.data(), stride, activation, true, tiles}, .bias = trial.biases()},
                stream.get());
            stream.synchronize();
            const auto found = halves.values<core::Fp16>();
            for (std::int64_t token = 0; token < m; ++token) {
              for (std::int64_t i = 0; i < n / 2; i += 8) {
                const auto pair = static_cast<std::size_t>(token * n + 2 * i);
                float expected[8];
                cpu::activate_gated(activation, &y[pair], &y[pair + 8], expected, 8);
                for (std::int64_t e = 0; e < 8; ++e) {
                  const std::int64_t at = tiles ? float16_tile_position(i + e) : i + e;
                  const float value =
                      core::to_float(found[static_cast<std::size_t>(token * stride + at)]);
                  const float right = std::clamp(expected[e], -65504.0f, 65504.0f);
                  ASSERT_NEAR(value, right, 1e-3 * std::abs(right) + 1e-5)
                      << scheme << ", n = " << n << ", m = " << m << ", activation "
                      << static_cast<int>(activation) << ": token " << token << ", " << i + e;
                }
              }
              for (std::int64_t i = n / 2; i < stride; ++i) {
                ASSERT_EQ(found[static_cast<std::size_t>(token * stride + i)].bits, 0xffff);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(runs, 40);
}

TEST(MediumBatchChecks, WhatHasNoKernelIsRefused) {
  MediumBatchProblem problem;
  problem.weight.n = 64;
  problem.weight.k = 128;
  problem.m = 65;
  EXPECT_THROW(medium_batch(problem, {}, nullptr), core::Error);
  problem.m = 32;
  float y = 0.0f;
  problem.output.y = &y;
  EXPECT_THROW(medium_batch(problem, {1, 1, 1}, nullptr), core::Error) << "digits";
  problem.m = 16;
  core::Fp16 half;
  problem.output = {.half = {.values = &half, .stride = 32, .pairs = true}};
  EXPECT_THROW(medium_batch(problem, {4, 1, 1}, nullptr), core::Error) << "pairs of digits";
  problem.x.values = &half;
  EXPECT_THROW(medium_batch(problem, {1, 2, 2}, nullptr), core::Error) << "pairs in two threads";
  problem.output = {.y = &y};
  problem.x.sums = &y;
  problem.weight.format.codes = CodeKind::kInt4WithZeros;
  EXPECT_THROW(medium_batch(problem, {1, 1, 1}, nullptr), core::Error) << "sums";
  problem.weight.format.codes = CodeKind::kInt8;
  EXPECT_THROW(medium_batch(problem, {1, 1, 1}, nullptr), core::Error) << "float16";
  problem.x = {.digits = 1};
  problem.weight.format.codes = CodeKind::kInt3;
  EXPECT_THROW(medium_batch(problem, {1, 1, 1}, nullptr), core::Error) << "one digit for planes";
  problem.weight.format.codes = CodeKind::kInt8;
  problem.x = {};
  EXPECT_THROW(medium_batch(problem, {3, 1, 1}, nullptr), core::Error);
  EXPECT_THROW(medium_batch(problem, {1, 2, 3}, nullptr), core::Error);
  problem.weight.format.groups = 4;
  EXPECT_THROW(medium_batch(problem, {}, nullptr), core::Error);
}

TEST(MediumBatchChecks, MoreThan16TokensOfInt4ComeAsFloat16) {
  const UnitFormat int4;
  EXPECT_EQ(medium_batch_input(int4, 16), InputForm::kByteTiles);
  EXPECT_EQ(medium_batch_input(int4, 17), InputForm::kFloat16Summed);
  EXPECT_EQ(medium_batch_input({CodeKind::kInt4WithZeros}, 64), InputForm::kFloat16Tiles);
  EXPECT_EQ(medium_batch_input({CodeKind::kInt8}, 64), InputForm::kByteTiles);
  EXPECT_EQ(medium_batch_input({CodeKind::kBook}, 17), InputForm::kByteTiles);
  EXPECT_EQ(medium_batch_input({CodeKind::kInt2}, 17), InputForm::kFloat16Summed);
  EXPECT_EQ(medium_batch_input({CodeKind::kInt3WithZeros}, 17), InputForm::kFloat16Tiles);
  EXPECT_EQ(medium_batch_input({CodeKind::kBook3}, 17), InputForm::kByteTiles);
}

// Four results of a lane are two pairs; partners share what a lane has: 16 of 32 tokens.
TEST(MediumBatchChecks, PairsAreJoinedWhereAThreadHasBoth) {
  const UnitFormat int4;
  EXPECT_TRUE(medium_batch_gates(int4, {4, 1, 132}, 32));
  EXPECT_TRUE(medium_batch_gates(int4, {4, 2, 132}, 32));
  EXPECT_TRUE(medium_batch_gates(int4, {2, 2, 132}, 32));
  EXPECT_TRUE(medium_batch_gates(int4, {1, 1, 132}, 32));
  EXPECT_FALSE(medium_batch_gates(int4, {1, 2, 132}, 32));
  EXPECT_TRUE(medium_batch_gates(int4, {1, 2, 132}, 33)) << "32 results, four partners";
  EXPECT_FALSE(medium_batch_gates({CodeKind::kBook}, {4, 1, 132}, 32));
}

TEST(MediumBatchChecks, SchedulesUseTheWholeDevice) {
  for (const std::int64_t n : {16, 4096, 11008, 28672, 128256}) {
    UnitsView weight;
    weight.n = n;
    weight.k = 4096;
    const MediumBatchSchedule schedule = medium_batch_schedule(weight, 132);
    EXPECT_EQ(schedule.blocks % schedule.cluster, 0) << n;
    EXPECT_LE(schedule.blocks, 132) << n;
    EXPECT_GE(schedule.blocks, n >= 4096 ? 128 : 1) << n;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
