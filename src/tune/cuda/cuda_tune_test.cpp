// Training on a GPU beside that on a CPU.

#include <cmath>
#include <filesystem>
#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random_values_for_tests.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "tune/cuda/device_adamw.h"
#include "tune/cuda/device_layer.h"
#include "tune/cuda/loss_kernels.h"
#include "tune/loss_curve.h"
#include "tune/losses.h"
#include "tune/tune_model_for_tests.h"

namespace nibble::tune {
namespace {

using compress::Interrupted;
using cuda::DeviceAdamW;
using cuda::DeviceLayer;
using device::cuda::Stream;
using ops::gradient::ProductPrecision;

using CudaTune = device::GpuTest;

std::vector<float> normal(std::int64_t count, std::uint64_t seed) {
  return core::normal_values(count, seed);
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 2e-5 * std::max(1.0f, std::abs(expected[i])))
        << what << " " << i;
  }
}

std::vector<float> downloaded(const float* values, std::size_t count, const Stream& stream) {
  stream.synchronize();
  std::vector<float> result(count);
  EXPECT_EQ(cudaMemcpy(result.data(), values, count * sizeof(float), cudaMemcpyDeviceToHost),
            cudaSuccess);
  return result;
}

// A layer in training: the numbers of a parameter are moved, so that codes are clipped too.
struct Layer {
  Layer(const std::string& name, std::int64_t n, std::int64_t k) : pool(2) {
    const auto scheme = formats::parse_scheme(name);
    std::vector<float> weights = normal(n * k, 3);
    if (scheme.sparsity != formats::Sparsity()) {
      std::fill(weights.begin() + k / 4, weights.begin() + k / 2, 0.0f);
    }
    linear.name = "layer";
    linear.weight = formats::round_to_nearest(weights, n, k, scheme);
    original = linear;
    tuned = std::make_unique<TunedLayer>(linear, Trained::kWeights, LayerRates{1.0f, 1.0f},
                                         std::vector<float>(), parameters, pool);
    std::uint64_t seed = 5;
    for (const auto& parameter : parameters) {
      const bool is_zero = parameter.get() == tuned->parameters().zeros;
      const auto noise = normal(std::ssize(parameter->values), ++seed);
      for (std::size_t i = 0; i < noise.size(); ++i) {
        parameter->values[i] += (is_zero ? 2.0f : 0.2f) * noise[i];
      }
    }
    tuned->update(pool);
  }

  core::ThreadPool pool;
  ops::Linear linear;
  ops::Linear original;  // as it was
  Parameters parameters;
  std::unique_ptr<TunedLayer> tuned;
};

TEST_F(CudaTune, RoundsWeightsToTheSameBits) {
  for (const char* name :
       {"int2-asym-g16", "int2-sym-g32", "int3-asym-g64", "int3-sym-row", "int4-asym-g32",
        "int4-sym-g40", "int4-sym-g128", "int4-asym-row", "int8-sym-row", "int8-asym-g64",
        "int4-asym-g16-bsr", "int8-sym-g16-bsr", "f16-g16-bsr", "f16-g64-bsr"}) {
    for (const std::int64_t n : {1, 37}) {
      for (const std::int64_t k : {640, 1920}) {
        const Stream stream;
        Layer layer(name, n, k);
        const std::string what = std::string(name) + " " + std::to_string(n);
        const DeviceAdamW optimizer(layer.parameters, {}, stream.get());
        DeviceLayer device(*layer.tuned, optimizer, core::DType::kF32, stream.get());
        const auto count = static_cast<std::size_t>(n * k);
        const auto expected = layer.linear.weight.dense.data<float>();
        const auto found = downloaded(static_cast<const float*>(device.values()), count, stream);
        EXPECT_EQ(found, std::vector<float>(expected.begin(), expected.end())) << what;

        const auto slope = normal(n * k, 9);
        const TunedLayer::Own own = layer.tuned->parameters();
        for (const auto& parameter : layer.parameters) {
          if (parameter.get() == own.weights) {
            parameter->gradient = slope;
          }
        }
        ASSERT_EQ(cudaMemcpy(device.gradient().data(), slope.data(), count * sizeof(float),
                             cudaMemcpyHostToDevice),
                  cudaSuccess);
        layer.tuned->pass_back(layer.pool);
        device.pass_back();
        for (const auto& parameter : layer.parameters) {
          expect_near(
              downloaded(optimizer.gradient(parameter.get()), parameter->values.size(), stream),
              parameter->gradient, what + " " + parameter->name);
        }
      }
    }
  }
}

