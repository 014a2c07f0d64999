#include <string>

#include <gtest/gtest.h>

#include "core/tensor.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/gated_bfloat16.h"

// float16 rows made ready for linear layers, beside the same numbers in float32.
namespace nibble::ops::cuda {
namespace {

using HalfInput = device::GpuTest;
using device::cuda::Buffer;

// All bytes of an input in the form of a target.
class Made {
 public:
  Made(const InputTarget& form, std::int64_t m, std::int64_t columns)
      : values_(poisoned<core::Fp16>(m * padded_columns(columns))),
        codes_(poisoned<std::int8_t>(2 * m * padded_columns(columns))),
        scales_(poisoned<float>(m * padded_columns(columns) / 32)),
        target_(form) {
    target_.values = values_.as<core::Fp16>();
    target_.codes = codes_.as<std::int8_t>();
    target_.scales = scales_.as<float>();
  }
  const InputTarget& target() const { return target_; }
  std::vector<std::uint8_t> bytes() const {
    std::vector<std::uint8_t> all = values_.values<std::uint8_t>();
    for (const Buffer* each : {&codes_, &scales_}) {
      const auto more = each->values<std::uint8_t>();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

 private:
  Buffer values_;
  Buffer codes_;
  Buffer scales_;
  InputTarget target_;
};

std::vector<InputTarget> forms() {
  std::vector<InputTarget> all;
  for (const InputForm form :
       {InputForm::kFloat16, InputForm::kFloat16Tiles, InputForm::kBFloat16}) {
    all.push_back({.form = form});
  }
  for (const InputForm form : {InputForm::kByteTiles, InputForm::kInt8Lanes}) {
    for (const std::int64_t group : {0, 32, 128}) {
      all.push_back({.form = form, .bits = 8, .group = group});
      all.push_back({.form = form, .bits = 4, .group = group, .clip = 0.9f});
    }
    all.push_back({.form = form, .bits = 16, .group = 128});
  }
  return all;
}

TEST_F(HalfInput, GivesWhatTheSameFloatsGive) {
  const device::cuda::Stream stream;
  for (const std::int64_t m : {1, 3, 300}) {
    for (const std::int64_t columns : {4, 100, 128, 1000, 5632, 11008, 20000}) {
      std::vector<core::Fp16> halves;
      std::vector<float> floats;
      for (const float value : normal_values(m * columns, 5)) {
        halves.push_back(core::to_fp16(value));
        floats.push_back(core::to_float(halves.back()));
      }
      const Buffer device_halves = on_device(halves);
      const Buffer device_floats = on_device(floats);
      for (const InputTarget& form : forms()) {
        const Made made(form, m, columns);
        const Made expected(form, m, columns);
        input(device_halves.as<core::Fp16>(), made.target(), m, columns, stream.get());
        input(device_floats.as<float>(), expected.target(), m, columns, stream.get());
        stream.synchronize();
        EXPECT_TRUE(made.bytes() == expected.bytes())
            << m << " rows of " << columns << ", form " << static_cast<int>(form.form) << ", "
            << form.bits << " bits, groups of " << form.group;
      }
    }
  }
}

TEST_F(HalfInput, GatesOfBFloat16GiveWhatTheSameFloatsGive) {
  const device::cuda::Stream stream;
  for (const std::int64_t m : {1, 3, 300}) {
    for (const std::int64_t columns : {4, 100, 128, 1000, 11008}) {
      const core::Tensor rounded = core::from_float32(normal_values(m * 2 * columns, 5),
                                                      {m, 2 * columns}, core::DType::kBF16);
      const Buffer halves =
          on_device(std::vector<std::byte>(rounded.raw(), rounded.raw() + rounded.bytes()));
      const Buffer floats = on_device(core::to_float32(rounded));
      for (const InputForm form :
           {InputForm::kFloat16, InputForm::kFloat16Tiles, InputForm::kBFloat16}) {
        const Made made({.form = form}, m, columns);
        const Made expected({.form = form}, m, columns);
        gated_bfloat16(halves.as<std::uint16_t>(), MlpActivation::kSilu, made.target(), m, columns,
                       stream.get());
        gated_activation(floats.as<float>(), MlpActivation::kSilu, expected.target(), m, columns,
                         stream.get());
        stream.synchronize();
        EXPECT_TRUE(made.bytes() == expected.bytes())
            << m << " rows of " << columns << ", form " << static_cast<int>(form);
      }
      const Buffer made = poisoned<float>(m * columns);
      const Buffer expected = poisoned<float>(m * columns);
      gated_bfloat16_matrix(halves.as<std::uint16_t>(), MlpActivation::kSilu, made.as<float>(), m,
                            columns, stream.get());
      gated_activation_matrix(floats.as<float>(), MlpActivation::kSilu, expected.as<float>(), m,
                              columns, stream.get());
      stream.synchronize();
      EXPECT_TRUE(made.values<std::uint32_t>() == expected.values<std::uint32_t>())
          << m << " rows of " << columns;
    }
  }
}

// To nearest, zeros behind the columns.
TEST_F(HalfInput, BFloat16IsThatOfTheHost) {
  const device::cuda::Stream stream;
  constexpr std::int64_t kRows = 3;
  for (const std::int64_t columns : {1, 100, 128, 1000}) {
    std::vector<float> x = normal_values(kRows * columns, 5);
    x.front() = 1e30f;
    const std::int64_t padded = padded_columns(columns);
    const Buffer on = on_device(x);
    const Buffer values = poisoned<core::Fp16>(kRows * padded);
    input(on.as<float>(), {.form = InputForm::kBFloat16, .values = values.as<core::Fp16>()}, kRows,
          columns, stream.get());
    stream.synchronize();
    const auto found = values.values<core::Bf16>();
    for (std::int64_t i = 0; i < kRows * padded; ++i) {
      const std::int64_t column = i % padded;
      const float value =
          column < columns ? x[static_cast<std::size_t>(i / padded * columns + column)] : 0.0f;
      ASSERT_EQ(found[static_cast<std::size_t>(i)], core::to_bf16(value)) << i;
    }
  }
}

// Sums of what the values became, not of what they were.
TEST_F(HalfInput, SumsOf128ColumnsComeAlong) {
  const device::cuda::Stream stream;
  for (const std::int64_t m : {1, 17, 33, 64}) {
    for (const std::int64_t columns : {100, 128, 1000, 5632, 20000}) {
      std::vector<float> x = normal_values(m * columns, 7);
      std::transform(x.begin(), x.end(), x.begin(), [](float value) { return 30.0f * value; });
      const Buffer on = on_device(x);
      const std::int64_t padded = padded_columns(columns);
      const std::int64_t stride = sum_stride_of(m);
      const Buffer values = poisoned<core::Fp16>(m * padded);
      const Buffer plain = poisoned<core::Fp16>(m * padded);
      const Buffer sums = poisoned<float>(padded / kInputPadding * stride);
      InputTarget target{.form = InputForm::kFloat16Tiles, .values = plain.as<core::Fp16>()};
      input(on.as<float>(), target, m, columns, stream.get());
      target = {.form = InputForm::kFloat16Summed,
                .values = values.as<core::Fp16>(),
                .sums = sums.as<float>(),
                .sum_stride = stride};
      input(on.as<float>(), target, m, columns, stream.get());
      stream.synchronize();
      EXPECT_EQ(values.values<std::uint16_t>(), plain.values<std::uint16_t>());
      const auto halves = values.values<core::Fp16>();
      const auto found = sums.values<float>();
      for (std::int64_t token = 0; token < m; ++token) {
        for (std::int64_t block = 0; block < padded / kInputPadding; ++block) {
          double sum = 0.0;
          double magnitude = 0.0;
          for (std::int64_t i = 0; i < kInputPadding; ++i) {
            const double value = core::to_float(
                halves[static_cast<std::size_t>(token * padded + block * kInputPadding + i)]);
            sum += value;
            magnitude += std::abs(value);
          }
          const auto at = static_cast<std::size_t>(block * stride + token / 2 * 4 + token % 2);
          ASSERT_NEAR(found[at] * -0x1p21, sum, 1e-6 * magnitude) << token << ", " << block;
          ASSERT_NEAR(found[at + 2] * -0x1p17, sum, 1e-6 * magnitude) << token << ", " << block;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
