#include "ops/cuda/elementwise/elementwise.h"

#include <limits>

#include "core/error.h"
#include "core/threads.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/packed/quantized_input.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/input_targets_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaElementwise = device::GpuTest;
using device::cuda::Buffer;
using testing::HalfTarget;
using testing::IntegerTarget;
using testing::Shape;

// Rows alone, few and many; columns in one and several vectors, ragged, wider than registers hold.
constexpr Shape kShapes[] = {{1, 1},    {3, 5},    {1, 64},   {2, 100},    {300, 128},
                             {1, 1000}, {5, 4096}, {1, 4100}, {300, 1540}, {300, 4096},
                             {2, 8192}, {2, 9000}, {1, 20000}};

Norm norm_of(NormKind kind, std::int64_t columns, bool bias) {
  Norm norm;
  norm.kind = kind;
  norm.weight = normal_values(columns, 2);
  norm.bias = bias ? normal_values(columns, 3) : std::vector<float>();
  norm.eps = 1e-5f;
  return norm;
}

struct DeviceNorm {
  Buffer weight;
  Buffer bias;
  NormWeights weights;
  explicit DeviceNorm(const Norm& norm)
      : weight(on_device(norm.weight)),
        bias(norm.bias.empty() ? Buffer() : on_device(norm.bias)),
        weights{norm.kind, weight.as<float>(), bias.as<float>(), norm.eps} {}
};

// Float16 outputs against float references: natural order of columns, and that padding is zero.
void expect_halves(const std::vector<core::Fp16>& halves, const std::vector<float>& expected,
                   const Shape& shape, bool tiles, const std::string& what) {
  const std::int64_t padded = padded_columns(shape.columns);
  std::vector<float> values(expected.size());
  std::int64_t nonzero = 0;
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t k = 0; k < padded; ++k) {
      const std::int64_t at = i * padded + (tiles ? float16_tile_position(k) : k);
      const float value = core::to_float(halves[static_cast<std::size_t>(at)]);
      if (k < shape.columns) {
        values[static_cast<std::size_t>(i * shape.columns + k)] = value;
      } else {
        nonzero += value != 0.0f;
      }
    }
  }
  std::vector<float> rounded;
  for (const float value : expected) {
    rounded.push_back(core::to_float(saturated_fp16(value)));
  }
  EXPECT_LT(worst_error(values, rounded, 1e-2), 1.1e-3) << what;
  EXPECT_EQ(nonzero, 0) << what;
}

// Bit for bit what the CPU makes of the same floats.
void expect_integers(const IntegerTarget& made, const std::vector<float>& x, const Shape& shape,
                     const formats::Activation& activation) {
  core::ThreadPool pool(1);
  const std::int64_t padded = padded_columns(shape.columns);
  const std::int64_t group = activation.group == 0 ? 128 : activation.group;
  cpu::QuantizedInput expected;
  cpu::InputNeeds needs{group, activation};
  needs.scale = made.target.scale;
  cpu::quantize_input(x.data(), shape.m, shape.columns, shape.columns, needs, expected, pool);
  const auto codes = made.codes.values<std::int8_t>();
  const auto scales = made.scales.values<float>();
  const auto zeros =
      made.zeros.empty() ? std::vector<std::int32_t>() : made.zeros.values<std::int32_t>();
  const std::int64_t scale_stride = activation.group == 0 ? 1 : padded / activation.group;
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t k = 0; k < padded; ++k) {
      const int code = codes[static_cast<std::size_t>(i * padded + int8_tile_position(k))];
      const int right = k < shape.columns
                            ? expected.codes(i)[k / group * expected.group_stride() + k % group]
                            : 0;
      wrong += code != right;
    }
    for (std::int64_t g = 0; g < scale_stride; ++g) {
      const bool in_row = g < expected.groups();
      const float right = in_row ? expected.scales(i)[g] : 0.0f;
      const auto at = static_cast<std::size_t>(i * scale_stride + g);
      wrong += std::memcmp(&scales[at], &right, sizeof(float)) != 0;
      wrong += !zeros.empty() && zeros[at] != (in_row ? expected.zeros(i)[g] : 0);
    }
  }
  EXPECT_EQ(wrong, 0) << shape.m << " rows of " << shape.columns << ", "
                      << formats::to_string(activation);
}

