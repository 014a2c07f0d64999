#include "ops/cuda/elementwise/ordered_rows.h"

#include <string>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "formats/fp8/fp8_codes.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/device_input.h"

// Rows that are put into an order on their way, beside a kernel that puts them into it: every bit.
namespace nibble::ops::cuda {
namespace {

struct Shape {
  std::int64_t m;
  std::int64_t columns;
};
// Few and many rows; columns in one and several vectors, ragged, more than threads, and more than
// the memory that a kernel has unasked.
constexpr Shape kShapes[] = {{1, 4},    {3, 5},      {2, 100},  {300, 128}, {1, 1000}, {5, 4096},
                             {2, 4100}, {300, 1540}, {3, 9000}, {2, 11264}, {1, 20000}};

/// Each form that operators write, as layers ask for it.
std::vector<InputKey> keys() {
  std::vector<InputKey> all;
  for (const InputForm form : {InputForm::kFloat16, InputForm::kBFloat16, InputForm::kFloat16Tiles,
                               InputForm::kFloat16Summed}) {
    all.push_back({.form = form});
  }
  all.push_back({.form = InputForm::kInt8Lanes});
  const auto add = [&](InputForm form, int bits, std::int64_t group, float scale = 0.0f) {
    all.push_back(
        {.form = form, .bits = bits, .group = group, .scale = scale, .scale_step = group});
  };
  add(InputForm::kByteTiles, 8, 0);
  add(InputForm::kByteTiles, 8, 0, 0.03f);
  add(InputForm::kByteTiles, 4, 128);
  add(InputForm::kInt8Lanes, 8, 0);
  add(InputForm::kInt4Tiles, 4, 0);
  add(InputForm::kInt4Tiles, 4, 128);
  add(InputForm::kByteTiles, 8, 0);
  all.back().type = &formats::kFp8Codes;
  return all;
}

class CudaOrderedRows : public device::GpuTest {
 protected:
  /// What `write` leaves behind in the form of a key, where all was poisoned before.
  template <typename Write>
  std::vector<std::byte> written(const device::cuda::Stream& stream, const InputKey& key,
                                 const Shape& shape, const Write& write) {
    const DeviceInput input(pool_, key, shape.m, shape.columns);
    const InputTarget target = input.target();
    const InputBytes bytes = plain_input_bytes(key, shape.m, shape.columns);
    const bool halves = has_values(key.form);
    std::vector<std::pair<void*, std::int64_t>> parts = {
        {halves ? static_cast<void*>(target.values) : target.codes, bytes.values},
        {target.scales, bytes.scales}};
    const std::int64_t chunks = padded_columns(shape.columns) / kInputPadding;
    parts.emplace_back(target.sums, target.sums == nullptr ? 0 : chunks * target.sum_stride * 4);
    for (const auto& [data, count] : parts) {
      if (count > 0) {
        device::cuda::check(cudaMemset(data, 0xff, static_cast<std::size_t>(count)), "cudaMemset");
      }
    }
    device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    write(target);
    stream.synchronize();
    std::vector<std::byte> all;
    for (const auto& [data, count] : parts) {
      const std::size_t begin = all.size();
      all.resize(begin + static_cast<std::size_t>(count));
      if (count > 0) {
        device::cuda::check(cudaMemcpy(all.data() + begin, data, static_cast<std::size_t>(count),
                                       cudaMemcpyDeviceToHost),
                            "cudaMemcpy");
      }
    }
    return all;
  }

  std::shared_ptr<DevicePool> pool_ = std::make_shared<DevicePool>();
};

std::shared_ptr<const DeviceTransform> random_transform(std::int64_t columns, std::uint64_t seed) {
  core::Random random(seed);
  formats::PackedWeight weight;
  weight.scheme = formats::parse_scheme("int4-sym-g128-order");
  weight.n = 1;
  weight.k = columns;
  weight.permutation =
      core::Tensor::from<std::int32_t>(cpu::testing::random_order(columns, random), {1, columns});
  return DeviceTransform::of(weight, "layer");
}

TEST_F(CudaOrderedRows, HaveTheBitsOfTwoKernels) {
  const device::cuda::Stream stream;
  std::uint64_t seed = 1;
  for (const Shape& shape : kShapes) {
    const auto [m, columns] = shape;
    const auto transform = random_transform(columns, ++seed);
    const std::uint16_t* const order = transform->order_alone();
    ASSERT_NE(order, nullptr);
    const auto x = on_device(normal_values(m * columns, ++seed));
    const auto weight = on_device(normal_values(columns, ++seed));
    const auto bias = on_device(normal_values(columns, ++seed));
    const NormWeights norms[] = {{NormKind::kRms, weight.as<float>(), nullptr, 1e-5f},
                                 {NormKind::kLayer, weight.as<float>(), bias.as<float>(), 1e-5f}};
    const auto normed = poisoned<float>(m * columns);
    const auto turned = poisoned<float>(m * columns);
    const auto turn = [&](const float* rows) {
      transform_inputs(transform->view(), rows, turned.as<float>(), m, stream.get());
    };
    for (const InputKey& key : keys()) {
      if (key.form == InputForm::kFloat16Summed && m > 64) {
        continue;  // no layer asks for them
      }
      const std::string what = std::to_string(m) + " x " + std::to_string(columns) + ", form " +
                               std::to_string(static_cast<int>(key.form)) + ", bits " +
                               std::to_string(key.bits) + ", group " + std::to_string(key.group);
      const auto apart = [&](const InputTarget& target) {
        input(turned.as<float>(), target, m, columns, stream.get());
      };
      turn(x.as<float>());
      EXPECT_EQ(written(stream, key, shape, apart),
                written(stream, key, shape,
                        [&](const InputTarget& target) {
                          ordered_input(x.as<float>(), order, target, m, columns, stream.get());
                        }))
          << what;
      for (const NormWeights& norm : norms) {
        norm_matrix(x.as<float>(), norm, normed.as<float>(), m, columns, stream.get());
        turn(normed.as<float>());
        EXPECT_EQ(written(stream, key, shape, apart), written(stream, key, shape,
                                                              [&](const InputTarget& target) {
                                                                ordered_norm(x.as<float>(), norm,
                                                                             order, target, m,
                                                                             columns, stream.get());
                                                              }))
            << what << ", norm " << static_cast<int>(norm.kind);
      }
    }
    for (const NormWeights& norm : norms) {
      norm_matrix(x.as<float>(), norm, normed.as<float>(), m, columns, stream.get());
      turn(normed.as<float>());
      const auto made = poisoned<float>(m * columns);
      ordered_norm_matrix(x.as<float>(), norm, order, made.as<float>(), m, columns, stream.get());
      stream.synchronize();
      EXPECT_EQ(made.values<float>(), turned.values<float>()) << m << " x " << columns;
    }
  }
}

TEST_F(CudaOrderedRows, LongerRowsThanABlockHoldsAreRefused) {
  const device::cuda::Stream stream;
  const std::int64_t columns = max_ordered_columns() + kInputPadding;
  if (columns > kMaxOrdered) {
    GTEST_SKIP() << "a block of this GPU holds all rows";
  }
  const auto transform = random_transform(columns, 1);
  EXPECT_EQ(transform->order_alone(), nullptr);  // so they are put into it by transform_inputs()
  const auto x = on_device(normal_values(columns, 2));
  EXPECT_THROW(ordered_input(x.as<float>(), transform->view().order, {}, 1, columns, stream.get()),
               core::Error);
  EXPECT_THROW(random_transform(kMaxOrdered + 1, 1), core::Error);
}

}  // namespace
}  // namespace nibble::ops::cuda
