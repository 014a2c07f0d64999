#include "ops/cuda/small_batch/small_batch.h"

#include <cmath>
#include <numeric>
#include <string>

#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/elementwise/ordered_rows.h"
#include "ops/cuda/gemm/half_output_for_tests.h"
#include "ops/cuda/small_batch/trial_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

std::vector<float> run(const OnDevice& weight, const IntegerActivations& x,
                       const SmallBatchSchedule& schedule, std::span<const float> bias,
                       std::int64_t ldy) {
  const Buffer codes = Buffer::of<std::int8_t>(x.in_lane_order());
  const Buffer scales = Buffer::of<float>(x.scales);
  const Buffer biases = Buffer::of<float>(bias);
  const Buffer y(x.m * ldy * 4);
  device::cuda::check(cudaMemset(y.data(), 0xff, static_cast<std::size_t>(y.bytes())),
                      "cudaMemset");  // NaN
  device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  SmallBatchProblem problem;
  problem.weight = weight.view;
  problem.x = {x.digits, codes.as<std::int8_t>(), scales.as<float>()};
  problem.m = x.m;
  problem.y = y.as<float>();
  problem.ldy = ldy;
  problem.bias = bias.empty() ? nullptr : biases.as<float>();
  const device::cuda::Stream stream;
  small_batch(problem, schedule, stream.get());
  stream.synchronize();
  const std::vector<float> first = y.values<float>();
  device::cuda::check(cudaMemset(y.data(), 0xff, static_cast<std::size_t>(y.bytes())),
                      "cudaMemset");
  device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  small_batch(problem, schedule, stream.get());
  stream.synchronize();
  const std::vector<float> second = y.values<float>();
  EXPECT_EQ(0, std::memcmp(first.data(), second.data(), first.size() * 4)) << "other bits";
  return first;
}

void run_to_half(const OnDevice& weight, const IntegerActivations& x,
                 const SmallBatchSchedule& schedule, std::span<const float> bias,
                 const HalfOutput& half) {
  const Buffer codes = Buffer::of<std::int8_t>(x.in_lane_order());
  const Buffer scales = Buffer::of<float>(x.scales);
  const Buffer biases = Buffer::of<float>(bias);
  SmallBatchProblem problem;
  problem.weight = weight.view;
  problem.x = {x.digits, codes.as<std::int8_t>(), scales.as<float>()};
  problem.m = x.m;
  problem.bias = bias.empty() ? nullptr : biases.as<float>();
  problem.half = half;
  const device::cuda::Stream stream;
  small_batch(problem, schedule, stream.get());
  stream.synchronize();
}

using SmallBatch = device::GpuTest;

TEST_F(SmallBatch, EveryFormatOverRaggedShapes) {
  struct Size {
    std::int64_t n;
    std::int64_t k;
    SmallBatchSchedule schedule;
  };
  const Size sizes[] = {{64, 128, {8, 2, 1}},  {1, 32, {4, 3, 1}},     {200, 1024, {12, 2, 5}},
                        {130, 416, {8, 8, 1}}, {16, 4096, {12, 3, 1}}, {600, 640, {4, 2, 30}},
                        {72, 2752, {3, 2, 2}}, {640, 256, {2, 4, 3}},  {48, 896, {12, 2, 4}}};
  const std::string schemes[] = {
      "int4-sym-g128",   "int4-asym-g128", "int4-sym-g32",  "int4-asym-g32",   "int4-sym-g64",
      "int4-sym-row",    "int3-asym-g64",  "int3-sym-row",  "int2-sym-g32",    "int8-sym-row",
      "int8-sym-g32",    "int8-asym-g128", "lut4-nf4-g64",  "lut4-fp4-g128",   "lut4-row-g128",
      "lut4-matrix-g32", "lut3-row-g128",  "mxfp4",         "nvfp4",           "int4-asym-g16",
      "int8-asym-g16",   "int4-sym-g48",   "int3-sym-g128", "int2-asym-g128",  "int2-asym-g32",
      "lut3-matrix-g32", "lut2-row-g128",  "lut2-row-g64",  "int3-sym-g128-a8"};
  std::uint64_t seed = 1;
  for (const std::string& scheme : schemes) {
    for (const Size& size : sizes) {
      const auto weight = cpu::testing::random_weight(scheme, size.n, size.k, ++seed);
      const OnDevice on_device(weight);
      for (const int digits : {1, 2}) {
        for (const std::int64_t m : {1, 5, 16, 32}) {
          if (m > max_small_batch(on_device.view.format, digits)) {
            continue;
          }
          const bool fine = digits == 1 && on_device.view.format.groups == 8;
          const IntegerActivations x =
              random_activations(m, size.k, digits, ++seed, fine ? 16 : kUnitInputs);
          std::vector<float> bias(seed % 2 == 0 ? static_cast<std::size_t>(size.n) : 0);
          for (std::size_t i = 0; i < bias.size(); ++i) {
            bias[i] = static_cast<float>(i % 7) - 3.0f;
          }
          const std::int64_t ldy = size.n + static_cast<std::int64_t>(seed % 3);
          const std::vector<float> y = run(on_device, x, size.schedule, bias, ldy);
          std::vector<double> magnitude;
          const std::vector<double> expected = reference(weight, x, bias, magnitude);
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
                  << ", digits " << digits << ": token " << token << ", row " << n;
            }
          }
          expect_rounded(
              m, run(on_device, x, size.schedule, bias, size.n), size.n + size.n % 2 + 2 * (m % 3),
              static_cast<int>(m), scheme + ", n = " + std::to_string(size.n),
              [&](const HalfOutput& to) { run_to_half(on_device, x, size.schedule, bias, to); });
          if (HasFatalFailure()) {
            return;
          }
        }
      }
    }
  }
}

