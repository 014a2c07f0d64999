#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/json.h"
#include "core/temporary_folder_for_tests.h"
#include "device/cuda_devices.h"
#include "engine/runner.h"
#include "io/safetensors.h"
#include "io/tensor_store.h"

// Models that other tools compressed, against transformers with the weights that those tools read
// from them (tests/exchange/make_goldens.py).
namespace nibble::engine {
namespace {

using core::Json;

const std::filesystem::path kModels =
    std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "exchange";

// Of a logit; on a GPU activations have 16 bits. Logits are up to 5.
double tolerance(const device::Place& place, const Json& golden) {
  return std::max(golden["tolerance"].get<double>(), place.on_gpu() ? 2e-2 : 0.0);
}

// Of all logits together, where a GPU reads a book: its entries have 8 bits there.
constexpr double kBookTolerance = 0.05;

std::string test_name(const testing::TestParamInfo<const char*>& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class ForeignModels : public testing::TestWithParam<const char*> {};

TEST_P(ForeignModels, LogitsAreThoseOfTheWeightsThatTheToolReads) {
  const device::Place place = device::parse_place(NIBBLE_TEST_DEVICE);
  if (place.on_gpu() && device::cuda_devices().empty()) {
    GTEST_SKIP() << "there is no NVIDIA GPU";
  }
  const std::filesystem::path folder = kModels / GetParam();
  std::ifstream file(folder / "golden.json");
  const Json golden = Json::parse(file);
  const auto ids = golden["ids"].get<std::vector<std::int32_t>>();
  RunnerOptions options;
  options.place = place;
  options.cpu.threads = 2;
  options.cpu.activations = ops::ActivationPrecision::kFloat;
  options.kv_types = ops::KvType::kF32;
  const auto runner = make_runner(models::open_model(folder, stored_layers_for(place)), options);
  const auto first = static_cast<std::int64_t>(ids.size() - golden["logits"].size());
  const bool has_book = std::string(GetParam()).starts_with("bnb");
  const bool one_by_one = !(has_book && place.on_gpu());
  std::int64_t compared = 0;
  double squares = 0.0;
  double error = 0.0;
  runner->score(ids, [&](std::int64_t row, const LogitsView& logits) {
    for (std::int64_t i = std::max<std::int64_t>(0, first - row); i < logits.rows; ++i) {
      const auto expected =
          golden["logits"][static_cast<std::size_t>(row + i - first)].get<std::vector<float>>();
      for (std::size_t j = 0; j < expected.size(); ++j, ++compared) {
        if (one_by_one) {
          ASSERT_NEAR(logits.row(i)[j], expected[j], tolerance(place, golden))
              << "token " << row + i << ", logit " << j;
        }
        error += std::pow(logits.row(i)[j] - expected[j], 2);
        squares += std::pow(expected[j], 2);
      }
    }
  });
  EXPECT_EQ(compared, 4 * 64);
  EXPECT_LT(std::sqrt(error / squares), kBookTolerance);
}

std::vector<float> logits_of(Runner& runner) {
  const std::vector<std::int32_t> ids = {1, 5, 9, 33};
  std::vector<float> all;
  runner.score(ids, [&](std::int64_t, const LogitsView& logits) {
    all.insert(all.end(), logits.values.begin(), logits.values.end());
  });
  return all;
}

// A layer lies in memory once: as the file has it, or as the kernels read it.
TEST_P(ForeignModels, LayersAreGivenBackWhenTheirLayoutsAreMade) {
  const device::Place place = device::parse_place(NIBBLE_TEST_DEVICE);
  if (place.on_gpu() && device::cuda_devices().empty()) {
    GTEST_SKIP() << "there is no NVIDIA GPU";
  }
  const auto model = models::open_model(kModels / GetParam(), stored_layers_for(place));
  const std::int64_t whole = model->foreign->bytes();
  EXPECT_GT(whole, 0);
  RunnerOptions options;
  options.place = place;
  options.cpu.threads = 2;
  const auto first = make_runner(model, options);
  const std::int64_t left = model->foreign->bytes();
  const bool has_layouts = !std::string(GetParam()).starts_with("ct-fp8");
  EXPECT_EQ(left, has_layouts || place.on_gpu() ? 0 : whole);
  const std::vector<float> logits = logits_of(*first);
  const auto second = make_runner(model, options);  // makes the layers again
  EXPECT_EQ(logits_of(*second), logits);
  EXPECT_EQ(logits_of(*first), logits);
  EXPECT_EQ(model->foreign->bytes(), left);
}

// The MLX folder with the biases of a layer so far from multiples of its scales that no zero points
// come near.
void copy_with_far_biases(const std::filesystem::path& folder) {
  std::filesystem::copy(kModels / "mlx", folder, std::filesystem::copy_options::recursive);
  const auto store = io::TensorStore::open(folder);
  std::vector<io::NamedTensor> tensors;
  for (const std::string& name : store->names()) {
    core::Tensor tensor = store->load_or_bytes(name);
    if (name == "model.layers.0.mlp.up_proj.biases") {
      std::vector<float> biases = core::to_float32(tensor);
      std::transform(biases.begin(), biases.end(), biases.begin(),
                     [](float bias) { return bias + 0.5f; });
      tensor = core::from_float32(biases, tensor.shape(), tensor.dtype());
    }
    tensors.push_back({name, tensor, store->type_name(name) == "U32" ? "U32" : ""});
  }
  io::write_safetensors(folder / "model.safetensors", tensors);
}

TEST(ForeignLayers, BiasesFarFromZeroPointsRunOnEveryDevice) {
  const device::Place place = device::parse_place(NIBBLE_TEST_DEVICE);
  if (place.on_gpu() && device::cuda_devices().empty()) {
    GTEST_SKIP() << "there is no NVIDIA GPU";
  }
  const core::TemporaryFolder folder;
  copy_with_far_biases(folder.path() / "far");
  const auto logits = [&](const device::Place& where, models::StoredLayers stored) {
    RunnerOptions options;
    options.place = where;
    options.cpu.threads = 1;
    options.cpu.activations = ops::ActivationPrecision::kFloat;
    options.kv_types = ops::KvType::kF32;
    const auto model = models::open_model(folder.path() / "far", stored);
    const auto& block = model->network.decoder.blocks.front();
    EXPECT_EQ(to_string(block.mlp->up.parts.back().weight.scheme), "int4-min-g32");
    return logits_of(*make_runner(model, options));
  };
  const std::vector<float> expected =
      logits(device::parse_place("cpu"), models::StoredLayers::kAsTheyAre);
  const std::vector<float> found = logits(place, models::StoredLayers::kZeroPoints);
  ASSERT_EQ(found.size(), expected.size());
  double error = 0;
  double squares = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    error += std::pow(found[i] - expected[i], 2);
    squares += std::pow(expected[i], 2);
  }
  EXPECT_LT(std::sqrt(error / squares), 0.01);
}

// Kernels of float activations read layers where they are stored: those are not given back.
TEST(ForeignLayers, StayWhileTheyAreRead) {
  const auto model = models::open_model(kModels / "awq");
  const std::int64_t whole = model->foreign->bytes();
  RunnerOptions options;
  options.cpu.threads = 1;
  options.cpu.activations = ops::ActivationPrecision::kFloat;
  auto reads = make_runner(model, options);
  options.cpu.activations = ops::ActivationPrecision::kInt8;
  make_runner(model, options).reset();
  EXPECT_EQ(model->foreign->bytes(), whole);
  const std::vector<float> logits = logits_of(*reads);
  EXPECT_FALSE(logits.empty());
  reads.reset();
  EXPECT_EQ(model->foreign->bytes(), 0);
  options.cpu.activations = ops::ActivationPrecision::kFloat;
  EXPECT_EQ(logits_of(*make_runner(model, options)), logits);
}

INSTANTIATE_TEST_SUITE_P(All, ForeignModels,
                         testing::Values("gptq", "gptq-v2", "gptq-3", "awq", "ct-pack", "ct-int",
                                         "ct-w8a8", "ct-fp8", "ct-nvfp4", "ct-mxfp4", "bnb-nf4",
                                         "bnb-fp4", "mlx"),
                         test_name);

}  // namespace
}  // namespace nibble::engine