// Of scales alone, and of codes: values and gradients are those of the CPU.
class CudaTuneCodes : public CudaTune, public ::testing::WithParamInterface<bool> {};

TEST_P(CudaTuneCodes, TrainsScalesAsTheCpu) {
  const bool codes = GetParam();
  for (const char* name : {"int2-asym-g16", "int3-sym-row", "int4-asym-g32", "int4-sym-g128",
                           "int8-asym-g64", "int4-asym-g16-bsr"}) {
    constexpr std::int64_t kRows = 19;
    constexpr std::int64_t kInputs = 640;
    constexpr std::int64_t kTokens = 7;
    const Stream stream;
    Layer layer(name, kRows, kInputs);
    layer.tuned.reset();
    layer.parameters.clear();
    ops::Linear packed = layer.original;
    const LayerRates rates{1.0f, 1.0f, 1.0f};
    layer.linear = layer.original;
    TunedLayer host(layer.linear, codes ? Trained::kCodes : Trained::kScales, rates, {},
                    layer.parameters, layer.pool);
    Parameters same;
    const TunedLayer alone(packed, codes ? Trained::kCodesAlone : Trained::kScalesAlone, rates, {},
                           same, layer.pool);
    ASSERT_EQ(same.size(), layer.parameters.size());
    for (std::size_t p = 0; p < same.size(); ++p) {
      const bool is_code = same[p].get() == alone.parameters().places;
      const auto noise = normal(std::ssize(same[p]->values), p);
      for (std::size_t i = 0; i < noise.size(); ++i) {
        same[p]->values[i] += (is_code ? 2.0f : 0.3f) * noise[i];  // some codes are clipped
      }
      layer.parameters[p]->values = same[p]->values;
    }
    host.update(layer.pool);
    const DeviceAdamW optimizer(same, {}, stream.get());
    DeviceLayer device(alone, optimizer, core::DType::kF32, stream.get());
    const auto expected = layer.linear.weight.dense.data<float>();
    EXPECT_EQ(downloaded(static_cast<const float*>(device.values()),
                         static_cast<std::size_t>(kRows * kInputs), stream),
              std::vector<float>(expected.begin(), expected.end()))
        << name;

    const auto x = normal(kTokens * kInputs, 11);
    const auto dy = normal(kTokens * kRows, 12);
    std::vector<float> slopes(static_cast<std::size_t>(kRows * kInputs));
    for (std::int64_t i = 0; i < kRows * kInputs; ++i) {
      for (std::int64_t t = 0; t < kTokens; ++t) {
        slopes[static_cast<std::size_t>(i)] +=
            dy[static_cast<std::size_t>(t * kRows + i / kInputs)] *
            x[static_cast<std::size_t>(t * kInputs + i % kInputs)];
      }
    }
    if (codes) {
      const auto places = std::find_if(
          layer.parameters.begin(), layer.parameters.end(),
          [&](const auto& parameter) { return parameter.get() == host.parameters().places; });
      (*places)->gradient = slopes;
      host.pass_back(layer.pool);
    } else {
      host.add_scale_gradients(x.data(), dy.data(), kTokens, kRows, layer.pool);
    }
    const auto device_slopes = device::cuda::Buffer::of(std::span<const float>(slopes));
    device.add_scale_gradients(device_slopes.as<float>());
    for (std::size_t p = 0; p < same.size(); ++p) {
      expect_near(downloaded(optimizer.gradient(same[p].get()), same[p]->values.size(), stream),
                  layer.parameters[p]->gradient, std::string(name) + " " + same[p]->name);
    }
    const formats::PackedWeight result = alone.packed(layer.pool);
    if (codes) {
      EXPECT_EQ(compress::unpack(result).codes, compress::unpack(host.packed(layer.pool)).codes)
          << name;
    } else {
      EXPECT_EQ(compress::unpack(result).codes, compress::unpack(packed.weight).codes) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Decoders, CudaTuneCodes, ::testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "AndCodes" : "Alone");
});

