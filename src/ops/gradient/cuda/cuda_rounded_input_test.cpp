// Layers of a GPU that round what they read beside those of a CPU.

#include "ops/gradient/cuda/cuda_gradient_for_tests.h"
#include "ops/gradient/rounded_input.h"

namespace nibble::ops::gradient {
namespace {

class CudaRoundedInput : public CudaGradient {};

// Layers that round what they read, whose weights somebody else places.
TEST_P(CudaRoundedInput, IsThatOfTheCpu) {
  for (const char* scheme :
       {"int4-sym-row-a8", "int4-sym-row-a4", "int4-sym-row-a4-asym", "int8-asym-g32-a8-asym",
        "int4-sym-g64-a4g64c0.9", "int4-sym-g64-a8o", "int8-sym-row-a8s", "int4-asym-g16-a3"}) {
    for (const std::int64_t rows : {1, 7, 130}) {
      constexpr std::int64_t kInputs = 320;
      constexpr std::int64_t kOutputs = 33;
      const std::string what = std::string(scheme) + " " + std::to_string(rows);
      const auto parsed = formats::parse_scheme(scheme);
      formats::PackedWeight weight =
          formats::round_to_nearest(random(kOutputs * kInputs), kOutputs, kInputs, parsed);
      if (parsed.activation.stored_scale) {
        weight = formats::with_input_scale(std::move(weight), 0.015f);
      }
      LinearSet set{0, {{"layer", std::move(weight), random(kOutputs)}}};
      cpu::Matrix x = random(rows, kInputs);
      x.row(rows - 1)[7] = 17.0f;  // an outlier
      std::fill_n(x.row(rows / 2) + 64, 64, 0.0f);
      const auto rounding = rounding_of(set);
      ASSERT_TRUE(rounding) << what;
      const cpu::Matrix expected = rounded_input(x, *rounding, ops_);
      const DeviceMatrix device_x = on_gpu(x);

      std::vector<float> values;
      for (std::int64_t n = 0; n < kOutputs; ++n) {
        values.resize(values.size() + kInputs);
        formats::decode_row(set.parts[0].weight, n, std::span(values).last(kInputs));
      }
      const Linear dense{
          "dense",
          formats::dense_weight(core::from_float32(values, {kOutputs, kInputs}, core::DType::kF32)),
          {}};
      const LinearSet plain{0, {dense}};
      const bool half = gpu_->product_type() == core::DType::kBF16;
      const Buffer placed = half ? Buffer::of(std::span<const core::Bf16>(to_bf16(values)))
                                 : Buffer::of(std::span<const float>(values));
      gpu_->place(set.parts[0].weight, placed.as<std::byte>());

      const cpu::Matrix g = random(rows, kOutputs);
      cpu::Matrix dx = random(rows, kInputs);
      DeviceMatrix device_dx = on_gpu(dx);
      std::vector<float> slope(values.size());
      const Buffer device_slope = Buffer::of(std::span<const float>(slope));
      ParameterGradients parameters;
      parameters.add(plain.parts[0].weight, slope);
      LinearWitness<cpu::Matrix> witness;
      witness.parameters = &parameters;
      cpu::Matrix own = ops_.zeros(rows, kInputs);
      host_.linear_back(plain, expected, g, witness, own);
      if (rounding->cuts()) {
        cut_gradient(x, *rounding, own, ops_.pool());
      }
      host_.add(dx, own);

      LinearWitness<DeviceMatrix> device_witness;
      ParameterGradients device_parameters;
      device_parameters.add(set.parts[0].weight, {device_slope.as<float>(), slope.size()});
      device_witness.parameters = &device_parameters;
      device_witness.observer = [&](const LinearSet&, const DeviceMatrix& read,
                                    const DeviceMatrix&) {
        const cpu::Matrix found = back(read);
        EXPECT_TRUE(
            std::equal(found.values().begin(), found.values().end(), expected.values().begin()))
            << what;
      };
      cpu::Matrix y = host_.linear(expected, plain);
      for (std::int64_t i = 0; i < rows; ++i) {
        host_vector_add(y.row(i), set.parts[0].bias);
      }
      expect_near(gpu_->linear(device_x, set), y, what);
      gpu_->linear_back(set, device_x, on_gpu(g), device_witness, device_dx);
      expect_near(device_dx, dx, what + " at x");
      stream_->synchronize();
      expect_near(device_slope.values<float>(), slope, what + " at the weight");
      gpu_->release();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaRoundedInput, kPrecisions, name_of);

}  // namespace
}  // namespace nibble::ops::gradient
