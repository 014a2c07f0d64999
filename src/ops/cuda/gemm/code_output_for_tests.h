#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/gemm/gemm.h"

namespace nibble::ops::cuda {

/// That the codes which `run(output)` has written when it returns are those of `halves` [tokens,
/// rows], what the same product gives as float16; that scales are filled in, that nothing beside
/// the codes has changed, and that the end of the range is noticed.
template <class Run>
void expect_codes(std::int64_t tokens, const std::vector<float>& halves, CodeOutput form,
                  const std::string& what, Run&& run) {
  constexpr std::int8_t kPoison = 0x55;
  const std::int64_t rows = std::ssize(halves) / tokens;
  const auto codes = device::cuda::Buffer::of<std::int8_t>(
      std::vector<std::int8_t>(static_cast<std::size_t>((tokens + 1) * form.stride), kPoison));
  const auto scales = device::cuda::Buffer::of<float>(
      std::vector<float>(static_cast<std::size_t>(tokens) + 1, -1.0f));
  const auto flag = device::cuda::Buffer::of<std::int32_t>(std::vector<std::int32_t>{0});
  form.codes = codes.as<std::int8_t>();
  form.scales = scales.as<float>();
  form.saturated = flag.as<std::int32_t>();
  run(form);
  std::vector<std::int8_t> all = codes.values<std::int8_t>();
  const float top = form.bits == 8 ? 127.0f : 7.0f;
  const float low = form.bits == 8 ? -127.0f : -8.0f;
  bool ends = false;
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const float value = halves[static_cast<std::size_t>(token * rows + row)];
      const float quotient = value * (1.0f / form.scale);
      std::int8_t& code =
          all[static_cast<std::size_t>(token * form.stride + int8_tile_position(row))];
      ASSERT_EQ(code, std::nearbyint(std::clamp(quotient, low, top)))
          << what << ": token " << token << ", row " << row;
      code = kPoison;
      ends = ends || std::fabs(value) >= 65504.0f;
    }
  }
  EXPECT_EQ(std::ssize(all), std::count(all.begin(), all.end(), kPoison))
      << what << ": values outside of the result";
  std::vector<float> filled(static_cast<std::size_t>(tokens) + 1, form.scale);
  filled.back() = -1.0f;
  EXPECT_EQ(scales.values<float>(), filled) << what;
  EXPECT_EQ(flag.values<std::int32_t>()[0], ends ? 1 : 0) << what;
}

}  // namespace nibble::ops::cuda
