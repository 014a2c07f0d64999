#include "ops/cuda/two_of_four/kept_products.h"

#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/sparse/half_products_for_tests.h"
#include "ops/cuda/two_of_four/kept_packer.h"
#include "ops/cuda/two_of_four/kept_weights_for_tests.h"

// Products of which two of each four weights are stored, beside plain loops in double.
namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

KeptWeights on_device(const PackedWeight& weight) {
  core::ThreadPool pool(1);
  return KeptWeights(pack_kept({{&weight}, false}, pool));
}

std::vector<float> run(const KeptWeights& weight, const std::vector<core::Fp16>& x, HalfCall call) {
  call.ldx = padded_columns(weight.view().k);
  return run_product(x, call, [&](const HalfProduct& product, cudaStream_t stream) {
    kept_products({product, &weight.view()}, stream);
  });
}

using KeptProductsOnGpu = device::GpuTest;

TEST_F(KeptProductsOnGpu, AreTheReferenceOverRaggedShapes) {
  std::uint64_t seed = 1;
  for (const std::string scheme :
       {"f16-2of4", "int4-sym-g128-2of4", "int4-asym-g32-2of4", "int4-asym-g96-2of4",
        "int8-sym-row-2of4", "int8-asym-g64-2of4", "int8-asym-g256-2of4"}) {
    for (const auto& [n, k] : {std::pair{16, 128}, {1, 4}, {48, 196}, {163, 1536}, {40, 11008}}) {
      const PackedWeight weight = kept_weight(scheme, n, k, ++seed);
      const KeptWeights kept = on_device(weight);
      SCOPED_TRACE(scheme);
      expect_products_of_batches(
          weight, n + 3, seed,
          [&](std::int64_t m, std::uint64_t of) { return padded_inputs(m, weight.k, of); },
          [&](const auto& x, const HalfCall& call) { return run(kept, x, call); });
    }
  }
}

// One weight of a row at each place of each four, and inputs that tell their places.
TEST_F(KeptProductsOnGpu, FindEachPlaceOfAUnit) {
  constexpr std::int64_t kInputs = 128;
  std::vector<float> values(static_cast<std::size_t>(kInputs * kInputs));
  for (std::int64_t i = 0; i < kInputs; ++i) {
    values[static_cast<std::size_t>(i * kInputs + i)] = 1.0f;
  }
  const PackedWeight weight =
      formats::round_to_nearest(values, kInputs, kInputs, formats::parse_scheme("f16-2of4"));
  std::vector<float> x(static_cast<std::size_t>(kInputs));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i + 1);
  }
  HalfCall call;
  call.ldy = kInputs;
  EXPECT_EQ(run(on_device(weight), to_halves(x), call), x);
}

TEST_F(KeptProductsOnGpu, ATokenHasTheSameBitsInEveryBatch) {
  const PackedWeight weight = kept_weight("int4-asym-g128-2of4", 160, 1536, 3);
  const KeptWeights kept = on_device(weight);
  const std::vector<core::Fp16> x = padded_inputs(64, 1536, 4);
  HalfCall call{.m = 64, .ldy = 160};
  const std::vector<float> all = run(kept, x, call);
  for (const std::int64_t m : {1, 7, 16, 32}) {
    call.m = m;
    const std::vector<float> some = run(kept, x, call);
    EXPECT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0) << m;
  }
}

TEST_F(KeptProductsOnGpu, TakeNoMoreTokensThanTheySay) {
  const PackedWeight weight = kept_weight("int4-asym-g32-2of4", 16, 64, 9);
  const KeptWeights kept = on_device(weight);
  KeptProblem problem;
  problem.weight = &kept.view();
  for (const std::int64_t m : {std::int64_t{0}, kMostKeptTokens + 1}) {
    problem.m = m;
    EXPECT_THROW(kept_products(problem, nullptr), core::Error);
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
