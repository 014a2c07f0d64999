#include <cmath>
#include <deque>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/tensor.h"
#include "core/threads.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/device_arrays_for_tests.h"

// Operators between layers over matrices of float16, beside the same ones in float32.
namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kInputs = 384;
constexpr std::int64_t kWidth = 512;
constexpr double kHalf = 1.1e-3;       // a float16 or its neighbour
constexpr double kRoundedBias = 1e-3;  // cuBLASLt takes biases in float16

class HalfCudaLayers : public device::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) {
      made_.emplace(StepLimits{});
    }
  }
  CudaOps& ops() { return *made_; }

  /// A layer on the device, which knows dense ones by their addresses: all of a test stay.
  const LinearSet& layer(int id, const std::string& scheme, std::int64_t n, std::int64_t k) {
    LinearSet& set = sets_.emplace_back();
    set.id = id;
    const auto seed = static_cast<std::uint64_t>(id + 1);
    const auto weight = [&] {
      return scheme == "f16"
                 ? formats::dense_weight(core::from_float32(cpu::testing::random_input(n, k, seed),
                                                            {n, k}, core::DType::kF16))
                 : cpu::testing::random_weight(scheme, n, k, seed);
    };
    set.parts.push_back({"layer", weight(), cpu::testing::random_input(1, n, seed + 10)});
    UnitPacker packer(pool_, 1 << 16);
    ops().prepare(set, packer);
    return set;
  }

  /// A matrix of that type; values are what float16 holds.
  DeviceMatrix upload(const std::vector<float>& values, std::int64_t m, MatrixType type) {
    ops().synchronize();  // its memory may have been that of an operator
    DeviceMatrix x = ops().matrix(m, std::ssize(values) / m, type);
    if (type == MatrixType::kFloat32) {
      copy(x.data(), values.data(), values.size() * sizeof(float));
      return x;
    }
    std::vector<core::Fp16> halves;
    for (const float value : values) {
      halves.push_back(saturated_fp16(value));
    }
    copy(x.halves(), halves.data(), halves.size() * sizeof(core::Fp16));
    return x;
  }
  static void copy(void* to, const void* from, std::size_t bytes) {
    device::cuda::check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
    device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  std::vector<float> download(const DeviceMatrix& y) {
    ops().synchronize();
    std::vector<float> result(static_cast<std::size_t>(y.count()));
    if (!y.is_half()) {
      copy(result.data(), y.data(), result.size() * sizeof(float));
      return result;
    }
    std::vector<core::Fp16> halves(result.size());
    copy(halves.data(), y.halves(), halves.size() * sizeof(core::Fp16));
    for (std::size_t i = 0; i < halves.size(); ++i) {
      result[i] = core::to_float(halves[i]);
    }
    return result;
  }

  static std::vector<float> half_values(std::int64_t m, std::int64_t k, std::uint64_t seed) {
    std::vector<float> values = cpu::testing::random_input(m, k, seed);
    for (float& value : values) {
      value = core::to_float(saturated_fp16(value));
    }
    return values;
  }

 private:
  core::ThreadPool pool_{1};
  std::deque<LinearSet> sets_;
  std::optional<CudaOps> made_;
};

std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values) {
    value = core::to_float(saturated_fp16(value));
  }
  return values;
}

/// The length of the difference, relative to that of b.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double differences = 0;
  double squares = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    differences += std::pow(static_cast<double>(a.at(i)) - static_cast<double>(b[i]), 2);
    squares += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(differences / squares);
}