TEST_F(SmallBatch, IntegersAreExact) {
  const std::int64_t k = 768;
  auto weight = cpu::testing::random_weight("int4-sym-g128", 192, k, 5);
  for (core::Fp16& scale : weight.scales.mutable_data<core::Fp16>()) {
    scale = core::to_fp16(1.0f);
  }
  const OnDevice on_device(weight);
  IntegerActivations x = random_activations(4, k, 2, 6);
  for (std::int32_t& code : x.codes) {
    code %= 2000;  // all sums stay below 2^24
  }
  std::fill(x.scales.begin(), x.scales.end(), 1.0f);
  const std::vector<float> y = run(on_device, x, {8, 2, 5}, {}, weight.n);
  std::vector<double> magnitude;
  const std::vector<double> expected = reference(weight, x, {}, magnitude);
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(static_cast<double>(y[i]), expected[i]) << i;
  }
}

TEST_F(SmallBatch, ATokenHasTheSameBitsInEveryBatch) {
  const std::int64_t k = 2048;
  for (const std::string scheme :
       {"int4-sym-g128", "int4-asym-g128", "int3-asym-g128", "int2-sym-g128", "lut3-row-g128"}) {
    const auto weight = cpu::testing::random_weight(scheme, 448, k, 8);
    const std::int64_t most = max_small_batch(unit_format_of(weight.scheme), 2);
    const OnDevice on_device(weight);
    const IntegerActivations x = random_activations(most, k, 2, 9);
    const std::vector<float> together = run(on_device, x, {12, 3, 6}, {}, weight.n);
    for (const std::int64_t token : {std::int64_t{0}, most / 2 - 1, most - 1}) {
      IntegerActivations one{1, k, 2, {}, {}};
      one.codes.assign(x.codes.begin() + token * k, x.codes.begin() + (token + 1) * k);
      one.scales.assign(x.scales.begin() + token * k / 128,
                        x.scales.begin() + (token + 1) * k / 128);
      const std::vector<float> alone = run(on_device, one, {12, 3, 6}, {}, weight.n);
      EXPECT_EQ(0, std::memcmp(alone.data(), together.data() + token * weight.n, alone.size() * 4))
          << scheme << ", token " << token;
    }
  }
}

/// What a layer does with rows of float32 before it rounds them.
struct Reading {
  bool normed;
  bool ordered;
};