const formats::Activation kActivations[] = {{8},
                                            {4},
                                            {8, true, 32},
                                            {8, true, 64},
                                            {8, true, 128},
                                            {4, true, 32},
                                            {4, true, 128},
                                            {4, true, 128, 0.9f},
                                            {8, true, 0, 0.8f},
                                            {8, false},
                                            {4, false},
                                            {8, false, 64},
                                            {4, false, 128, 0.95f},
                                            {.bits = 8, .stored_scale = true},
                                            {.bits = 4, .stored_scale = true}};

TEST_F(CudaElementwise, NormsMatchTheCpu) {
  const device::cuda::Stream stream;
  for (const Shape& shape : kShapes) {
    for (const auto& [kind, bias] :
         {std::pair{NormKind::kRms, false}, {NormKind::kLayer, true}, {NormKind::kLayer, false}}) {
      const Norm norm_layer = norm_of(kind, shape.columns, bias);
      const DeviceNorm device_norm(norm_layer);
      std::vector<float> x = normal_values(shape.m * shape.columns, 1);
      for (float& value : x) {
        value += 3.0f;
      }
      const std::vector<float> delta = normal_values(shape.m * shape.columns, 5);
      std::vector<float> sum(x.size());
      std::vector<float> expected(x.size());
      std::vector<float> of_sum(x.size());
      for (std::int64_t i = 0; i < shape.m; ++i) {
        const auto at = static_cast<std::size_t>(i * shape.columns);
        for (std::size_t k = at; k < at + static_cast<std::size_t>(shape.columns); ++k) {
          sum[k] = x[k] + delta[k];
        }
        cpu::norm_row(norm_layer, &x[at], &expected[at]);
        cpu::norm_row(norm_layer, &sum[at], &of_sum[at]);
      }
      const Buffer device_x = on_device(x);
      const Buffer device_delta = on_device(delta);
      const Buffer y = poisoned<float>(shape.m * shape.columns);
      norm_matrix(device_x.as<float>(), device_norm.weights, y.as<float>(), shape.m, shape.columns,
                  stream.get());
      const std::string what = std::to_string(shape.m) + " rows of " +
                               std::to_string(shape.columns) + ", norm " +
                               std::to_string(static_cast<int>(kind));
      stream.synchronize();
      EXPECT_LT(worst_error(y.values<float>(), expected, 1e-2), 1e-4) << what;
      for (const bool tiles : {false, true}) {
        const HalfTarget plain(shape, tiles);
        norm(device_x.as<float>(), device_norm.weights, plain.target, shape.m, shape.columns,
             stream.get());
        stream.synchronize();
        expect_halves(plain.values.values<core::Fp16>(), expected, shape, tiles, what);
        const Buffer running = on_device(x);
        const HalfTarget added(shape, tiles);
        add_norm(running.as<float>(), device_delta.as<float>(), device_norm.weights, added.target,
                 shape.m, shape.columns, stream.get());
        stream.synchronize();
        EXPECT_EQ(running.values<float>(), sum) << what;
        expect_halves(added.values.values<core::Fp16>(), of_sum, shape, tiles, what);
      }
      // Integers are those of the floats that norm_matrix makes.
      for (const formats::Activation& activation : {formats::Activation{8}, {4, true, 128}}) {
        const IntegerTarget integers(shape, activation);
        norm(device_x.as<float>(), device_norm.weights, integers.target, shape.m, shape.columns,
             stream.get());
        stream.synchronize();
        expect_integers(integers, y.values<float>(), shape, activation);
      }
    }
  }
}

TEST_F(CudaElementwise, IntegersAreThoseOfTheCpuBitForBit) {
  const device::cuda::Stream stream;
  for (const Shape& shape : kShapes) {
    std::vector<float> x = normal_values(shape.m * shape.columns, 7);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] *= i % 97 == 3 ? 50.0f : 1.0f;
    }
    if (shape.m >= 3) {  // a row of zeros, and rows with values that no scale holds
      std::fill_n(x.begin(), shape.columns, 0.0f);
      x[static_cast<std::size_t>(shape.columns)] = std::numeric_limits<float>::infinity();
      x[static_cast<std::size_t>(2 * shape.columns)] = std::nanf("");
    }
    if (shape.m >= 5) {
      for (std::int64_t k = 0; k < shape.columns; ++k) {
        x[static_cast<std::size_t>(3 * shape.columns + k)] *= 1e-38f;
        x[static_cast<std::size_t>(4 * shape.columns + k)] *= 1e37f;
      }
    }
    const Buffer device_x = on_device(x);
    for (const formats::Activation& activation : kActivations) {
      const IntegerTarget made(shape, activation);
      input(device_x.as<float>(), made.target, shape.m, shape.columns, stream.get());
      stream.synchronize();
      expect_integers(made, x, shape, activation);
    }
    const HalfTarget halves(shape, true);
    input(device_x.as<float>(), halves.target, shape.m, shape.columns, stream.get());
    stream.synchronize();
    expect_halves(halves.values.values<core::Fp16>(), x, shape, true, "input");
  }
}

