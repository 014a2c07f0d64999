#include <cmath>
#include <random>
#include <string>

#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "formats/two_of_four.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/gemm/gemm_reference.h"
#include "ops/cuda/gemm/gemm_test_data.h"
#include "ops/cuda/two_of_four/kept_gemm.h"
#include "ops/cuda/two_of_four/kept_packer.h"
#include "ops/cuda/two_of_four/kept_weights_for_tests.h"

// INT8 activations and weights of which two of each four are stored, beside the reference of
// gemm_int8(): both kernels.
namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;
using formats::PackedWeight;

/// A weight as numbers; what is not stored is 0.
PlainWeights plain(const PackedWeight& weight) {
  PlainWeights plain;
  plain.rows = static_cast<int>(weight.n);
  plain.columns = static_cast<int>(weight.k);
  plain.group = static_cast<int>(weight.scheme.scale.group);
  const std::int64_t group = formats::group_size(weight.scheme, weight.k);
  std::vector<std::uint8_t> zeros(static_cast<std::size_t>(plain.groups()));
  std::vector<float> scales(zeros.size());
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(weight.k));
  for (std::int64_t row = 0; row < weight.n; ++row) {
    formats::unpack_zeros(weight, row, zeros);
    formats::unpack_scales(weight, row, scales);
    for (std::size_t k = 0; k < codes.size(); ++k) {
      codes[k] = zeros[k / static_cast<std::size_t>(group)];
    }
    formats::put_kept_codes(weight, row, 0, codes);
    for (std::size_t k = 0; k < codes.size(); ++k) {
      plain.values.push_back(codes[k] - zeros[k / static_cast<std::size_t>(group)]);
    }
    plain.scales.insert(plain.scales.end(), scales.begin(), scales.end());
  }
  return plain;
}

struct Problem {
  PackedWeight weight;
  PlainInt8Inputs inputs;
  std::vector<float> bias;

  Problem(const std::string& scheme, int n, int k, int tokens, std::uint64_t seed)
      : weight(kept_weight(scheme, n, k, seed)) {
    std::mt19937 random(static_cast<unsigned>(seed));
    inputs = make_int8_inputs(tokens, k, 0, -127, 127, random);
    bias.assign(seed % 2 == 0 ? static_cast<std::size_t>(n) : 0, 0.5f);
  }
  std::vector<float> reference() const {
    return reference_gemm_int8(plain(weight), nullptr, inputs, bias);
  }
  KeptWeights on_device() const {
    core::ThreadPool pool(1);
    return KeptWeights(pack_kept({{&weight}, false}, pool));
  }
};

/// y [tokens][n], poisoned before. start(view, codes, scales, bias, y, stream).
template <typename Start>
std::vector<float> run(const Problem& problem, const Start& start) {
  const auto padded = static_cast<int>(padded_columns(problem.weight.k));
  const KeptWeights weights = problem.on_device();
  const Buffer codes = Buffer::of<std::int8_t>(in_tile_order(problem.inputs, padded));
  const Buffer scales = Buffer::of<float>(problem.inputs.scales);
  const Buffer bias = Buffer::of<float>(problem.bias);
  const Buffer y = poisoned<float>(problem.inputs.tokens * problem.weight.n);
  const device::cuda::Stream stream;
  device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  start(weights.view(), codes.as<std::int8_t>(), scales.as<float>(),
        problem.bias.empty() ? nullptr : bias.as<float>(), y.as<float>(), stream.get());
  stream.synchronize();
  return y.values<float>();
}

std::vector<float> run_few(const Problem& problem) {
  return run(problem, [&](const KeptView& view, const std::int8_t* codes, const float* scales,
                          const float* bias, float* y, cudaStream_t stream) {
    KeptProblem kept;
    kept.weight = &view;
    kept.codes = codes;
    kept.scales = scales;
    kept.ldx = padded_columns(problem.weight.k);
    kept.m = problem.inputs.tokens;
    kept.y = y;
    kept.ldy = problem.weight.n;
    kept.bias = bias;
    kept_products(kept, stream);
  });
}

std::vector<float> run_many(const Problem& problem, const GemmPlan& plan) {
  return run(problem, [&](const KeptView& view, const std::int8_t* codes, const float* scales,
                          const float* bias, float* y, cudaStream_t stream) {
    const Int8Inputs inputs{codes, problem.inputs.tokens, padded_columns(problem.weight.k), scales};
    kept_gemm(plan, view, inputs, {.y = y, .stride = problem.weight.n, .bias = bias}, stream);
  });
}

constexpr std::pair<int, int> kShapes[] = {{128, 128}, {1, 4}, {48, 196}, {163, 1536}, {300, 640}};
const std::string kSchemes[] = {"int8-sym-row-2of4-a8",   "int4-sym-row-2of4-a8",
                                "int4-asym-row-2of4-a8",  "int8-sym-g128-2of4-a8",
                                "int4-asym-g128-2of4-a8", "int4-sym-g256-2of4-a4"};

using KeptIntegersOnGpu = device::GpuTest;

TEST_F(KeptIntegersOnGpu, OfFewTokensAreTheReference) {
  std::uint64_t seed = 1;
  for (const std::string& scheme : kSchemes) {
    for (const auto& [n, k] : kShapes) {
      for (const int tokens : {1, 8, 9, 33, 64}) {
        SCOPED_TRACE(scheme + " " + std::to_string(n) + " x " + std::to_string(k) + " " +
                     std::to_string(tokens));
        const Problem problem(scheme, n, k, tokens, ++seed);
        const std::vector<float> expected = problem.reference();
        const std::vector<float> y = run_few(problem);
        if (problem.weight.scheme.scale.group == 0) {
          ASSERT_EQ(first_difference(y, expected), -1);
          continue;
        }
        for (std::size_t i = 0; i < y.size(); ++i) {  // groups are summed in another order
          ASSERT_NEAR(y[i], expected[i], 1e-5f * std::fabs(expected[i]) + 2e-3f) << i;
        }
      }
    }
  }
}

TEST_F(KeptIntegersOnGpu, OfManyTokensAreTheReferenceInEveryBit) {
  if (!kept_gemm_runs()) {
    GTEST_SKIP() << "needs products of warpgroups (sm_90a)";
  }
  std::uint64_t seed = 1;
  for (const std::string& scheme : kSchemes) {
    for (const auto& [n, k] : kShapes) {
      for (const int tokens : {1, 17, 130, 301}) {
        SCOPED_TRACE(scheme + " " + std::to_string(n) + " x " + std::to_string(k) + " " +
                     std::to_string(tokens));
        const Problem problem(scheme, n, k, tokens, ++seed);
        const std::vector<float> expected = problem.reference();
        for (const GemmPlan& plan : kept_gemm_plans(kept_form(problem.weight.scheme))) {
          ASSERT_EQ(first_difference(run_many(problem, plan), expected), -1)
              << plan.token_tile << " in " << plan.cluster;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