// By the kernel, or behind it where something is added to the product, or the kernel refuses.
TEST_F(HalfCudaLayers, ResultsAreThoseOfFloat32Rounded) {
  for (const std::string scheme :
       {"int8-sym-row-a8", "int4-sym-g128", "int8-sym-row-a8-asym", "int8-sym-row-a8-h128",
        "int4-sym-g128-a4g128-tail128", "int8-sym-row-a8o", "f16"}) {
    for (const std::int64_t n : {kWidth, std::int64_t{37}}) {
      const LinearSet& set = layer(0, scheme, n, kInputs);
      for (const std::int64_t m : {1, 5, 19, 40, 70, 300}) {
        const std::vector<float> x = half_values(m, kInputs, 4);
        CudaOps::Input wide = ops().input(upload(x, m, MatrixType::kFloat32), set);
        CudaOps::Input half = ops().input(upload(x, m, MatrixType::kFloat16), set);
        const DeviceMatrix y = ops().linear(half, set);
        EXPECT_TRUE(y.is_half());
        const std::vector<float> found = download(y);
        const std::vector<float> expected = rounded(download(ops().linear(wide, set)));
        const std::string what =
            scheme + ", " + std::to_string(m) + " tokens, " + std::to_string(n) + " rows";
        if (scheme == "f16") {
          EXPECT_LT(distance(found, expected), kRoundedBias) << what;
        } else {
          EXPECT_LT(worst_error(found, expected, 1e-2), kHalf) << what;
        }
      }
    }
  }
}

// A code beside the middle of two may be the other one.
TEST_F(HalfCudaLayers, ActivationsStandBetweenTwoLayers) {
  for (const std::string scheme : {"int8-sym-row-a8", "int4-sym-g128", "int8-sym-row-a8-asym"}) {
    const LinearSet& up = layer(0, scheme, kWidth, kInputs);
    const LinearSet& down = layer(1, scheme, kInputs, kWidth);
    for (const std::int64_t m : {1, 19, 70, 300}) {
      const std::vector<float> x = half_values(m, kInputs, 4);
      const auto run = [&](MatrixType type) {
        CudaOps::Input input = ops().input(upload(x, m, type), up);
        CudaOps::Input middle = ops().linear(input, up, ActivateInto{MlpActivation::kGelu, down});
        return download(ops().linear(middle, down));
      };
      EXPECT_LT(distance(run(MatrixType::kFloat16), run(MatrixType::kFloat32)), 1e-2)
          << scheme << ", " << m << " tokens";
    }
  }
}

TEST_F(HalfCudaLayers, TheStreamIsWhatLayersRead) {
  Norm norm;
  norm.kind = NormKind::kLayer;
  norm.weight = cpu::testing::random_input(1, kInputs, 5);
  norm.bias = cpu::testing::random_input(1, kInputs, 6);
  for (const std::string scheme :
       {"int8-sym-row-a8", "int4-sym-g128", "int8-sym-row-a8-h128", "f16"}) {
    const LinearSet& set = layer(0, scheme, kWidth, kInputs);
    for (const std::int64_t m : {1, 19, 300}) {
      DeviceMatrix x = upload(half_values(m, kInputs, 7), m, MatrixType::kFloat16);
      const DeviceMatrix delta = upload(half_values(m, kInputs, 8), m, MatrixType::kFloat16);
      CudaOps::Input made = ops().post_norm(x, delta, norm, set);
      ASSERT_TRUE(x.is_half());
      CudaOps::Input of_stream = ops().input(x, set);
      EXPECT_EQ(download(ops().linear(made, set)), download(ops().linear(of_stream, set)))
          << scheme << ", " << m << " tokens";
    }
  }
}

TEST_F(HalfCudaLayers, TheEndOfTheRangeFailsAStep) {
  const LinearSet& set = layer(0, "int8-sym-row-a8", kWidth, kInputs);
  std::vector<float> x = half_values(3, kInputs, 4);
  const auto step = [&] {
    ops().input(upload(x, 3, MatrixType::kFloat16), set);
    ops().synchronize();
  };
  step();
  EXPECT_NO_THROW(ops().check_range());
  x[400] = -65504.0f;
  step();
  EXPECT_THROW(ops().check_range(), core::Error);
  EXPECT_NO_THROW(ops().check_range());
}

TEST_F(HalfCudaLayers, OperatorsOfFloat32RefuseFloat16) {
  DeviceMatrix sum = ops().zeros(3, kInputs);
  const DeviceMatrix x = upload(half_values(3, kInputs, 4), 3, MatrixType::kFloat16);
  EXPECT_THROW(ops().add(sum, x), core::Error);
  EXPECT_THROW(ops().scatter_add(sum, x, {}), core::Error);
  EXPECT_EQ(download(ops().widened(upload(half_values(3, kInputs, 4), 3, MatrixType::kFloat16))),
            half_values(3, kInputs, 4));
}

}  // namespace
}  // namespace nibble::ops::cuda