TEST_F(CudaElementwise, ActivationsMatchTheCpu) {
  const device::cuda::Stream stream;
  for (const Shape& shape : kShapes) {
    const std::int64_t n = shape.columns;
    std::vector<float> x = normal_values(shape.m * 2 * n, 11);
    for (float& value : x) {
      value *= 4.0f;
    }
    x[0] = 80000.0f;  // beyond float16
    const Buffer device_x = on_device(x);
    for (const MlpActivation activation : {MlpActivation::kSilu, MlpActivation::kGelu,
                                           MlpActivation::kGeluTanh, MlpActivation::kRelu}) {
      std::vector<float> gated(static_cast<std::size_t>(shape.m * n));
      std::vector<float> plain(gated.size());
      for (std::int64_t i = 0; i < shape.m; ++i) {
        cpu::activate_gated(activation, &x[static_cast<std::size_t>(i * 2 * n)],
                            &x[static_cast<std::size_t>(i * 2 * n + n)],
                            &gated[static_cast<std::size_t>(i * n)], n);
      }
      cpu::activate(activation, x.data(), plain.data(), shape.m * n);
      const std::string what = std::to_string(static_cast<int>(activation));
      for (const bool tiles : {false, true}) {
        const HalfTarget of_gated(shape, tiles);
        gated_activation(device_x.as<float>(), activation, of_gated.target, shape.m, n,
                         stream.get());
        const HalfTarget of_plain(shape, tiles);
        mlp_activation(device_x.as<float>(), activation, of_plain.target, shape.m, n, stream.get());
        stream.synchronize();
        expect_halves(of_gated.values.values<core::Fp16>(), gated, shape, tiles, "gated " + what);
        expect_halves(of_plain.values.values<core::Fp16>(), plain, shape, tiles, "plain " + what);
      }
    }
    const IntegerTarget whole(shape, {8});
    gated_activation(device_x.as<float>(), MlpActivation::kRelu, whole.target, shape.m, n,
                     stream.get());
    std::vector<float> gated(static_cast<std::size_t>(shape.m * n));
    for (std::int64_t i = 0; i < shape.m; ++i) {
      cpu::activate_gated(MlpActivation::kRelu, &x[static_cast<std::size_t>(i * 2 * n)],
                          &x[static_cast<std::size_t>(i * 2 * n + n)],
                          &gated[static_cast<std::size_t>(i * n)], n);
    }
    stream.synchronize();
    expect_integers(whole, gated, shape, {8});
  }
}

template <typename T>
bool begins_with(const std::vector<T>& all, const std::vector<T>& part) {
  return std::memcmp(all.data(), part.data(), part.size() * sizeof(T)) == 0;
}

// The bits of a row do not depend on how many rows there are, though threads are cut otherwise.
TEST_F(CudaElementwise, RowsDoNotDependOnTheBatch) {
  const device::cuda::Stream stream;
  const formats::Activation activation{8, true, 128};
  for (const std::int64_t columns : {1000, 3000, 4096, 11008, 20000}) {
    for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
      const Norm layer = norm_of(kind, columns, kind == NormKind::kLayer);
      const DeviceNorm device_norm(layer);
      const Shape many{300, columns};
      const std::vector<float> x = normal_values(many.m * columns, 21);
      const Buffer delta = on_device(normal_values(many.m * columns, 22));
      const auto run = [&](const Buffer& sum, std::int64_t m, const InputTarget& target) {
        add_norm(sum.as<float>(), delta.as<float>(), device_norm.weights, target, m, columns,
                 stream.get());
        stream.synchronize();
      };
      const Buffer sums = on_device(x);
      const IntegerTarget integers(many, activation);
      run(sums, many.m, integers.target);
      for (const std::int64_t m : {1, 16, 17}) {
        const std::string what = std::to_string(m) + " rows of " + std::to_string(columns);
        const Buffer few_sums = on_device(std::vector(x.begin(), x.begin() + m * columns));
        const IntegerTarget few({m, columns}, activation);
        run(few_sums, m, few.target);
        EXPECT_TRUE(
            begins_with(sums.values<float>(), few_sums.values<float>()) &&
            begins_with(integers.codes.values<std::int8_t>(), few.codes.values<std::int8_t>()) &&
            begins_with(integers.scales.values<float>(), few.scales.values<float>()))
            << what;
      }
    }
  }
}

