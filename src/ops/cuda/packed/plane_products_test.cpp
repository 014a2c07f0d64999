#include <cstring>
#include <string>
#include <vector>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/medium_batch/medium_batch.h"
#include "ops/cuda/small_batch/small_batch.h"
#include "ops/cuda/small_batch/trial_for_tests.h"

// Weights of 3 and 2 bits in planes give the bits that they give as 4-bit codes, in every product.
namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

struct Size {
  std::int64_t n;
  std::int64_t k;
};
constexpr Size kSizes[] = {{16, 128}, {200, 1000}, {64, 32}, {333, 640}, {1040, 264}};

/// A weight twice: as units hold it, and in nibbles, as they hold it where activations are rounded.
struct BothWays {
  formats::PackedWeight weight;
  OnDevice planes;
  OnDevice nibbles;

  BothWays(const std::string& scheme, const Size& size, std::uint64_t seed)
      : weight(cpu::testing::random_weight(scheme, size.n, size.k, seed)),
        planes(weight),
        nibbles(rounded(weight)) {}
  static formats::PackedWeight rounded(formats::PackedWeight weight) {
    weight.scheme.activation = formats::parse_scheme("int4-sym-g128-a8").activation;
    return weight;
  }
};

// float16 [m, padded] in tile order, zeros behind the k inputs.
Buffer half_inputs(std::int64_t m, std::int64_t k, std::int64_t padded, std::uint64_t seed) {
  const std::vector<float> values = normal_values(m * k, seed);
  std::vector<core::Fp16> halves(static_cast<std::size_t>(m * padded));
  for (std::int64_t i = 0; i < m * k; ++i) {
    halves[static_cast<std::size_t>(i / k * padded + float16_tile_position(i % k))] =
        core::to_fp16(values[static_cast<std::size_t>(i)]);
  }
  return Buffer::of<core::Fp16>(halves);
}

class PlaneProducts : public device::GpuTest {
 protected:
  // y [m, n] of `run(weight, y, stream)` must be the same both ways, and written everywhere.
  template <class Run>
  static void expect_same(const BothWays& both, std::int64_t m, const std::string& what,
                          const Run& run) {
    ASSERT_TRUE(has_planes(both.planes.view.format.codes)) << what;
    ASSERT_EQ(both.nibbles.view.format.bits(), 4) << what;
    const device::cuda::Stream stream;
    const auto results = [&](const UnitsView& weight) {
      const Buffer y = poisoned<float>(m * weight.n);
      run(weight, y.as<float>(), stream.get());
      stream.synchronize();
      return y.values<float>();
    };
    const std::vector<float> found = results(both.planes.view);
    const std::vector<float> expected = results(both.nibbles.view);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(std::memcmp(&found[i], &expected[i], sizeof(float)), 0)
          << what << ": token " << i / static_cast<std::size_t>(both.planes.view.n) << ", row "
          << i % static_cast<std::size_t>(both.planes.view.n) << ", " << found[i] << " and "
          << expected[i];
    }
  }
  static std::string name(const std::string& scheme, const Size& size, std::int64_t m) {
    return scheme + ", " + std::to_string(size.n) + " x " + std::to_string(size.k) + ", " +
           std::to_string(m) + " tokens";
  }
};

const std::vector<std::string> kSchemes = {
    "int3-sym-g128", "int3-asym-g128", "int3-asym-g32",   "int2-sym-row",  "int2-asym-g256",
    "int2-sym-g64",  "lut3-row-g128",  "lut3-matrix-g32", "lut2-row-g128", "lut2-matrix-g64"};

