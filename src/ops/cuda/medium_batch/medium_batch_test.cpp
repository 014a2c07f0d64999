#include "ops/cuda/medium_batch/medium_batch.h"

#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/small_batch/trial_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

// Twice, into memory of NaN; the bits must be the same.
std::vector<float> run(const OnDevice& weight, const IntegerActivations& x, bool scale_of_token,
                       const MediumBatchSchedule& schedule, std::span<const float> bias,
                       std::int64_t ldy) {
  const Buffer codes = Buffer::of<std::int8_t>(x.in_tile_order());
  const Buffer scales = Buffer::of<float>(x.scales);
  const Buffer biases = Buffer::of<float>(bias);
  const Buffer y(x.m * ldy * 4);
  const device::cuda::Stream stream;
  const auto once = [&] {
    device::cuda::check(cudaMemset(y.data(), 0xff, static_cast<std::size_t>(y.bytes())),
                        "cudaMemset");
    device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    MediumBatchProblem problem;
    problem.weight = weight.view;
    problem.x = {x.digits, codes.as<std::int8_t>(), scales.as<float>(), scale_of_token};
    problem.m = x.m;
    problem.y = y.as<float>();
    problem.ldy = ldy;
    problem.bias = bias.empty() ? nullptr : biases.as<float>();
    medium_batch(problem, schedule, stream.get());
    stream.synchronize();
    return y.values<float>();
  };
  const std::vector<float> first = once();
  const std::vector<float> second = once();
  EXPECT_EQ(0, std::memcmp(first.data(), second.data(), first.size() * 4)) << "other bits";
  return first;
}

using MediumBatch = device::GpuTest;

TEST_F(MediumBatch, EveryFormatOverRaggedShapes) {
  struct Size {
    std::int64_t n;
    std::int64_t k;
    int clusters;
  };
  const Size sizes[] = {{64, 128, 1},  {1, 32, 1},    {200, 1024, 5}, {130, 416, 1},
                        {16, 2048, 1}, {600, 640, 9}, {72, 1400, 2},  {700, 384, 3}};
  const std::string schemes[] = {"int4-sym-g128",  "int4-asym-g128", "int4-sym-row",
                                 "int3-asym-g128", "int8-sym-row",   "int8-sym-g128",
                                 "lut4-fp4-g128",  "lut4-row-g128"};
  std::uint64_t seed = 1;
  for (const std::string& scheme : schemes) {
    for (const Size& size : sizes) {
      const auto weight = cpu::testing::random_weight(scheme, size.n, size.k, ++seed);
      const OnDevice on_device(weight);
      if (!has_medium_batch(on_device.view.format)) {
        GTEST_SKIP() << "this device has no products of warpgroups";
      }
      struct Inputs {
        int digits;
        bool scale_of_token;
      };
      for (const auto& [digits, scale_of_token] :
           {Inputs{1, true}, Inputs{1, false}, Inputs{2, false}}) {
        for (const std::int64_t m : {1, 9, 16, 17, 32, 33, 64}) {
          if (m * digits > max_medium_batch_columns(digits)) {
            continue;
          }
          const IntegerActivations x = random_activations(
              m, size.k, digits, ++seed, scale_of_token ? on_device.padded_k() : kUnitInputs);
          std::vector<float> bias(seed % 2 == 0 ? static_cast<std::size_t>(size.n) : 0);
          for (std::size_t i = 0; i < bias.size(); ++i) {
            bias[i] = static_cast<float>(i % 7) - 3.0f;
          }
          std::vector<double> magnitude;
          const std::vector<double> expected = reference(weight, x, bias, magnitude);
          const std::int64_t ldy = size.n + static_cast<std::int64_t>(seed % 3);
          for (MediumBatchSchedule schedule : medium_batch_schedules(1)) {
            schedule.blocks = size.clusters * schedule.cluster;
            const std::vector<float> y = run(on_device, x, scale_of_token, schedule, bias, ldy);
            for (std::int64_t token = 0; token < m; ++token) {
              for (std::int64_t n = 0; n < ldy; ++n) {
                const float got = y[static_cast<std::size_t>(token * ldy + n)];
                if (n >= size.n) {
                  ASSERT_TRUE(std::isnan(got)) << "written beyond the row";
                  continue;
                }
                const auto at = static_cast<std::size_t>(token * size.n + n);
                ASSERT_NEAR(got, expected[at], 2e-6 * magnitude[at] + 1e-30)
                    << scheme << ", n = " << size.n << ", k = " << size.k << ", m = " << m
                    << ", digits " << digits << ", row groups " << schedule.row_groups
                    << ", cluster " << schedule.cluster << ": token " << token << ", row " << n;
              }
            }
          }
        }
      }
    }
  }
}

TEST(MediumBatchChecks, WhatHasNoKernelIsRefused) {
  MediumBatchProblem problem;
  problem.weight.n = 64;
  problem.weight.k = 128;
  problem.m = 65;
  EXPECT_THROW(medium_batch(problem, {}, nullptr), core::Error);
  problem.m = 32;
  EXPECT_THROW(medium_batch(problem, {3, 1, 1}, nullptr), core::Error);
  EXPECT_THROW(medium_batch(problem, {1, 2, 3}, nullptr), core::Error);
  problem.weight.format.groups = 4;
  EXPECT_THROW(medium_batch(problem, {}, nullptr), core::Error);
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