TEST_F(CudaElementwise, TablesAreReadInEachType) {
  const device::cuda::Stream stream;
  constexpr std::int64_t kRows = 7;
  for (const std::int64_t columns : {3, 256, 1500}) {
    const std::vector<float> table = normal_values(kRows * columns, 31);
    const std::vector<std::int32_t> ids = {4, -1, 0, 7, 6, 4};  // two outside
    const auto m = static_cast<std::int64_t>(ids.size());
    const Buffer device_ids = on_device(ids);
    std::vector<core::Fp16> halves;
    std::vector<core::Bf16> brain;
    for (const float value : table) {
      halves.push_back(core::to_fp16(value));
      brain.push_back(core::to_bf16(value));
    }
    const Buffer tables[] = {on_device(table), on_device(halves), on_device(brain)};
    const core::DType types[] = {core::DType::kF32, core::DType::kF16, core::DType::kBF16};
    for (std::size_t type = 0; type < 3; ++type) {
      const EmbeddingTable view{tables[type].data(), types[type], kRows, columns};
      const Buffer x = poisoned<float>(m * columns);
      embed(view, device_ids.as<std::int32_t>(), 0, x.as<float>(), m, stream.get());
      const std::vector<float> start(static_cast<std::size_t>(m * columns), 10.0f);
      const Buffer sum = on_device(start);
      add_rows(view, device_ids.as<std::int32_t>(), 2, sum.as<float>(), m, stream.get());
      stream.synchronize();
      const auto got = x.values<float>();
      const auto added = sum.values<float>();
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t k = 0; k < columns; ++k) {
          const auto element = [&](std::int64_t row) {
            const auto at = static_cast<std::size_t>(row * columns + k);
            return type == 0   ? table[at]
                   : type == 1 ? core::to_float(halves[at])
                               : core::to_float(brain[at]);
          };
          const std::int64_t id = ids[static_cast<std::size_t>(i)];
          const auto at = static_cast<std::size_t>(i * columns + k);
          const bool inside = id >= 0 && id < kRows;
          const bool shifted_inside = id + 2 >= 0 && id + 2 < kRows;
          ASSERT_TRUE(inside ? got[at] == element(id) : std::isnan(got[at])) << i << " " << k;
          ASSERT_TRUE(shifted_inside ? added[at] == 10.0f + element(id + 2) : std::isnan(added[at]))
              << i << " " << k;
        }
      }
    }
  }
  const Buffer nothing(16);
  EXPECT_THROW(embed({nothing.data(), core::DType::kI8, 1, 1}, nullptr, 0, nothing.as<float>(), 1,
                     stream.get()),
               core::Error);
}

TEST_F(CudaElementwise, RowsAreAddedGatheredAndScattered) {
  const device::cuda::Stream stream;
  for (const std::int64_t columns : {3, 129, 4096}) {
    constexpr std::int64_t kRows = 9;
    const std::vector<float> x = normal_values(kRows * columns, 41);
    const std::vector<float> delta = normal_values(kRows * columns, 42);
    const std::vector<std::int32_t> rows = {8, 2, 5};
    const std::vector<float> weights = {0.5f, -2.0f, 1.25f};
    const Buffer device_x = on_device(x);
    const Buffer device_delta = on_device(delta);
    const Buffer device_rows = on_device(rows);
    const Buffer device_weights = on_device(weights);
    const Buffer sum = on_device(x);
    const Buffer gathered = poisoned<float>(3 * columns);
    const Buffer scattered = on_device(x);
    const Buffer biased = on_device(x);
    const Buffer cleared = poisoned<float>(columns);
    add(sum.as<float>(), device_delta.as<float>(), kRows * columns, stream.get());
    gather(device_x.as<float>(), kRows, columns, device_rows.as<std::int32_t>(),
           gathered.as<float>(), 3, stream.get());
    scatter_add(scattered.as<float>(), kRows, columns, device_delta.as<float>(),
                device_rows.as<std::int32_t>(), device_weights.as<float>(), 3, stream.get());
    add_bias(biased.as<float>(), device_delta.as<float>(), kRows, columns, 1, columns - 2,
             stream.get());
    zeros(cleared.as<float>(), columns, stream.get());
    stream.synchronize();
    std::vector<float> right_sum = x;
    std::vector<float> right_gathered;
    std::vector<float> right_scattered = x;
    std::vector<float> right_biased = x;
    const auto at = [&](std::int64_t i, std::int64_t k) {
      return static_cast<std::size_t>(i * columns + k);
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      right_sum[i] += delta[i];
    }
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t k = 0; k < columns; ++k) {
        const std::int64_t row = rows[static_cast<std::size_t>(i)];
        right_gathered.push_back(x[at(row, k)]);
        right_scattered[at(row, k)] = std::fmaf(weights[static_cast<std::size_t>(i)],
                                                delta[at(i, k)], right_scattered[at(row, k)]);
      }
    }
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t k = 0; k < columns - 2; ++k) {
        right_biased[at(i, k + 1)] += delta[static_cast<std::size_t>(k)];
      }
    }
    EXPECT_EQ(sum.values<float>(), right_sum);
    EXPECT_EQ(gathered.values<float>(), right_gathered);
    EXPECT_EQ(scattered.values<float>(), right_scattered);
    EXPECT_EQ(biased.values<float>(), right_biased);
    EXPECT_EQ(cleared.values<float>(), std::vector<float>(static_cast<std::size_t>(columns)));
  }
}

