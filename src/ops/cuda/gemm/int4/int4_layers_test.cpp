// Layers of 4-bit weights and activations on a GPU: what the table's entry computes of rows that
// become kInt4Tiles, and the codes themselves.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/threads.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cpu/packed/quantized_input.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/activation_codes/activation_codes.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/device_input.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/int4_tiles_for_tests.h"
#include "ops/cuda/linear/linear_kernels.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

class Int4Layers : public device::GpuTest {
 protected:
  // y of m tokens by a kernel of the table, as a device with 4-bit products has it.
  std::vector<float> run(const LinearKernel& kernel, const LayerProblem& problem,
                         const UnitSegment& segment, const Buffer& x) {
    const formats::Activation& activation = problem.linear.scheme.activation;
    const std::int64_t m = problem.linear.m;
    InputKey key;
    key.form = kernel.input_form(problem).value();
    key.bits = activation.bits;
    key.group = activation.group;
    key.clip = activation.clip;
    key.symmetric = activation.symmetric;
    key.scale_step = scale_step_of(problem.linear.scheme, problem.plan.shape.format);
    const device::cuda::Stream stream;
    DeviceInput input(memory_, key, m, problem.linear.k);
    input.round(x.as<float>(), stream.get());
    const Buffer y = poisoned<float>(m * problem.linear.n);
    kernel.run(problem, {.dense = {}, .segments = {&segment, 1}}, input.view(),
               {.y = y.as<float>(), .stride = problem.linear.n}, stream.get());
    stream.synchronize();
    return y.values<float>();
  }

  core::ThreadPool pool_{2};
  std::shared_ptr<DevicePool> memory_ = std::make_shared<DevicePool>();
};

TEST_F(Int4Layers, GiveTheBitsOfInt8Products) {
  constexpr std::int64_t kTokens = 70;
  for (const char* scheme :
       {"int4-sym-row-a4", "int4-asym-row-a4", "int4-asym-row-a4-asym", "int4-sym-g128-a4c0.9",
        "int4-asym-g128-a4g128", "int4-sym-g128-a4g128c0.9", "int4-asym-g128-a4g128-asym",
        "int4-sym-g256-a4g256", "int3-asym-g128-a3-asym"}) {
    for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{64, 128}, {150, 1000}}) {
      const formats::PackedWeight weight = cpu::testing::random_weight(scheme, n, k, 5);
      LinearProblem linear;
      linear.scheme = weight.scheme;
      linear.m = kTokens;
      linear.n = n;
      linear.k = k;
      const DeviceKernels device{132, false, nullptr, true};
      const LayerPlan plan = plan_layer(linear_shape(weight.scheme, n, k),
                                        Schedules({"NVIDIA Test", 132, 13}), device);
      UnitPacker packer(pool_);
      const UnitSegment segment(UnitRows{{&weight}}, plan, packer);
      const Buffer x = on_device(normal_values(kTokens * k, 6));
      const LayerProblem problem{linear, plan};
      const LinearKernel& kernel = choose_kernel(linear_kernels(), problem);
      ASSERT_EQ(kernel.name, "int4-gemm") << scheme;
      const std::vector<float> y = run(kernel, problem, segment, x);
      const std::vector<float> expected = run(gemm_kernel(), problem, segment, x);
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0)
          << scheme << ", " << n << " x " << k;
      EXPECT_TRUE(std::isfinite(y.back())) << scheme;
    }
  }
}

/// Rows of activations, as kInt4Tiles on the device: by elementwise.h or by activation_codes.h.
struct Made {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::vector<std::int32_t> zeros;