// Operators for rows as kernels of their own, and the layer by itself: the same bits.
TEST_F(SmallBatch, MakesInputsOfRowsAsOperatorsDo) {
  struct Size {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
    SmallBatchSchedule schedule;
  };
  const Size sizes[] = {{1, 200, 4096, {12, 2, 5}}, {2, 640, 4096, {8, 2, 7}},
                        {4, 48, 2048, {3, 3, 1}},   {3, 64, 132, {12, 2, 1}},
                        {4, 130, 4, {2, 4, 1}},     {1, 96, 8192, {12, 2, 3}},
                        {2, 96, 4096, {12, 2, 3}},  {4, 72, 2048, {12, 2, 1}}};
  std::uint64_t seed = 50;
  for (const std::string scheme :
       {"int4-sym-g128", "int4-asym-g32", "int8-sym-row", "lut4-row-g128", "int4-asym-g16",
        "int3-sym-g128", "lut2-row-g32"}) {
    for (const Size& size : sizes) {
      const OnDevice weight(cpu::testing::random_weight(scheme, size.n, size.k, ++seed));
      if (max_float_rows(weight.view, NormKind::kRms) == 0) {
        GTEST_SKIP() << "this GPU has too little shared memory for it";
      }
      ASSERT_GE(max_float_rows(weight.view, NormKind::kRms), size.m);
      core::Random random(seed);
      const auto values = [&](std::int64_t count, double shift) {
        std::vector<float> all(static_cast<std::size_t>(count));
        for (float& each : all) {
          each = static_cast<float>(random.normal() + shift);
        }
        return all;
      };
      const Buffer x = Buffer::of<float>(values(size.m * size.k, 0.1));
      const Buffer norm_weight = Buffer::of<float>(values(size.k, 1.0));
      const std::vector<float> before = values(size.m * size.n, 0.0);
      const NormWeights norm{NormKind::kRms, norm_weight.as<float>(), nullptr, 1e-5f};
      std::vector<std::uint16_t> places(static_cast<std::size_t>(padded_columns(size.k)));
      std::iota(places.begin(), places.end(), std::uint16_t{0});
      const std::vector<std::int32_t> drawn = cpu::testing::random_order(size.k, random);
      std::copy(drawn.begin(), drawn.end(), places.begin());
      const Buffer order = Buffer::of<std::uint16_t>(places);
      const std::int64_t padded = weight.padded_k();
      const Buffer codes(size.m * 2 * padded);
      const Buffer scales(size.m * padded / 128 * 4);
      const device::cuda::Stream stream;
      SmallBatchProblem problem;
      problem.weight = weight.view;
      problem.m = size.m;
      problem.ldy = size.n;
      for (const auto& [normed, ordered] : {Reading{true, false}, Reading{true, true},
                                            Reading{false, true}, Reading{false, false}}) {
        const bool add = normed == ordered;
        const Buffer apart = Buffer::of<float>(before);
        const Buffer joined = Buffer::of<float>(before);
        problem.add = add;
        InputTarget target;
        target.form = InputForm::kInt8Lanes;
        target.codes = codes.as<std::int8_t>();
        target.scales = scales.as<float>();
        target.bits = 16;
        target.group = 128;
        const auto* const rows = x.as<float>();
        const auto* const places_of_inputs = ordered ? order.as<std::uint16_t>() : nullptr;
        if (normed && ordered) {
          ordered_norm(rows, norm, places_of_inputs, target, size.m, size.k, stream.get());
        } else if (normed) {
          cuda::norm(rows, norm, target, size.m, size.k, stream.get());
        } else if (ordered) {
          ordered_input(rows, places_of_inputs, target, size.m, size.k, stream.get());
        } else {
          cuda::input(rows, target, size.m, size.k, stream.get());
        }
        problem.x = {2, codes.as<std::int8_t>(), scales.as<float>()};
        problem.rows = {};
        problem.y = apart.as<float>();
        small_batch(problem, size.schedule, stream.get());
        problem.x = {2, nullptr, nullptr};
        problem.rows = {rows, normed ? &norm : nullptr, places_of_inputs};
        problem.y = joined.as<float>();
        small_batch(problem, size.schedule, stream.get());
        stream.synchronize();
        const std::vector<float> expected = apart.values<float>();
        const std::vector<float> got = joined.values<float>();
        ASSERT_FALSE(std::isnan(expected.front()));
        ASSERT_NE(expected, before);
        ASSERT_EQ(got, expected) << scheme << ", m = " << size.m << ", n = " << size.n
                                 << ", k = " << size.k << (normed ? ", normed" : "")
                                 << (ordered ? ", in order" : "");
      }
    }
  }
}

TEST_F(SmallBatch, AddsToWhatIsThere) {
  const auto weight = cpu::testing::random_weight("int4-sym-g128", 200, 512, 3);
  const OnDevice on_device(weight);
  for (const std::int64_t m : {1, 3, 8}) {
    const IntegerActivations x = random_activations(m, weight.k, 2, 7);
    const std::vector<float> product = run(on_device, x, {12, 2, 3}, {}, weight.n);
    const Buffer codes = Buffer::of<std::int8_t>(x.in_lane_order());
    const Buffer scales = Buffer::of<float>(x.scales);
    std::vector<float> before(product.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      before[i] = static_cast<float>(i % 11) - 5.0f;
    }
    const Buffer y = Buffer::of<float>(before);
    SmallBatchProblem problem;
    problem.weight = on_device.view;
    problem.x = {2, codes.as<std::int8_t>(), scales.as<float>()};
    problem.m = m;
    problem.y = y.as<float>();
    problem.ldy = weight.n;
    problem.add = true;
    const device::cuda::Stream stream;
    small_batch(problem, {12, 2, 3}, stream.get());
    stream.synchronize();
    const std::vector<float> sums = y.values<float>();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      ASSERT_EQ(sums[i], before[i] + product[i]) << m << " tokens, result " << i;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
