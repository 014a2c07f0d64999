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
#include "ops/cuda/sparse/tile_packer.h"

// The kernels of tiles that keep the same groups, beside plain loops in double.
namespace nibble::ops::cuda {
namespace {

using cpu::testing::sparse_weight;
using device::cuda::Buffer;
using formats::PackedWeight;

/// Weights [n][k] as the kernels round them.
std::vector<core::Fp16> halves_of(const PackedWeight& weight) {
  std::vector<core::Fp16> halves;
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t n = 0; n < weight.n; ++n) {
    formats::decode_row(weight, n, row);
    for (const float value : row) {
      halves.push_back(core::to_fp16(value));
    }
  }
  return halves;
}

std::vector<core::Fp16> random_halves(std::int64_t count, std::uint64_t seed) {
  std::vector<core::Fp16> halves;
  for (const float value : normal_values(count, seed)) {
    halves.push_back(core::to_fp16(value));
  }
  return halves;
}

SparseTiles on_device(const PackedWeight& weight) {
  core::ThreadPool pool(1);
  return SparseTiles(pack_tiles({{&weight}, false}, pool), nullptr);
}

struct Call {
  std::int64_t m = 1;
  std::int64_t ldx = 0;
  std::int64_t ldy = 0;
  std::span<const float> bias = {};
  std::span<const float> before = {};  // y, to which the result is added
};

std::vector<float> run(const SparseTiles& weight, const std::vector<core::Fp16>& x,
                       const Call& call) {
  const Buffer inputs = Buffer::of<core::Fp16>(x);
  const Buffer bias = Buffer::of<float>(call.bias);
  const device::cuda::Stream stream;
  const Buffer y =
      call.before.empty() ? poisoned<float>(call.m * call.ldy) : Buffer::of<float>(call.before);
  device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  TilesProblem problem;
  problem.weight = &weight.view();
  problem.x = inputs.as<core::Fp16>();
  problem.ldx = call.ldx;
  problem.m = call.m;
  problem.y = y.as<float>();
  problem.ldy = call.ldy;
  problem.bias = call.bias.empty() ? nullptr : bias.as<float>();
  problem.adds = !call.before.empty();
  sparse_tiles(problem, stream.get());
  stream.synchronize();
  return y.values<float>();
}

using SparseTilesOnGpu = device::GpuTest;

TEST_F(SparseTilesOnGpu, AreTheReferenceOverRaggedShapes) {
  std::uint64_t seed = 1;
  for (const std::string scheme : {"int4-asym-g16-bsr-t16", "int4-sym-g32-bsr-t16",
                                   "int3-asym-g64-bsr-t16", "int2-asym-g16-bsr-t16"}) {
    for (const auto& [n, k] :
         {std::pair{16, 64}, {48, 192}, {160, 1536}, {32, 32768}, {2064, 320}}) {
      const PackedWeight weight = sparse_weight(scheme, n, k, ++seed);
      const std::vector<core::Fp16> w = halves_of(weight);
      const SparseTiles tiles = on_device(weight);
      for (const std::int64_t m : {1, 2, 8, 9, 16, 17, 33, 64}) {
        Call call;
        call.m = m;
        call.ldx = padded_columns(k);
        call.ldy = n + 4;
        const std::vector<core::Fp16> x = random_halves(m * call.ldx, ++seed);
        std::vector<float> bias(seed % 2 == 0 ? static_cast<std::size_t>(n) : 0);
        for (std::size_t i = 0; i < bias.size(); ++i) {
          bias[i] = static_cast<float>(i % 7) - 3.0f;
        }
        const std::vector<float> before(m % 2 == 0 ? static_cast<std::size_t>(m * call.ldy) : 0,
                                        2.5f);
        call.bias = bias;
        call.before = before;
        const std::vector<float> y = run(tiles, x, call);
        for (std::int64_t token = 0; token < m; ++token) {
          for (std::int64_t row = 0; row < call.ldy; ++row) {
            const float got = y[static_cast<std::size_t>(token * call.ldy + row)];
            if (row >= n) {
              ASSERT_TRUE(before.empty() ? std::isnan(got) : got == 2.5f) << "behind a row";
              continue;
            }
            double sum = 0.0;
            double magnitude = 0.0;
            for (std::int64_t i = 0; i < k; ++i) {
              const double product =
                  static_cast<double>(core::to_float(w[static_cast<std::size_t>(row * k + i)])) *
                  static_cast<double>(
                      core::to_float(x[static_cast<std::size_t>(token * call.ldx + i)]));
              sum += product;
              magnitude += std::fabs(product);
            }
            sum += bias.empty() ? 0.0f : bias[static_cast<std::size_t>(row)];
            sum += before.empty() ? 0.0f : 2.5f;
            // Tensor cores cut what they add; float32 has 24 bits.
            ASSERT_NEAR(got, sum, 4e-6 * magnitude + 1e-6 * std::fabs(sum) + 1e-6)
                << scheme << " " << n << " x " << k << " m " << m << " token " << token << " row "
                << row;
          }
        }
      }
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
  Call call;
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
