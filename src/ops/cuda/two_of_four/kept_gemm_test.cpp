#include "ops/cuda/two_of_four/kept_gemm.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "device/cuda/gpu_for_tests.h"
#include "ops/cuda/gemm/half_output_for_tests.h"
#include "ops/cuda/sparse/half_products_for_tests.h"
#include "ops/cuda/two_of_four/kept_packer.h"
#include "ops/cuda/two_of_four/kept_weights_for_tests.h"

// Products of warpgroups with weights of which two of each four are stored, beside plain loops in
// double.
namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

class KeptGemmOnGpu : public device::GpuTest {
 protected:
  void SetUp() override {
    device::GpuTest::SetUp();
    if (!IsSkipped() && !kept_gemm_runs()) {
      GTEST_SKIP() << "needs products of warpgroups (sm_90a)";
    }
  }
};

KeptWeights on_device(const UnitRows& rows) {
  core::ThreadPool pool(1);
  return KeptWeights(pack_kept(rows, pool));
}

std::vector<float> run(const GemmPlan& plan, const KeptWeights& weight,
                       const std::vector<core::Fp16>& x, const HalfCall& call) {
  return run_product(x, call, [&](const HalfProduct& product, cudaStream_t stream) {
    kept_gemm(plan, weight.view(),
              HalfInputs{product.x, static_cast<int>(product.m), 2 * product.ldx},
              {.y = product.y, .stride = product.ldy, .bias = product.bias, .adds = product.adds},
              stream);
  });
}

TEST_F(KeptGemmOnGpu, IsTheReferenceOverRaggedShapes) {
  std::uint64_t seed = 1;
  for (const std::string scheme :
       {"f16-2of4", "int4-sym-g128-2of4", "int4-asym-g32-2of4", "int4-asym-g96-2of4",
        "int8-sym-row-2of4", "int8-asym-g64-2of4", "int8-asym-g256-2of4"}) {
    for (const auto& [n, k] : {std::pair{128, 128}, {1, 4}, {48, 196}, {163, 1536}, {300, 260}}) {
      const PackedWeight weight = kept_weight(scheme, n, k, ++seed);
      const KeptWeights kept = on_device({{&weight}, false});
      const std::vector<core::Fp16> w = halves_of(weight);
      for (const std::int64_t m : {1, 17, 64, 201}) {
        SCOPED_TRACE(scheme);
        HalfCall call{.m = m, .ldx = padded_columns(k), .ldy = n + 3};
        const std::vector<core::Fp16> x = padded_inputs(m, k, ++seed);
        const std::vector<float> bias(seed % 2 == 0 ? static_cast<std::size_t>(n) : 0, 1.5f);
        const std::vector<float> before(m % 2 == 0 ? static_cast<std::size_t>(m * call.ldy) : 0,
                                        2.5f);
        call.bias = bias;
        call.before = before;
        const GemmPlan chosen = kept_gemm_plan(kept.view().form, n, static_cast<int>(m));
        const std::vector<float> y = run(chosen, kept, x, call);
        expect_product(w, n, k, x, call, y);
        if (HasFatalFailure()) {
          return;
        }
        for (const GemmPlan& plan : kept_gemm_plans(kept.view().form)) {
          const std::vector<float> other = run(plan, kept, x, call);
          ASSERT_EQ(std::memcmp(other.data(), y.data(), y.size() * sizeof(float)), 0)
              << "tiles of " << plan.token_tile;
        }
      }
    }
  }
}

TEST_F(KeptGemmOnGpu, ATokenHasTheSameBitsByEveryPlanAndInEveryBatch) {
  const PackedWeight weight = kept_weight("int4-asym-g128-2of4", 320, 1536, 3);
  const KeptWeights kept = on_device({{&weight}, false});
  const std::vector<core::Fp16> x = padded_inputs(300, 1536, 4);
  HalfCall call{.m = 300, .ldx = padded_columns(1536), .ldy = 320};
  const std::vector<float> all = run(kept_gemm_plans(kept.view().form).front(), kept, x, call);
  for (const GemmPlan& plan : kept_gemm_plans(kept.view().form)) {
    for (const std::int64_t m : {1, 17, 64, 300}) {
      call.m = m;
      const std::vector<float> some = run(plan, kept, x, call);
      EXPECT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0)
          << m << " tokens, tiles of " << plan.token_tile;
    }
  }
}

TEST_F(KeptGemmOnGpu, JoinsGateAndUp) {
  const PackedWeight gate = kept_weight("int4-asym-g128-2of4", 96, 320, 5);
  const PackedWeight up = kept_weight("int4-asym-g128-2of4", 96, 320, 6);
  const std::int64_t m = 70;
  const std::vector<core::Fp16> x = padded_inputs(m, 320, 7);
  HalfCall call{.m = m, .ldx = padded_columns(320), .ldy = 96};
  const GemmPlan plan = kept_gemm_plan(kept_form(gate.scheme), 192, static_cast<int>(m));
  const std::vector<float> gates = run(plan, on_device({{&gate}, false}), x, call);
  const std::vector<float> ups = run(plan, on_device({{&up}, false}), x, call);
  const KeptWeights both = on_device({{&gate, &up}, true});
  const auto inputs = device::cuda::Buffer::of<core::Fp16>(x);
  const HalfOutput form{.stride = 96, .activation = MlpActivation::kSilu, .pairs = true};
  const std::vector<float> results = half_results(m, 96, form, [&](const HalfOutput& half) {
    device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const device::cuda::Stream stream;
    kept_gemm(plan, both.view(), HalfInputs{inputs.data(), static_cast<int>(m), 2 * call.ldx},
              {.half = half}, stream.get());
    stream.synchronize();
  });
  for (std::size_t i = 0; i < results.size(); ++i) {
    const float expected = gates[i] / (1.0f + std::exp(-gates[i])) * ups[i];
    ASSERT_NEAR(results[i], expected, 2e-3f * std::fabs(expected) + 1e-5f) << i;
  }
}

TEST_F(KeptGemmOnGpu, RefusesPlansWithoutAKernel) {
  const PackedWeight weight = kept_weight("f16-2of4", 64, 128, 9);
  const KeptWeights kept = on_device({{&weight}, false});
  const std::vector<core::Fp16> x = padded_inputs(1, 128, 4);
  const HalfCall call{.m = 1, .ldx = 128, .ldy = 64};
  EXPECT_THROW(run({true, 64, 32, 1, 132}, kept, x, call), core::Error);
}

}  // namespace
}  // namespace nibble::ops::cuda