TEST_F(CudaTune, HasTheLossesOfTheCpu) {
  core::ThreadPool pool(1);
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  for (const LogitLoss& loss : {LogitLoss{1.0, 0.0}, LogitLoss{0.0, 1.0}, LogitLoss{0.5, 0.5}}) {
    for (const std::int64_t vocabulary : {3, 700, 4099}) {
      const std::vector<std::int32_t> labels = {2, -1, 0, 1};
      const std::int64_t rows = std::ssize(labels);
      ops::cpu::Matrix logits = ops.matrix(rows, vocabulary);
      ops::cpu::Matrix teacher = ops.matrix(rows, vocabulary);
      const auto own = normal(rows * vocabulary, 1);
      const auto theirs = normal(rows * vocabulary, 2);
      std::copy(own.begin(), own.end(), logits.data());
      std::copy(theirs.begin(), theirs.end(), teacher.data());
      const Stream stream;
      const auto device_logits = device::cuda::Buffer::of(std::span<const float>(own));
      const auto device_teacher = device::cuda::Buffer::of(std::span<const float>(theirs));
      const auto device_labels = device::cuda::Buffer::of(std::span<const std::int32_t>(labels));
      const device::cuda::Buffer losses(rows * static_cast<std::int64_t>(sizeof(double)));
      constexpr double kScale = 0.3;
      cuda::logit_loss({static_cast<float>(loss.labels), static_cast<float>(loss.logits)},
                       device_logits.as<float>(), device_teacher.as<float>(),
                       device_labels.as<std::int32_t>(), static_cast<float>(kScale), rows,
                       vocabulary, losses.as<double>(), stream.get());
      const double found = kScale * cuda::sum_of(losses.as<double>(), rows, stream.get());
      const double expected = logit_loss(loss, logits, teacher, labels, kScale, pool);
      EXPECT_NEAR(found, expected, 1e-5 * std::abs(expected)) << vocabulary;
      expect_near(device_logits.values<float>(), {logits.values().begin(), logits.values().end()},
                  "slopes of " + std::to_string(vocabulary));
    }
  }
}

TEST_F(CudaTune, MovesAsTheCpusAdamW) {
  const Stream stream;
  Parameters parameters;
  Parameters same;
  for (auto* set : {&parameters, &same}) {
    set->push_back(std::make_unique<Parameter>("a", normal(70001, 1), 1.0f, true));
    set->push_back(std::make_unique<Parameter>("b", normal(3, 2), 3.0f));
  }
  const AdamWOptions options{.beta2 = 0.95, .weight_decay = 0.1, .clip = 2.0};
  core::ThreadPool pool(2);
  AdamW optimizer(parameters, options, pool);
  DeviceAdamW device(same, options, stream.get());
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (std::size_t p = 0; p < 2; ++p) {
      Parameter& parameter = *parameters[p];
      parameter.gradient = normal(std::ssize(parameter.values), 10 * step + p);
      ASSERT_EQ(cudaMemcpy(device.gradient(same[p].get()), parameter.gradient.data(),
                           parameter.gradient.size() * sizeof(float), cudaMemcpyHostToDevice),
                cudaSuccess);
    }
    EXPECT_NEAR(device.step(1.0, 1e-2), optimizer.step(1e-2), 1e-6);
    if (step == 2) {
      device.keep();
    }
    for (std::size_t p = 0; p < 2; ++p) {
      const std::size_t count = parameters[p]->values.size();
      expect_near(downloaded(device.values(same[p].get()), count, stream), parameters[p]->values,
                  "values");
      EXPECT_EQ(downloaded(device.gradient(same[p].get()), count, stream),
                std::vector<float>(count));
    }
  }
  EXPECT_EQ(device.steps(), 4);
  const std::vector<float> last = downloaded(device.values(same[0].get()), 70001, stream);
  device.return_kept();
  EXPECT_NE(same[0]->values, last);
  const std::vector<float> broken(3, std::numeric_limits<float>::quiet_NaN());
  ASSERT_EQ(cudaMemcpy(device.gradient(same[1].get()), broken.data(), 12, cudaMemcpyHostToDevice),
            cudaSuccess);
  io::expect_error(core::ErrorKind::kFailed, {"step 5: the gradient at b is not finite"},
                   [&] { device.step(1.0, 1e-2); });
}

