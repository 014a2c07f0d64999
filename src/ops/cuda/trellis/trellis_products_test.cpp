#include "ops/cuda/trellis/trellis_products.h"

#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda_devices.h"
#include "ops/cuda/sparse/half_products_for_tests.h"
#include "ops/cuda/trellis/trellis_packer.h"
#include "ops/cuda/trellis/trellis_weights_for_tests.h"

// The kernels of trellis codes, beside plain loops in double.
namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;
using formats::PackedWeight;

constexpr const char* kSchemes[] = {"trellis4-row", "trellis3-row", "trellis2-row"};

TrellisWeights on_device(const PackedWeight& weight) {
  core::ThreadPool pool(1);
  return TrellisWeights(pack_trellis({{&weight}, false}, pool), nullptr);
}

/// With scales of powers of two, weights in float16 are those of the kernel.
PackedWeight with_exact_scales(PackedWeight weight) {
  for (core::Fp16& scale : weight.scales.mutable_data<core::Fp16>()) {
    scale = core::to_fp16(core::to_float(scale) < 0.006f ? 0.00390625f : 0.0078125f);
  }
  return weight;
}

std::vector<float> run(const TrellisWeights& weight, const std::vector<core::Fp16>& x,
                       HalfCall call, int multiprocessors) {
  call.ldx = padded_columns(weight.view().k);
  return run_product(x, call, [&](const HalfProduct& product, cudaStream_t stream) {
    trellis_products({product, &weight.view(), multiprocessors}, stream);
  });
}

using TrellisProductsOnGpu = device::GpuTest;

// More and fewer tiles than thread blocks.
TEST_F(TrellisProductsOnGpu, AreTheReferenceOverRaggedShapes) {
  std::uint64_t seed = 1;
  for (const char* scheme : kSchemes) {
    for (const auto& [n, k] :
         {std::pair{16, 16}, {48, 80}, {176, 1536}, {16, 11008}, {2064, 208}}) {
      const PackedWeight weight = with_exact_scales(random_trellis(scheme, n, k, ++seed));
      const TrellisWeights trellis = on_device(weight);
      for (const int multiprocessors : {1, 132}) {
        SCOPED_TRACE(scheme);
        expect_products_of_batches(
            weight, n + 3, seed,
            [&](std::int64_t m, std::uint64_t of) { return padded_inputs(m, weight.k, of); },
            [&](const auto& x, const HalfCall& call) {
              return run(trellis, x, call, multiprocessors);
            });
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
}

// One weight of a row at a time: inputs that are 1 at one place.
TEST_F(TrellisProductsOnGpu, FindEachWeight) {
  constexpr std::int64_t kInputs = 80;
  for (const char* scheme : kSchemes) {
    const PackedWeight weight = random_trellis(scheme, 32, kInputs, 5);
    const TrellisWeights trellis = on_device(weight);
    for (std::int64_t input = 0; input < kInputs; ++input) {
      std::vector<float> x(static_cast<std::size_t>(padded_columns(kInputs)));
      x[static_cast<std::size_t>(input)] = 1.0f;
      HalfCall call;
      call.ldy = 32;
      const std::vector<float> y = run(trellis, to_halves(x), call, 132);
      std::vector<float> row(kInputs);
      for (std::int64_t n = 0; n < 32; ++n) {
        formats::decode_row(weight, n, row);
        ASSERT_EQ(y[static_cast<std::size_t>(n)], row[static_cast<std::size_t>(input)])
            << scheme << ", row " << n << ", input " << input;
      }
    }
  }
}

TEST_F(TrellisProductsOnGpu, ATokenHasTheSameBitsInEveryBatch) {
  for (const char* scheme : kSchemes) {
    const PackedWeight weight = random_trellis(scheme, 160, 1536, 3);
    const TrellisWeights trellis = on_device(weight);
    const std::vector<core::Fp16> x = padded_inputs(64, 1536, 4);
    for (const std::vector<std::int64_t>& batches :
         {std::vector<std::int64_t>{8, 1, 2, 5}, {64, 9, 16, 17, 32, 33}}) {
      HalfCall call{.m = batches.front(), .ldy = 160};
      const std::vector<float> all = run(trellis, x, call, 132);
      for (const std::int64_t m : batches) {
        call.m = m;
        const std::vector<float> some = run(trellis, x, call, 4);
        EXPECT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0)
            << scheme << ", " << m << " tokens";
      }
    }
  }
}

TEST_F(TrellisProductsOnGpu, BecomeTheFloat16ThatTheyAre) {
  for (const char* scheme : kSchemes) {
    const PackedWeight weight = random_trellis(scheme, 304, 1168, 6);
    const TrellisWeights trellis = on_device(weight);
    const std::vector<core::Fp16> w = halves_of(weight);
    for (const auto& [first, count] : {std::pair{0, 304}, {64, 128}, {256, 48}}) {
      const Buffer values = poisoned<core::Fp16>(count * weight.k);
      const device::cuda::Stream stream;
      device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      widen_trellis(trellis.view(), first, count, 2, values.as<core::Fp16>(), stream.get());
      stream.synchronize();
      const std::vector<core::Fp16> got = values.values<core::Fp16>();
      ASSERT_EQ(
          std::memcmp(got.data(), w.data() + first * weight.k, got.size() * sizeof(core::Fp16)), 0)
          << scheme << ", from row " << first;
    }
  }
}

TEST_F(TrellisProductsOnGpu, TakeNoMoreTokensThanTheySay) {
  const PackedWeight weight = random_trellis("trellis4-row", 16, 64, 9);
  const TrellisWeights trellis = on_device(weight);
  TrellisProblem problem;
  problem.weight = &trellis.view();
  for (const std::int64_t m : {std::int64_t{0}, kMostTrellisTokens + 1}) {
    problem.m = m;
    EXPECT_THROW(trellis_products(problem, nullptr), core::Error);
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
