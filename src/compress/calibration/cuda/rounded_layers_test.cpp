#include "compress/calibration/cuda/rounded_layers.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "compress/backend/cuda/backend_for_tests.h"
#include "compress/coding/coded_weight.h"
#include "core/random_values_for_tests.h"
#include "ops/cpu/cpu_ops.h"

// Layers whose activations are rounded, beside the CPU's.
namespace nibble::compress::cuda {
namespace {

using formats::parse_scheme;
using formats::Scheme;

ops::Linear some_layer(const std::string& name, const Scheme& scheme, std::int64_t n,
                       std::int64_t k, std::uint64_t seed, core::ThreadPool& pool) {
  const std::vector<float> weights = core::normal_values(n * k, seed);
  std::vector<std::int32_t> order(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < order.size(); ++i) {  // 5 and k have no common divisor
    order[i] = static_cast<std::int32_t>(i * 5 % order.size());
  }
  const CodedWeight coded =
      round_with(weights, n, k, scheme, fit_parameters(weights, n, k, scheme, pool), pool);
  return {name, pack(coded, n, k, scheme, pool, order), core::normal_values(n, seed + 1)};
}

class CudaRoundedLayers : public GpuBackendTest, public testing::WithParamInterface<const char*> {};

TEST_P(CudaRoundedLayers, ComputeWhatTheCpuComputes) {
  const Scheme scheme = parse_scheme(GetParam());
  constexpr std::int64_t kInputs = 512;
  ops::LinearSet set;
  set.id = 0;
  set.parts.push_back(some_layer("first", scheme, 96, kInputs, 1, pool_));
  set.parts.push_back(some_layer("second", scheme, 40, kInputs, 3, pool_));
  ops::cpu::CpuOps cpu({2, ops::ActivationPrecision::kFloat});
  cpu.prepare(set);
  RoundedLayers layers(gpu_->gpu(), pool_);
  auto device_pool = std::make_shared<ops::cuda::DevicePool>();
  for (std::size_t part = 0; part < set.parts.size(); ++part) {
    ASSERT_TRUE(RoundedLayers::serves(set.parts[part]));
    layers.load(set, part);
  }
  for (const std::int64_t m : {1, 17, 300, 2048}) {
    std::vector<float> values = core::normal_values(m * kInputs, 7);
    for (std::size_t i = 5; i < values.size(); i += 37) {
      values[i] *= 10.0f;
    }
    ops::cpu::Matrix x = cpu.zeros(m, kInputs);
    std::copy(values.begin(), values.end(), x.row(0));
    auto input = cpu.input(x, set);
    const ops::cpu::Matrix expected = cpu.linear(input, set);
    const ops::cuda::DeviceMatrix on_device(device_pool, m, kInputs);
    gpu_->gpu().upload(std::span<const float>(values), on_device.data());
    ops::cuda::DeviceMatrix y(device_pool, m, set.n());
    layers.run(set.parts[0], on_device, y, 0);
    layers.run(set.parts[1], on_device, y, set.parts[0].weight.n);
    std::vector<float> got(static_cast<std::size_t>(m * set.n()));
    gpu_->gpu().download(y.data(), std::span(got));
    float largest = 0;
    for (const float value : expected.values()) {
      largest = std::max(largest, std::fabs(value));
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected.values()[i], 2e-5f * largest) << m << " tokens, " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CudaRoundedLayers,
    testing::Values("int8-sym-row-a8", "int8-sym-row-a8o", "int4-sym-g128-a4-asym",
                    "int4-asym-g64-a8", "lut4-nf4-g128-a8", "int4-sym-g128-a4c0.9-hrow",
                    "int4-sym-g128-a4g128c0.9-tail128", "int3-sym-g128-a3g128c0.9-tail16",
                    "int4-sym-g128-a4g128c0.9-h128-tail128", "lut4-fp4-g128-afp4g128-tail128",
                    "lut4-fp4-g128-afp4g128-h128-tail128", "int8-sym-row-afp4"),
    [](const auto& parameter) {
      std::string name = parameter.param;
      for (char& letter : name) {
        letter = std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
      }
      return name;
    });

using CudaRoundedLayersRefusals = GpuBackendTest;

TEST_F(CudaRoundedLayersRefusals, Adapters) {
  ops::LinearSet set;
  set.id = 0;
  set.parts.push_back(some_layer("layer", parse_scheme("int8-sym-row-a8"), 16, 64, 1, pool_));
  set.parts.front().low_rank.emplace();
  RoundedLayers layers(gpu_->gpu(), pool_);
  EXPECT_THROW(layers.load(set, 0), core::Error);
}

}  // namespace
}  // namespace nibble::compress::cuda