class CudaTuneModel : public TuneModel {
 protected:
  void SetUp() override {
    if (device::cuda_devices().empty()) {
      GTEST_SKIP() << "there is no NVIDIA GPU";
    }
  }
  static TuningOptions gpu_options(ProductPrecision precision) {
    TuningOptions options = small_options();
    options.model.runs = false;
    options.blocks.zero_rate = 1.0;
    options.place.kind = device::Kind::kCuda;
    options.precision = precision;
    return options;
  }
};

// All epochs, at a low rate: at a high one, codes that round to the other side move whole curves
// apart. The gradient of the first step tells more: it depends on nothing before.
TEST_F(CudaTuneModel, HasTheLossOfTheCpu) {
  for (const char* family : {"llama", "gpt2", "opt", "qwen3", "gemma2"}) {
    for (const char* recipe : {"gqsa-w4s50", "rtn-w4g16", "rtn-w3g16-sym"}) {
      const std::string what = std::string(family) + " " + recipe;
      const auto before = quantized(family, recipe);
      TuningOptions options = gpu_options(ProductPrecision::kFloat32);
      options.blocks.learning_rate = 3e-4;
      options.patience = options.blocks.epochs;  // all of them, on both
      const device::Place gpu = options.place;
      options.place = {};
      options.csv = folder_ / "cpu.csv";
      tune(*before, family, "cpu", options);
      const auto expected = read_loss_curve(*options.csv);
      for (const auto precision :
           {ProductPrecision::kFloat32, ProductPrecision::kTf32, ProductPrecision::kBfloat16}) {
        options.place = gpu;
        options.precision = precision;
        options.csv = folder_ / "gpu.csv";
        Interrupted progress("");
        tune(*before, family, "gpu", options, progress);
        const auto found = read_loss_curve(*options.csv);
        const bool is_exact = precision == ProductPrecision::kFloat32;
        ASSERT_EQ(found.size(), expected.size()) << what;
        EXPECT_NEAR(found.front().gradient_norm, expected.front().gradient_norm,
                    (is_exact ? 1e-4 : 0.05) * expected.front().gradient_norm)
            << what;
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_NEAR(found[i].loss, expected[i].loss, (is_exact ? 0.05 : 0.15) * expected[i].loss)
              << what << " step " << i;
        }
        EXPECT_NE(progress.messages().find(" MB of the GPU"), std::string::npos);
        std::filesystem::remove_all(folder_ / "gpu");
      }
      std::filesystem::remove_all(folder_ / "cpu");
    }
  }
}

TEST_F(CudaTuneModel, BringsTheModelNearerToTheFloatOne) {
  for (const char* family : {"llama", "gpt2", "opt"}) {
    for (const char* recipe : {"gqsa-w4s50", "rtn-w4g16"}) {
      const auto before = quantized(family, recipe);
      TuningOptions options = gpu_options(ProductPrecision::kBfloat16);
      options.model.runs = true;
      options.model.epochs = 8;
      options.model.zero_rate = 1.0;
      options.model.code_rate = 3.0;
      tune(*before, family, "tuned", options);
      const auto after = models::open_model(folder_ / "tuned");
      EXPECT_EQ(after->compression.schemes, before->compression.schemes);
      EXPECT_LT(divergence(*after, *teacher(family), options),
                0.9 * divergence(*before, *teacher(family), options))
          << family << " " << recipe;
      std::filesystem::remove_all(folder_ / "tuned");
    }
  }
}