  Made(const std::vector<float>& x, std::int64_t m, const formats::Activation& activation,
       bool by_rows) {
    const std::int64_t columns = std::ssize(x) / m;
    const std::int64_t padded = padded_columns(columns);
    const std::int64_t steps = activation.group == 0 ? 1 : padded / activation.group;
    const Buffer device_x = on_device(x);
    const Buffer to = poisoned<std::uint8_t>(m * padded / kInt4PerByte);
    const Buffer of_steps = poisoned<float>(m * steps);
    const Buffer less = on_device(std::vector<std::int32_t>(static_cast<std::size_t>(m * steps)));
    std::int32_t* const zeros_to = activation.symmetric ? nullptr : less.as<std::int32_t>();
    const device::cuda::Stream stream;
    if (by_rows) {
      InputTarget target;
      target.form = InputForm::kInt4Tiles;
      target.codes = to.as<std::int8_t>();
      target.scales = of_steps.as<float>();
      target.zeros = zeros_to;
      target.bits = activation.bits;
      target.symmetric = activation.symmetric;
      target.group = activation.group;
      target.clip = activation.clip;
      input(device_x.as<float>(), target, m, columns, stream.get());
    } else {
      ActivationCodes target;
      target.form = InputForm::kInt4Tiles;
      target.bits = activation.bits;
      target.symmetric = activation.symmetric;
      target.clip = activation.clip;
      target.group = activation.group;
      target.scale_step = activation.group;
      target.codes = to.as<std::int8_t>();
      target.row_bytes = padded / kInt4PerByte;
      target.scales = of_steps.as<float>();
      target.scale_stride = steps;
      target.zeros = zeros_to;
      activation_codes(device_x.as<float>(), columns, m, columns, target, stream.get());
    }
    stream.synchronize();
    codes = to.values<std::uint8_t>();
    scales = of_steps.values<float>();
    zeros = less.values<std::int32_t>();
  }
};

// Bytes and scales are those that the CPU's codes give, less the zeros that the device names.
void expect_codes_of_cpu(const Made& made, const std::vector<float>& x, std::int64_t m,
                         const formats::Activation& activation, const std::string& what) {
  const std::int64_t columns = std::ssize(x) / m;
  const std::int64_t padded = padded_columns(columns);
  const std::int64_t layout = activation.group == 0 ? 128 : activation.group;
  const std::int64_t steps = activation.group == 0 ? 1 : padded / activation.group;
  core::ThreadPool pool(1);
  cpu::QuantizedInput rounded;
  cpu::quantize_input(x.data(), m, columns, columns, {layout, activation}, rounded, pool);
  std::vector<std::uint8_t> expected;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t step = 0; step < steps; ++step) {
      const float scale = made.scales[static_cast<std::size_t>(i * steps + step)];
      const float right = rounded.scales(i)[step];
      ASSERT_TRUE(scale == right || (std::isnan(scale) && std::isnan(right))) << what;
    }
    std::vector<int> row;
    for (std::int64_t k = 0; k < padded; ++k) {
      const std::int64_t step = activation.group == 0 ? 0 : k / activation.group;
      const std::int32_t zero = made.zeros[static_cast<std::size_t>(i * steps + step)];
      const int code =
          k < columns ? rounded.codes(i)[k / layout * rounded.group_stride() + k % layout] : 0;
      ASSERT_TRUE(zero + code >= -8 && zero + code <= 7) << what << ", row " << i << ": " << zero;
      row.push_back(zero + code);
    }
    const auto bytes = int4_tiles_row(row, static_cast<int>(padded), 0);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(made.codes, expected) << what;
}

TEST_F(Int4Layers, RowsBecomeTheCodesOfTheCpu) {
  for (const formats::Activation& activation : {formats::Activation{4},
                                                {4, true, 128},
                                                {4, true, 128, 0.9f},
                                                {4, true, 0, 0.8f},
                                                {4, false},
                                                {4, false, 128, 0.95f}}) {
    for (const auto& [m, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                     {3, 40},
                                     {4, 128},
                                     {300, 416},
                                     {5, 4096},
                                     {2, 20000}}) {
      std::vector<float> x = normal_values(m * columns, 7);
      if (m >= 3) {
        std::fill_n(x.begin(), columns, 0.0f);
        x[static_cast<std::size_t>(columns)] = std::numeric_limits<float>::infinity();
      }
      for (const bool by_rows : {true, false}) {
        const std::string what = formats::to_string(activation) + ", " + std::to_string(m) + " x " +
                                 std::to_string(columns) + (by_rows ? ", by rows" : "");
        expect_codes_of_cpu(Made(x, m, activation, by_rows), x, m, activation, what);
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
