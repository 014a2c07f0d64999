#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ops/cpu/elementwise.h"
#include "ops/cuda/dense/dense_reference.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/gemm/gemm.h"

namespace nibble::ops::cuda {

/// The results [tokens, columns] that `run(output)` has written when it returns, of this form and
/// stride, in natural order. What lies beside them must be left alone.
template <class Run>
std::vector<float> half_results(std::int64_t tokens, std::int64_t columns, HalfOutput form,
                                Run&& run) {
  const device::cuda::Buffer halves = poisoned<core::Fp16>((tokens + 1) * form.stride);
  form.values = halves.data();
  run(form);
  std::vector<core::Fp16> all = halves.values<core::Fp16>();
  std::vector<float> inside;
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t at = form.tiles ? float16_tile_position(column) : column;
      core::Fp16& value = all[static_cast<std::size_t>(token * form.stride + at)];
      inside.push_back(core::to_float(value));
      value.bits = 0xffff;
    }
  }
  int overwritten = 0;
  for (const core::Fp16 value : all) {
    overwritten += value.bits == 0xffff ? 0 : 1;
  }
  EXPECT_EQ(overwritten, 0) << "values outside of the result";
  return inside;
}

/// That results in float16 are those in float32, y [tokens, rows], rounded: each bit without an
/// activation; with one, which `turn` chooses, as the CPU activates them. In both orders, where
/// there are rows for the tiles.
template <class Run>
void expect_rounded(std::int64_t tokens, const std::vector<float>& y, std::int64_t stride, int turn,
                    const std::string& what, Run&& run) {
  const std::int64_t rows = std::ssize(y) / tokens;
  std::vector<float> activated(y.size());
  for (const bool tiles : {false, true}) {
    if (tiles && rows % 32 != 0) {
      continue;
    }
    const std::string order = what + (tiles ? ", tile order" : "");
    HalfOutput form{.stride = stride, .tiles = tiles};
    const std::vector<float> plain = half_results(tokens, rows, form, run);
    const std::vector<float> rounded = rounded_to(core::DType::kF16, y);
    ASSERT_EQ(0, std::memcmp(plain.data(), rounded.data(), rounded.size() * sizeof(float)))
        << order;
    form.activation = static_cast<MlpActivation>((turn + (tiles ? 1 : 0)) % 5);
    cpu::activate(*form.activation, y.data(), activated.data(), std::ssize(y));
    ASSERT_LT(worst_error(half_results(tokens, rows, form, run),
                          rounded_to(core::DType::kF16, activated), 0.1),
              1.1e-3)
        << order << ", activation " << static_cast<int>(*form.activation);
  }
}

}  // namespace nibble::ops::cuda
