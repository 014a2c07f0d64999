#include "ops/cuda/activation_codes/activation_codes.h"

#include <limits>
#include <string>

#include "core/threads.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cpu/packed/quantized_input.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaActivationCodes = device::GpuTest;

struct Case {
  const char* activation;
  std::int64_t step;  // of stored scales
};
constexpr Case kCases[] = {{"a8", 0},          {"a8", 16},
                           {"a3", 128},        {"a4g128c0.9", 128},
                           {"a4g32", 16},      {"a8g64", 16},
                           {"a4g48", 16},      {"a8g256", 128},
                           {"a8o", 0},         {"a8-asym", 0},
                           {"a8-asym", 16},    {"a4-asym", 128},
                           {"a8g64-asym", 16}, {"a3g32-asym", 16},
                           {"a8o-asym", 0},    {"a8s", 0},
                           {"a3s", 128},       {"a4s", 0},
                           {"afp4", 0},        {"afp4", 16},
                           {"afp4g128", 128},  {"afp4g128c0.9", 128},
                           {"afp4g48", 16},    {"afp4g256c0.5", 128},
                           {"afp4o", 0}};

constexpr float kStoredScale = 0.037f;  // cuts outliers

formats::Activation parsed(std::string text) {
  const bool symmetric = !text.ends_with("-asym");
  formats::Activation activation =
      formats::parse_activation(symmetric ? text : text.substr(0, text.size() - 5)).value();
  activation.symmetric = symmetric;
  return activation;
}

// Ordinary values, zeros, NaN, outliers, and what lies between two E2M1 numbers; the columns are
// those behind `before` others.
void check(const Case& each, InputForm form, std::int64_t m, std::int64_t columns) {
  const formats::Activation activation = parsed(each.activation);
  constexpr std::int64_t kBefore = 3;
  const std::int64_t ldx = kBefore + columns;
  const std::int64_t padded = padded_columns(columns);
  const std::int64_t row_bytes = padded + 128;
  std::vector<float> x = normal_values(m * ldx, 7);
  std::vector<float> behind;
  for (std::int64_t i = 0; i < m; ++i) {
    float* row = x.data() + i * ldx + kBefore;
    row[columns / 2] = i % 2 == 0 ? 6.0f : -11.5f;
    row[columns - 1] = i == 1 ? std::numeric_limits<float>::quiet_NaN() : 0.25f;
    if (i == 2) {
      std::fill_n(row, columns, 0.0f);
    }
    for (std::int64_t k = 0; i == 3 && k < columns; ++k) {
      row[k] = (k % 2 == 0 ? 0.125f : -0.125f) * static_cast<float>(k % 49);  // up to 6
    }
    behind.insert(behind.end(), row, row + columns);
  }
  const auto device_x = on_device(x);
  const std::int64_t steps = each.step == 0 ? 1 : (columns + each.step - 1) / each.step;
  const std::int64_t stride = (each.step == 0 ? 1 : padded / each.step) + 2;
  const auto codes = poisoned<std::int8_t>(m * row_bytes);
  const auto scales = poisoned<float>(m * stride);
  const auto shifts = poisoned<float>(m * steps);
  ActivationCodes target;
  target.form = form;
  target.type = activation.type;
  target.bits = activation.bits;
  target.symmetric = activation.symmetric;
  target.clip = activation.clip;
  target.scale = activation.stored_scale ? kStoredScale : 0.0f;
  target.keeps_outliers = activation.keeps_outliers;
  target.group = activation.group;
  target.scale_step = each.step;
  target.codes = codes.as<std::int8_t>();
  target.row_bytes = row_bytes;
  target.scales = scales.as<float>();
  target.scale_stride = stride;
  target.shifts = activation.carries_zeros() ? shifts.as<float>() : nullptr;
  const device::cuda::Stream stream;
  activation_codes(device_x.as<float>() + kBefore, ldx, m, columns, target, stream.get());
  stream.synchronize();

  core::ThreadPool pool(1);
  cpu::QuantizedInput expected;
  const std::int64_t layout = each.step == 0 ? 128 : each.step;
  cpu::InputNeeds needs{layout, activation};
  needs.scale = target.scale;
  cpu::quantize_input(behind.data(), m, columns, columns, needs, expected, pool);
  const auto got_codes = codes.values<std::int8_t>();
  const auto got_scales = scales.values<float>();
  const auto got_shifts = shifts.values<float>();
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t k = 0; k < padded; ++k) {
      const std::int64_t at =
          form == InputForm::kInt8Lanes ? int8_lane_position(k) : int8_tile_position(k);
      const int right =
          k < columns ? expected.codes(i)[k / layout * expected.group_stride() + k % layout] : 0;
      wrong += got_codes[static_cast<std::size_t>(i * row_bytes + at)] != right;
    }
    wrong += got_codes[static_cast<std::size_t>(i * row_bytes + padded)] != -1;  // left alone
    for (std::int64_t g = 0; g < steps; ++g) {
      const float scale = expected.scales(i)[g];
      wrong += !same(got_scales[static_cast<std::size_t>(i * stride + g)], scale);
      if (activation.carries_zeros()) {
        wrong += !same(got_shifts[static_cast<std::size_t>(i * steps + g)],
                       scale * static_cast<float>(expected.zeros(i)[g]));
      }
    }
    for (std::int64_t g = steps; g < stride - 2; ++g) {
      wrong += got_scales[static_cast<std::size_t>(i * stride + g)] != 0.0f;
    }
  }
  EXPECT_EQ(wrong, 0) << each.activation << ", scales for " << each.step << ", " << m << " x "
                      << columns;
}

TEST_F(CudaActivationCodes, AreThoseOfTheCpu) {
  for (const Case& each : kCases) {
    for (const InputForm form : {InputForm::kInt8Lanes, InputForm::kByteTiles}) {
      for (const auto& [m, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                       {3, 40},
                                       {4, 128},
                                       {3, 416},
                                       {5, 4096},
                                       {2, 5000}}) {
        check(each, form, m, columns);
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