TEST_F(CudaTuneModel, GoesOnToTheSameBytes) {
  const auto model = quantized("llama", "gqsa-w4s50");
  const TuningOptions options = gpu_options(ProductPrecision::kBfloat16);
  const auto whole = tune(*model, "llama", "whole", options);
  EXPECT_EQ(tune(*model, "llama", "again", options), whole);
  class Stopped : public Interrupted {
   public:
    Stopped() : Interrupted("") {}
    void update(std::int64_t done, std::string_view note) override {
      if (jobs().back() == "block 2: bqpo" && done == 2) {
        throw std::runtime_error("stopped");
      }
      Interrupted::update(done, note);
    }
  } progress;
  EXPECT_THROW(tune(*model, "llama", "halves", options, progress), std::runtime_error);
  TuningOptions others = options;
  others.precision = ProductPrecision::kTf32;
  EXPECT_THROW(tune(*model, "llama", "halves", others, core::silent_progress(), true), core::Error);
  EXPECT_EQ(tune(*model, "llama", "halves", options, core::silent_progress(), true), whole);
}

TEST_F(CudaTuneModel, TrainsScalesThroughTheModelAsTheCpu) {
  for (const char* family : {"llama", "gpt2", "opt", "opt-projected", "qwen3"}) {
    for (const char* recipe : {"gqsa-w4s50", "rtn-w4g16"}) {
      const std::string what = std::string(family) + " " + recipe;
      const auto before = quantized(family, recipe);
      TuningOptions options = gpu_options(ProductPrecision::kFloat32);
      options.blocks.runs = false;
      options.model.runs = true;
      options.model.zero_rate = 1.0;
      options.model.epochs = 4;
      options.loss = {0.5, 0.5};
      const device::Place gpu = options.place;
      options.place = {};
      options.csv = folder_ / "cpu.csv";
      tune(*before, family, "cpu", options);
      const auto expected = losses_in(*options.csv);
      options.place = gpu;
      options.csv = folder_ / "gpu.csv";
      for (const auto precision : {ProductPrecision::kFloat32, ProductPrecision::kBfloat16}) {
        options.precision = precision;
        tune(*before, family, "gpu", options);
        expect_near_losses(*options.csv, expected,
                           precision == ProductPrecision::kFloat32 ? 0.01 : 0.05, what);
        std::filesystem::remove_all(folder_ / "gpu");
      }
      std::filesystem::remove_all(folder_ / "cpu");
    }
  }
}

TEST_F(CudaTuneModel, GoesOnWithScalesToTheSameBytes) {
  const auto model = quantized("llama", "rtn-w4g16");
  TuningOptions options = gpu_options(ProductPrecision::kBfloat16);
  options.model.runs = true;
  const auto whole = tune(*model, "llama", "whole", options);
  class Stopped : public Interrupted {
   public:
    Stopped() : Interrupted("") {}
    void update(std::int64_t done, std::string_view note) override {
      if (jobs().back() == "the whole model: e2e-oqp" && done == 2) {
        throw std::runtime_error("stopped");
      }
      Interrupted::update(done, note);
    }
  } progress;
  EXPECT_THROW(tune(*model, "llama", "halves", options, progress), std::runtime_error);
  EXPECT_EQ(tune(*model, "llama", "halves", options, core::silent_progress(), true), whole);
}

TEST_F(CudaTuneModel, BatchesOfAStepAreOneLargeBatch) {
  const auto model = quantized("llama", "rtn-w4g16");
  TuningOptions options = gpu_options(ProductPrecision::kFloat32);
  options.blocks.learning_rate = 1e-4;
  options.batch = 4;
  options.csv = folder_ / "large.csv";
  tune(*model, "llama", "large", options);
  options.batch = 1;
  options.accumulate = 4;
  options.csv = folder_ / "small.csv";
  tune(*model, "llama", "small", options);
  expect_near_losses(folder_ / "small.csv", losses_in(folder_ / "large.csv"), 1e-3, "small");
}

TEST_F(CudaTuneModel, StopsWhereALossIsNotFinite) {
  const auto model = quantized("llama", "rtn-w4g16");
  TuningOptions options = gpu_options(ProductPrecision::kBfloat16);
  options.blocks.learning_rate = 1e30;
  io::expect_error(core::ErrorKind::kFailed, {"step ", "is not finite"},
                   [&] { tune(*model, "llama", "tuned", options); });
}

}  // namespace
}  // namespace nibble::tune