TEST_F(PlaneProducts, OfFewTokens) {
  std::uint64_t seed = 1;
  for (const std::string& scheme : kSchemes) {
    for (const Size& size : kSizes) {
      const BothWays both(scheme, size, ++seed);
      for (const std::int64_t m : {1, 4, 5, 8}) {
        const IntegerActivations x = random_activations(m, size.k, 2, ++seed);
        const Buffer codes = Buffer::of<std::int8_t>(x.in_lane_order());
        const Buffer scales = Buffer::of<float>(x.scales);
        for (const SmallBatchSchedule& schedule :
             {SmallBatchSchedule{12, 4, 1}, SmallBatchSchedule{5, 3, 3}}) {
          expect_same(both, m, name(scheme, size, m),
                      [&](const UnitsView& weight, float* y, cudaStream_t stream) {
                        SmallBatchProblem problem;
                        problem.weight = weight;
                        problem.x = {2, codes.as<std::int8_t>(), scales.as<float>()};
                        problem.m = m;
                        problem.y = y;
                        problem.ldy = weight.n;
                        small_batch(problem, schedule, stream);
                      });
        }
      }
    }
  }
}

TEST_F(PlaneProducts, OfMediumBatches) {
  std::uint64_t seed = 1000;
  for (const std::string& scheme : kSchemes) {
    for (const Size& size : kSizes) {
      const BothWays both(scheme, size, ++seed);
      const UnitFormat& format = both.planes.view.format;
      if (!medium_batch_runs()) {
        GTEST_SKIP() << "this device has no products of warpgroups";
      }
      EXPECT_EQ(has_medium_batch(format), format.groups == 1) << scheme;
      if (format.groups != 1) {
        continue;
      }
      for (const std::int64_t m : {9, 16, 17, 33, 64}) {
        const InputForm form = medium_batch_input(format, m);
        ASSERT_EQ(form, medium_batch_input(both.nibbles.view.format, m)) << scheme;
        const std::int64_t padded = both.planes.padded_k();
        const Buffer halves = half_inputs(m, size.k, padded, ++seed);
        const IntegerActivations x = random_activations(m, size.k, 2, ++seed);
        const Buffer codes = Buffer::of<std::int8_t>(x.in_tile_order());
        const Buffer scales = Buffer::of<float>(x.scales);
        const Buffer sums = Buffer::of<float>(std::vector<float>(
            static_cast<std::size_t>(padded / 128 * sum_stride_of(m)), 0x1p-18f));
        for (const MediumBatchSchedule& schedule : medium_batch_schedules(4)) {
          // Some without sums, as inputs come from products of gate and up.
          const bool summed = form == InputForm::kFloat16Summed && schedule.row_groups != 2;
          expect_same(both, m, name(scheme, size, m),
                      [&](const UnitsView& weight, float* y, cudaStream_t stream) {
                        MediumBatchProblem problem;
                        problem.weight = weight;
                        if (is_half(form)) {
                          problem.x.values = halves.as<core::Fp16>();
                          problem.x.sums = summed ? sums.as<float>() : nullptr;
                        } else {
                          problem.x.codes = codes.as<std::int8_t>();
                          problem.x.scales = scales.as<float>();
                        }
                        problem.m = m;
                        problem.output = {.y = y, .stride = weight.n};
                        medium_batch(problem, schedule, stream);
                      });
        }
      }
    }
  }
}

TEST_F(PlaneProducts, OfManyTokens) {
  std::uint64_t seed = 2000;
  for (const std::string& scheme : kSchemes) {
    for (const Size& size : kSizes) {
      const BothWays both(scheme, size, ++seed);
      const std::int64_t padded = both.planes.padded_k();
      for (const int m : {1, 65, 300}) {
        const Buffer halves = half_inputs(m, size.k, padded, ++seed);
        const GemmWeights weights{both.planes.view, false};
        const std::vector<GemmPlan> plans = gemm_plans(weights, GemmInputs::kHalf);
        EXPECT_EQ(plans.size(), medium_batch_runs() ? 4u : 1u) << scheme;
        for (const GemmPlan& plan : plans) {
          expect_same(both, m, name(scheme, size, m) + ", " + std::to_string(plan.token_tile),
                      [&](const UnitsView& weight, float* y, cudaStream_t stream) {
                        gemm_half(plan, {weight, false},
                                  {.values = halves.data(), .tokens = m, .row_bytes = 2 * padded},
                                  {.y = y, .stride = weight.n}, stream);
                      });
        }
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
