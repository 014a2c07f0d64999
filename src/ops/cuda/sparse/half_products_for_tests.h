#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/float16.h"
#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "formats/packed_weight.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/sparse/half_product.h"

/// Products with float16 activations beside plain loops in double.
namespace nibble::ops::cuda {

inline std::vector<core::Fp16> to_halves(std::span<const float> values) {
  std::vector<core::Fp16> halves;
  for (const float value : values) {
    halves.push_back(core::to_fp16(value));
  }
  return halves;
}

/// Random inputs [m][padded_columns(k)], which are 0 behind the k-th.
inline std::vector<core::Fp16> padded_inputs(std::int64_t m, std::int64_t k, std::uint64_t seed) {
  const std::int64_t ldx = padded_columns(k);
  std::vector<float> values = normal_values(m * ldx, seed);
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    values[static_cast<std::size_t>(i)] *= i % ldx < k ? 1.0f : 0.0f;
  }
  return to_halves(values);
}

/// Weights [n][k] as the kernels round them.
inline std::vector<core::Fp16> halves_of(const formats::PackedWeight& weight) {
  std::vector<core::Fp16> all;
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t n = 0; n < weight.n; ++n) {
    formats::decode_row(weight, n, row);
    const std::vector<core::Fp16> halves = to_halves(row);
    all.insert(all.end(), halves.begin(), halves.end());
  }
  return all;
}

struct HalfCall {
  std::int64_t m = 1;
  std::int64_t ldx = 0;
  std::int64_t ldy = 0;
  std::span<const float> bias = {};
  std::span<const float> before = {};  // y, to which the result is added
};

/// y [m][ldy], poisoned before: NaN where nothing was written. start(product, stream).
template <typename Start>
std::vector<float> run_product(const std::vector<core::Fp16>& x, const HalfCall& call,
                               const Start& start) {
  using device::cuda::Buffer;
  const Buffer inputs = Buffer::of<core::Fp16>(x);
  const Buffer bias = Buffer::of<float>(call.bias);
  const device::cuda::Stream stream;
  const Buffer y =
      call.before.empty() ? poisoned<float>(call.m * call.ldy) : Buffer::of<float>(call.before);
  device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  start(HalfProduct{inputs.as<core::Fp16>(), call.ldx, call.m, y.as<float>(), call.ldy,
                    call.bias.empty() ? nullptr : bias.as<float>(), !call.before.empty()},
        stream.get());
  stream.synchronize();
  return y.values<float>();
}

/// Whether y is the product with weights w [n][k], and nothing was written behind its rows.
inline void expect_product(const std::vector<core::Fp16>& w, std::int64_t n, std::int64_t k,
                           const std::vector<core::Fp16>& x, const HalfCall& call,
                           const std::vector<float>& y) {
  for (std::int64_t token = 0; token < call.m; ++token) {
    for (std::int64_t row = 0; row < call.ldy; ++row) {
      const auto at = static_cast<std::size_t>(token * call.ldy + row);
      if (row >= n) {
        ASSERT_TRUE(call.before.empty() ? std::isnan(y[at]) : y[at] == call.before[at])
            << "behind a row";
        continue;
      }
      double sum = 0.0;
      double magnitude = 0.0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double product =
            static_cast<double>(core::to_float(w[static_cast<std::size_t>(row * k + i)])) *
            static_cast<double>(core::to_float(x[static_cast<std::size_t>(token * call.ldx + i)]));
        sum += product;
        magnitude += std::fabs(product);
      }
      sum += call.bias.empty() ? 0.0f : call.bias[static_cast<std::size_t>(row)];
      sum += call.before.empty() ? 0.0f : call.before[at];
      // Tensor cores cut what they add; float32 has 24 bits.
      ASSERT_NEAR(y[at], sum, 4e-6 * magnitude + 1e-6 * std::fabs(sum) + 1e-6)
          << n << " x " << k << " m " << call.m << " token " << token << " row " << row;
    }
  }
}

/// Tokens in batches of every number of columns, with a bias or without, added or not. run(x, call)
/// is what is tested.
template <typename Inputs, typename Run>
void expect_products_of_batches(const formats::PackedWeight& weight, std::int64_t ldy,
                                std::uint64_t& seed, const Inputs& inputs, const Run& run) {
  const std::vector<core::Fp16> w = halves_of(weight);
  for (const std::int64_t m : {1, 2, 8, 9, 16, 17, 33, 64}) {
    HalfCall call;
    call.m = m;
    call.ldx = padded_columns(weight.k);
    call.ldy = ldy;
    const std::vector<core::Fp16> x = inputs(m, ++seed);
    std::vector<float> bias(seed % 2 == 0 ? static_cast<std::size_t>(weight.n) : 0);
    for (std::size_t i = 0; i < bias.size(); ++i) {
      bias[i] = static_cast<float>(i % 7) - 3.0f;
    }
    const std::vector<float> before(m % 2 == 0 ? static_cast<std::size_t>(m * call.ldy) : 0, 2.5f);
    call.bias = bias;
    call.before = before;
    expect_product(w, weight.n, weight.k, x, call, run(x, call));
    if (::testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

}  // namespace nibble::ops::cuda
