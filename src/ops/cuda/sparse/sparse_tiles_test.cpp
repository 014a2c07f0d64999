#include "ops/cuda/sparse/sparse_tiles.h"

#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cpu/sparse/sparse_weights_for_tests.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/sparse/half_products_for_tests.h"
#include "ops/cuda/sparse/tile_packer.h"

// The kernels of tiles that keep the same groups, beside plain loops in double.
namespace nibble::ops::cuda {
namespace {

using cpu::testing::sparse_weight;
using device::cuda::Buffer;
using formats::PackedWeight;

std::vector<core::Fp16> random_halves(std::int64_t count, std::uint64_t seed) {
  return to_halves(normal_values(count, seed));
}

SparseTiles on_device(const PackedWeight& weight) {
  core::ThreadPool pool(1);
  return SparseTiles(pack_tiles({{&weight}, false}, pool), nullptr);
}

std::vector<float> run(const SparseTiles& weight, const std::vector<core::Fp16>& x,
                       const HalfCall& call) {
  return run_product(x, call, [&](const HalfProduct& product, cudaStream_t stream) {
    sparse_tiles({product, &weight.view()}, stream);
  });
}

using SparseTilesOnGpu = device::GpuTest;

TEST_F(SparseTilesOnGpu, AreTheReferenceOverRaggedShapes) {
  std::uint64_t seed = 1;
  for (const std::string scheme : {"int4-asym-g16-bsr-t16", "int4-sym-g32-bsr-t16",
                                   "int3-asym-g64-bsr-t16", "int2-asym-g16-bsr-t16"}) {
    for (const auto& [n, k] :
         {std::pair{16, 64}, {48, 192}, {160, 1536}, {32, 32768}, {2064, 320}}) {
      const PackedWeight weight = sparse_weight(scheme, n, k, ++seed);
      const SparseTiles tiles = on_device(weight);
      SCOPED_TRACE(scheme);
      const std::int64_t ldx = padded_columns(k);
      expect_products_of_batches(
          weight, n + 4, seed,
          [&](std::int64_t m, std::uint64_t of) { return random_halves(m * ldx, of); },
          [&](const auto& x, const HalfCall& call) { return run(tiles, x, call); });
    }
  }
}

// NaN and infinity reach the tiles that keep their group, and no other.
TEST_F(SparseTilesOnGpu, ReadOnlyWhatIsKept) {
  const PackedWeight weight = sparse_weight("int4-asym-g16-bsr-t16", 480, 144, 9);
  std::vector<core::Fp16> x = random_halves(256, 4);
  for (std::size_t i = 16; i < 32; ++i) {
    x[i] = core::Fp16{0x7e00};
  }
  HalfCall call;
  call.ldx = 256;
  call.ldy = 480;
  const std::vector<float> y = run(on_device(weight), x, call);
  std::vector<float> row(144);
  for (std::int64_t n = 0; n < 480; ++n) {
    bool reads = false;
    for (std::int64_t i = n / 16 * 16; i < n / 16 * 16 + 16; ++i) {
      formats::decode_row(weight, i, row);
      for (std::size_t j = 16; j < 32; ++j) {
        reads = reads || row[j] != 0.0f;
      }
    }
    EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(n)]), reads) << n;
  }
}

TEST_F(SparseTilesOnGpu, BecomeTheFloat16ThatTheyAre) {
  for (const std::string scheme : {"int4-asym-g16-bsr-t16", "int4-sym-g64-bsr-t16"}) {
    const PackedWeight weight = sparse_weight(scheme, 320, 1152, 6);
    const SparseTiles tiles = on_device(weight);
    const std::vector<core::Fp16> w = halves_of(weight);
    for (const auto& [first, count] : {std::pair{0, 320}, {64, 128}, {256, 64}}) {
      const Buffer values = poisoned<core::Fp16>(count * weight.k);
      const device::cuda::Stream stream;
      device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      widen_tiles(tiles.view(), first, count, values.as<core::Fp16>(), stream.get());
      stream.synchronize();
      const std::vector<core::Fp16> got = values.values<core::Fp16>();
      for (std::int64_t i = 0; i < count * weight.k; ++i) {
        ASSERT_EQ(core::to_float(got[static_cast<std::size_t>(i)]),
                  core::to_float(w[static_cast<std::size_t>(first * weight.k + i)]))
            << scheme << " " << first << " " << i;
      }
    }
  }
}

TEST_F(SparseTilesOnGpu, TakeNoMoreTokensThanTheySay) {
  const PackedWeight weight = sparse_weight("int4-asym-g16-bsr-t16", 16, 64, 9);
  const SparseTiles tiles = on_device(weight);
  TilesProblem problem;
  problem.weight = &tiles.view();
  for (const std::int64_t m : {std::int64_t{0}, kMostTileTokens + 1}) {
    problem.m = m;
    EXPECT_THROW(sparse_tiles(problem, nullptr), core::Error);
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