// Two digits in the orders that kernels for few tokens and for medium batches read.
TEST_F(CudaElementwise, CodesOf16BitsAreThoseOfTheCpu) {
  for (const InputForm form : {InputForm::kInt8Lanes, InputForm::kByteTiles}) {
    for (const std::int64_t columns : {4, 128, 416, 4096, 11008}) {
      constexpr std::int64_t kRows = 3;
      const std::int64_t padded = padded_columns(columns);
      const std::int64_t blocks = padded / 128;
      const std::vector<float> x = normal_values(kRows * columns, 11);
      const Buffer device_x = on_device(x);
      const Buffer codes = poisoned<std::int8_t>(2 * kRows * padded);
      const Buffer scales = poisoned<float>(kRows * blocks);
      InputTarget target;
      target.form = form;
      target.codes = codes.as<std::int8_t>();
      target.scales = scales.as<float>();
      target.bits = 16;
      target.group = 128;
      const device::cuda::Stream stream;
      input(device_x.as<float>(), target, kRows, columns, stream.get());
      stream.synchronize();
      core::ThreadPool pool(1);
      cpu::InputNeeds needs{128, formats::Activation{8, true, 128}};
      needs.wide = true;
      cpu::QuantizedInput expected;
      cpu::quantize_input(x.data(), kRows, columns, columns, needs, expected, pool);
      const auto got = codes.values<std::int8_t>();
      const auto got_scales = scales.values<float>();
      for (std::int64_t row = 0; row < 2 * kRows; ++row) {
        for (std::int64_t k = 0; k < padded; ++k) {
          const std::int64_t at =
              row * padded +
              (form == InputForm::kInt8Lanes ? int8_lane_position(k) : int8_tile_position(k));
          const int right =
              k < columns ? expected.codes(row)[k / 128 * expected.group_stride() + k % 128] : 0;
          ASSERT_EQ(got[static_cast<std::size_t>(at)], right)
              << "row " << row << ", column " << k << " of " << columns << ", form "
              << static_cast<int>(form);
        }
      }
      // The first digit's scale is 255 times that of the second.
      for (std::int64_t i = 0; i < kRows * blocks; ++i) {
        ASSERT_EQ(got_scales[static_cast<std::size_t>(i)],
                  expected.scales(2 * (i / blocks) + 1)[i % blocks]);
      }
    }
  }
}

TEST_F(CudaElementwise, RefusesWhatItCannotDo) {
  const device::cuda::Stream stream;
  const Buffer memory(1 << 20);
  InputTarget target;
  target.form = InputForm::kByteTiles;
  target.codes = memory.as<std::int8_t>();
  target.scales = memory.as<float>();
  for (const auto& [bits, group] : {std::pair{3, 0}, {8, 48}, {8, 256}}) {
    target.bits = bits;
    target.group = group;
    EXPECT_THROW(input(memory.as<float>(), target, 1, 256, stream.get()), core::Error);
  }
  EXPECT_THROW(input(memory.as<float>(), {}, 1, kMaxColumns + 1, stream.get()), core::Error);
}

}  // namespace
}  // namespace nibble::ops::cuda
