#include "ops/cuda/elementwise/text_pooling.h"

#include <algorithm>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaTextPooling = device::GpuTest;

TEST_F(CudaTextPooling, GivesTheBitsOfTheHost) {
  const std::vector<std::int32_t> begins = {0, 1, 9, 140, 0};  // of 1, 8, 131, 7 rows; and again
  const std::vector<std::int32_t> ends = {1, 9, 140, 147, 1};
  const device::cuda::Stream stream;
  for (const std::int64_t columns : {1, 64, 100, 768}) {
    const std::vector<float> x = normal_values(147 * columns, 1);
    const auto on_gpu = on_device(x);
    const auto begins_there = on_device(begins);
    const auto ends_there = on_device(ends);
    for (const TextPooling pooling : {TextPooling::kMean, TextPooling::kMax}) {
      const auto texts = static_cast<std::int64_t>(begins.size());
      const auto y = poisoned<float>(texts * columns);
      pool_texts(pooling, on_gpu.as<float>(), columns, begins_there.as<std::int32_t>(),
                 ends_there.as<std::int32_t>(), y.as<float>(), texts, stream.get());
      stream.synchronize();
      std::vector<float> expected;
      for (std::size_t text = 0; text < begins.size(); ++text) {
        for (std::int64_t column = 0; column < columns; ++column) {
          double sum = 0.0;
          float most = x[static_cast<std::size_t>(begins[text] * columns + column)];
          for (std::int32_t row = begins[text]; row < ends[text]; ++row) {
            const float value = x[static_cast<std::size_t>(row * columns + column)];
            sum += static_cast<double>(value);
            most = std::max(most, value);
          }
          expected.push_back(pooling == TextPooling::kMax
                                 ? most
                                 : static_cast<float>(sum / (ends[text] - begins[text])));
        }
      }
      EXPECT_EQ(y.values<float>(), expected) << columns << " columns";
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
