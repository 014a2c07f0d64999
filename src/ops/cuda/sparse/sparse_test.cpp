#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cpu/sparse/sparse_weights_for_tests.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/small_batch/trial_for_tests.h"
#include "ops/cuda/sparse/sparse_few.h"
#include "ops/cuda/sparse/sparse_packer.h"

// The kernels of block-sparse rows beside plain loops in double.
namespace nibble::ops::cuda {
namespace {

using cpu::testing::sparse_weight;
using device::cuda::Buffer;
using formats::PackedWeight;

SparseRows on_device(const PackedWeight& weight, const SparsePlan& plan) {
  core::ThreadPool pool(1);
  return SparseRows(pack_sparse({{&weight}, false}, plan, pool), nullptr);
}

Buffer on_device_values(std::int64_t count, std::uint64_t seed, float shift) {
  std::vector<float> values = normal_values(count, seed);
  for (float& value : values) {
    value += shift;
  }
  return Buffer::of<float>(values);
}

struct Call {
  std::span<const float> bias = {};
  std::span<const float> before = {};  // y, to which the result is added
  std::int64_t ldy = 0;
};

/// y [m][ldy] of a first and a second launch, which must have the same bits.
std::vector<float> run(const SparseRows& weight, const IntegerActivations& x, const Call& call) {
  const Buffer codes = Buffer::of<std::int8_t>(x.in_lane_order());
  const Buffer scales = Buffer::of<float>(x.scales);
  const Buffer bias = Buffer::of<float>(call.bias);
  const device::cuda::Stream stream;
  std::vector<float> results[2];
  for (std::vector<float>& result : results) {
    const Buffer y =
        call.before.empty() ? poisoned<float>(x.m * call.ldy) : Buffer::of<float>(call.before);
    device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    SparseFewProblem problem;
    problem.weight = &weight.view();
    problem.x = {x.digits, codes.as<std::int8_t>(), scales.as<float>(), x.step == 0};
    problem.scale_step = x.step;
    problem.m = x.m;
    problem.y = y.as<float>();
    problem.ldy = call.ldy;
    problem.bias = call.bias.empty() ? nullptr : bias.as<float>();
    problem.add = !call.before.empty();
    sparse_few(problem, stream.get());
    stream.synchronize();
    result = y.values<float>();
  }
  EXPECT_EQ(0, std::memcmp(results[0].data(), results[1].data(), results[0].size() * 4));
  return results[0];
}

IntegerActivations token_of(const IntegerActivations& x, std::int64_t token) {
  IntegerActivations one{1, x.k, x.digits, {}, {}, x.step};
  const std::int64_t scales = std::ssize(x.scales) / x.m;
  one.codes.assign(x.codes.begin() + token * x.k, x.codes.begin() + (token + 1) * x.k);
  one.scales.assign(x.scales.begin() + token * scales, x.scales.begin() + (token + 1) * scales);
  return one;
}

struct Size {
  std::int64_t n, k;
  SparsePlan plan;
};
constexpr Size kSizes[] = {{1, 16, {1, 1}},      {3, 128, {2, 4}},       {17, 576, {5, 2}},
                           {200, 64, {7, 8}},    {64, 1536, {3, 16}},    {2200, 208, {2, 16}},
                           {20, 32768, {4, 16}}, {130, 4096, {132, 32}}, {96, 320, {4, 4, true}},
                           {300, 1024, {30, 16}}};

using SparseRowsOnGpu = device::GpuTest;

TEST_F(SparseRowsOnGpu, AreTheReferenceOverRaggedShapes) {
  std::uint64_t seed = 1;
  for (const std::string scheme : {"int4-asym-g16-bsr", "int4-sym-g32-bsr", "int3-asym-g64-bsr",
                                   "int2-asym-g16-bsr", "int8-asym-g16-bsr", "int8-sym-g32-bsr"}) {
    for (const Size& size : kSizes) {
      if (size.k % formats::parse_scheme(scheme).scale.group != 0) {
        continue;
      }
      const PackedWeight weight = sparse_weight(scheme, size.n, size.k, ++seed);
      const SparseRows rows = on_device(weight, size.plan);
      for (const int digits : {1, 2}) {
        for (const std::int64_t m : {1, 2, 3, 4}) {
          if (m > max_sparse_tokens(rows.view(), digits)) {
            continue;
          }
          const bool fine = digits == 1 && seed % 2 == 0;
          const IntegerActivations x =
              random_activations(m, size.k, digits, ++seed, fine ? 16 : kUnitInputs);
          std::vector<float> bias(seed % 2 == 0 ? static_cast<std::size_t>(size.n) : 0);
          for (std::size_t i = 0; i < bias.size(); ++i) {
            bias[i] = static_cast<float>(i % 7) - 3.0f;
          }
          const std::int64_t ldy = size.n + static_cast<std::int64_t>(seed % 3);
          const std::vector<float> y = run(rows, x, {bias, {}, ldy});
          std::vector<double> magnitude;
          const std::vector<double> expected = reference(weight, x, bias, magnitude);
          for (std::int64_t i = 0; i < m * ldy; ++i) {
            const float got = y[static_cast<std::size_t>(i)];
            if (i % ldy >= size.n) {
              ASSERT_TRUE(std::isnan(got)) << "written behind the row";
              continue;
            }
            const auto at = static_cast<std::size_t>(i / ldy * size.n + i % ldy);
            ASSERT_NEAR(got, expected[at], 2e-6 * magnitude[at] + 1e-30)
                << scheme << " " << size.n << " x " << size.k << ", m " << m << ", digits "
                << digits << ": token " << i / ldy << ", row " << i % ldy;
          }
        }
      }
    }
  }
}

TEST_F(SparseRowsOnGpu, HaveExactIntegers) {
  PackedWeight weight = sparse_weight("int4-asym-g16-bsr", 192, 1024, 5);
  for (core::Fp16& scale : weight.scales.mutable_data<core::Fp16>()) {
    scale = core::to_fp16(1.0f);
  }
  const SparseRows rows = on_device(weight, {5, 8});
  for (const int digits : {1, 2}) {
    IntegerActivations x = random_activations(3, weight.k, digits, 6);
    for (std::int32_t& code : x.codes) {
      code %= 500;  // all sums stay below 2^24
    }
    std::fill(x.scales.begin(), x.scales.end(), 1.0f);
    const std::vector<float> y = run(rows, x, {{}, {}, weight.n});
    std::vector<double> magnitude;
    const std::vector<double> expected = reference(weight, x, {}, magnitude);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(static_cast<double>(y[i]), expected[i]) << i;
    }
  }
}

TEST_F(SparseRowsOnGpu, GiveATokenTheSameBitsInEveryBatch) {
  const PackedWeight weight = sparse_weight("int4-asym-g16-bsr", 448, 2048, 8);
  const SparseRows rows = on_device(weight, {6, 16});
  for (const int digits : {1, 2}) {
    const IntegerActivations x = random_activations(4, weight.k, digits, 9);
    std::vector<float> alone;
    for (std::int64_t token = 0; token < x.m; ++token) {
      const std::vector<float> y = run(rows, token_of(x, token), {{}, {}, weight.n});
      alone.insert(alone.end(), y.begin(), y.end());
    }
    for (const std::int64_t m : {2, 3, 4}) {
      IntegerActivations some = x;
      some.m = m;
      some.codes.resize(static_cast<std::size_t>(m * x.k));
      some.scales.resize(x.scales.size() * static_cast<std::size_t>(m) / 4);
      const std::vector<float> y = run(rows, some, {{}, {}, weight.n});
      EXPECT_EQ(0, std::memcmp(y.data(), alone.data(), y.size() * 4)) << m << " tokens";
    }
  }
}

TEST_F(SparseRowsOnGpu, AddToWhatIsThere) {
  const PackedWeight weight = sparse_weight("int4-asym-g16-bsr", 2200, 208, 10);  // rows: 2 rounds
  const SparseRows rows = on_device(weight, {2, 16});
  const IntegerActivations x = random_activations(3, weight.k, 2, 11);
  const std::vector<float> before = normal_values(3 * weight.n, 12);
  const std::vector<float> bias = normal_values(weight.n, 13);
  const std::vector<float> alone = run(rows, x, {bias, {}, weight.n});
  const std::vector<float> added = run(rows, x, {bias, before, weight.n});
  for (std::size_t i = 0; i < added.size(); ++i) {
    ASSERT_EQ(added[i], before[i] + alone[i]) << i;
  }
}

// The norm as a kernel of its own, and the layer by itself: the same bits. Of one digit with a
// scale of the token too, clipped or not.
TEST_F(SparseRowsOnGpu, MakeNormsAsTheOperatorDoes) {
  struct NormSize {
    std::int64_t m, n, k;
    SparsePlan plan;
  };
  struct Codes {
    int bits;
    float clip;
  };
  std::uint64_t seed = 20;
  for (const NormSize& size : {NormSize{1, 200, 4096, {5, 16}},
                               {2, 640, 4096, {7, 32}},
                               {4, 48, 2048, {1, 8}},
                               {3, 64, 144, {1, 2}},
                               {1, 96, 8192, {3, 16}}}) {
    if (max_normed_sparse_rows(size.k, NormKind::kRms) < size.m) {
      GTEST_SKIP() << "this GPU has too little shared memory for it";
    }
    const SparseRows rows =
        on_device(sparse_weight("int4-asym-g16-bsr", size.n, size.k, ++seed), size.plan);
    const Buffer x = on_device_values(size.m * size.k, ++seed, 0.1f);
    const Buffer norm_weight = on_device_values(size.k, ++seed, 1.0f);
    const NormWeights norm{NormKind::kRms, norm_weight.as<float>(), nullptr, 1e-5f};
    const std::int64_t padded = padded_columns(size.k);
    const Buffer codes(size.m * 2 * padded);
    const Buffer scales(size.m * padded / 128 * 4);
    for (const Codes& kind : {Codes{16, 1.0f}, {8, 1.0f}, {8, 0.7f}}) {
      const Buffer apart = poisoned<float>(size.m * size.n);
      const Buffer joined = poisoned<float>(size.m * size.n);
      device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      const device::cuda::Stream stream;
      InputTarget target;
      target.form = InputForm::kInt8Lanes;
      target.codes = codes.as<std::int8_t>();
      target.scales = scales.as<float>();
      target.bits = kind.bits;
      target.clip = kind.clip;
      target.group = kind.bits == 16 ? 128 : 0;
      cuda::norm(x.as<float>(), norm, target, size.m, size.k, stream.get());
      SparseFewProblem problem;
      problem.weight = &rows.view();
      problem.scale_step = target.group;
      problem.m = size.m;
      problem.ldy = size.n;
      problem.x = {target.digits(), target.codes, target.scales, target.group == 0};
      problem.y = apart.as<float>();
      sparse_few(problem, stream.get());
      problem.x.codes = nullptr;
      problem.x.scales = nullptr;
      problem.rows = {.x = x.as<float>(), .norm = &norm, .clip = kind.clip};
      problem.y = joined.as<float>();
      sparse_few(problem, stream.get());
      stream.synchronize();
      EXPECT_EQ(apart.values<float>(), joined.values<float>())
          << size.n << " x " << size.k << ", " << kind.bits << " bits, clip " << kind.clip;
    }
  }
}

TEST_F(SparseRowsOnGpu, WidenedAreEachWeightRoundedOnce) {
  std::uint64_t seed = 40;
  for (std::size_t i = 0; i < 2 * std::size(kSizes); ++i) {
    const Size& size = kSizes[i / 2];
    const PackedWeight weight = sparse_weight(
        i % 2 == 0 ? "int4-asym-g16-bsr" : "int8-asym-g16-bsr", size.n, size.k, ++seed);
    const SparseRows rows = on_device(weight, size.plan);
    std::vector<float> row(static_cast<std::size_t>(size.k));
    for (const auto& [first, count] :
         {std::pair<std::int64_t, std::int64_t>{0, size.n}, {size.n / 3, (size.n + 2) / 3}}) {
      const Buffer wide = poisoned<core::Fp16>((count + 1) * size.k);
      const device::cuda::Stream stream;
      widen_rows(rows.view(), first, count, wide.as<core::Fp16>(), stream.get());
      stream.synchronize();
      const auto values = wide.values<core::Fp16>();
      for (std::int64_t n = 0; n < count; ++n) {
        formats::decode_row(weight, first + n, row);
        for (std::int64_t k = 0; k < size.k; ++k) {
          const float wanted = core::to_float(core::to_fp16(row[static_cast<std::size_t>(k)]));
          ASSERT_EQ(core::to_float(values[static_cast<std::size_t>(n * size.k + k)]), wanted)
              << size.n << " x " << size.k << ", row " << first + n << ", input " << k;
        }
      }
      EXPECT_EQ(values.back().bits, 0xffff) << "written behind the last row";
    }
  }
}

TEST_F(SparseRowsOnGpu, RefuseTooManyTokens) {
  const SparseRows rows = on_device(sparse_weight("int4-asym-g16-bsr", 4, 64, 1), {1, 1});
  const Buffer y = poisoned<float>(20);
  SparseFewProblem problem;
  problem.weight = &rows.view();
  problem.y = y.as<float>();
  const int most = max_sparse_tokens(rows.view(), problem.x.digits);
  EXPECT_EQ(most, 8);
  for (const int m : {0, most + 1}) {
    problem.m = m;
    EXPECT_THROW(sparse_few(problem, nullptr), core::Error);
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
