#include <cmath>

#include "compress/backend/backend.h"
#include "compress/block/layer_for_tests.h"
#include "compress/calibration/block_runner.h"
#include "core/error.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/memory.h"
#include "models/model.h"

namespace nibble::compress {
namespace {

const std::filesystem::path kFamilies =
    std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families";

// Windows of several lengths, some of which run together.
CalibrationWindows some_windows(const models::Network& network) {
  CalibrationWindows windows;
  for (const std::size_t length : {23, 1, 40, 17}) {
    auto& window = windows.emplace_back(length);
    for (std::size_t i = 0; i < length; ++i) {
      window[i] = static_cast<std::int32_t>((i * 13 + 7 * windows.size()) %
                                            static_cast<std::size_t>(network.config.vocabulary));
    }
  }
  return windows;
}

// Largest difference, relative to the largest value.
template <typename T>
double difference(const std::vector<T>& a, const std::vector<T>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  double largest = 1e-30;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
    const double distance = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = std::isnan(distance) ? INFINITY : std::max(worst, distance);
  }
  return worst / largest;
}

std::vector<float> lower_triangle(const std::vector<float>& matrix) {
  const auto k = static_cast<std::size_t>(std::llround(std::sqrt(matrix.size())));
  std::vector<float> lower;
  for (std::size_t i = 0; i < k; ++i) {
    lower.insert(lower.end(), matrix.begin() + static_cast<std::ptrdiff_t>(i * k),
                 matrix.begin() + static_cast<std::ptrdiff_t>(i * k + i + 1));
  }
  return lower;
}

void expect_same(const InputStatistics& got, const InputStatistics& expected) {
  constexpr double kTolerance = 2e-5;
  EXPECT_EQ(got.rows(), expected.rows());
  EXPECT_LT(difference(got.largest(), expected.largest()), kTolerance);
  EXPECT_LT(difference(got.mean_magnitude(), expected.mean_magnitude()), kTolerance);
  EXPECT_LT(difference(got.mean_squares(), expected.mean_squares()), kTolerance);
  EXPECT_LT(difference(lower_triangle(got.hessian()), lower_triangle(expected.hessian())),
            kTolerance);
  EXPECT_LT(difference(got.cross(), expected.cross()), kTolerance);
}

class CudaBlockRunner : public device::GpuTest, public testing::WithParamInterface<const char*> {};

// Every block, its inputs measured, then passed, with the original model beside it.
TEST_P(CudaBlockRunner, MeasuresAndMovesLikeTheCpu) {
  const auto model = models::open_model(kFamilies / GetParam());
  const models::Network& network = model->network;
  const CalibrationWindows windows = some_windows(network);
  const bool experts = network.config.routing.experts > 0;
  const StatisticsKind kind = experts ? StatisticsKind::kHessian : StatisticsKind::kCross;
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  const Backend cpu(ops.pool());
  const auto gpu = make_cuda_backend(0, ops.pool());
  const auto on_cpu =
      make_block_runner(cpu, network, decoder_inputs(windows), ops, !experts, std::nullopt, {});
  const auto on_gpu =
      make_block_runner(gpu, network, decoder_inputs(windows), ops, !experts, std::nullopt, {});
  EXPECT_EQ(on_gpu->keeps_original(), !experts);
  std::map<int, SetCurvature> curvature;  // of every second set
  for (std::size_t i = 0; i < network.decoder.blocks.size(); ++i) {
    const models::Block& block = network.decoder.blocks[i];
    const auto sets = models::linear_sets(block);
    for (std::size_t at = 0; !experts && at < sets.size(); at += 2) {
      std::vector<float> weights = core::normal_values(81, 3);
      for (float& weight : weights) {
        weight *= weight;
      }
      curvature[sets[at]->id].token_weights = weights;
    }
    // Stands for a block that compression has changed.
    models::Block changed = block;
    for (float& weight : changed.mlp_norm.weight) {
      weight *= 1.25f;
    }
    const auto layer = static_cast<std::int64_t>(i);
    const Observation all{kind, std::nullopt, &block, &curvature};
    auto expected = on_cpu->observe(layer, changed, all);
    auto got = on_gpu->observe(layer, changed, all);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [id, statistics] : expected) {
      SCOPED_TRACE(fmt::format("block {}, set {}", i, id));
      expect_same(got.at(id), statistics);
    }
    EXPECT_LT(difference(on_gpu->mean_input(&block.attention_norm),
                         on_cpu->mean_input(&block.attention_norm)),
              2e-5);
    EXPECT_LT(difference(on_gpu->mean_input(nullptr), on_cpu->mean_input(nullptr)), 2e-5);
    const Observation one{StatisticsKind::kChannels, sets.front()->id, nullptr, nullptr};
    got = on_gpu->observe(layer, changed, one);
    EXPECT_EQ(got.size(), 1u);
    on_cpu->advance(layer, changed, block);
    on_gpu->advance(layer, changed, block);
  }
  expect_same(on_gpu->observe_output({kind, std::nullopt, nullptr, &curvature}),
              on_cpu->observe_output({kind, std::nullopt, nullptr, &curvature}));
}

INSTANTIATE_TEST_SUITE_P(All, CudaBlockRunner,
                         testing::Values("llama", "llama-bias-tied", "llama-yarn-rope", "mistral",
                                         "qwen2-window", "qwen3", "gpt2", "opt", "opt-post-norm",
                                         "mixtral"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

using CudaBlockRunnerRefusals = device::GpuTest;

TEST_F(CudaBlockRunnerRefusals, ActivationsThatAreNotFinite) {
  const auto model = models::open_model(kFamilies / "llama");
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  const auto gpu = make_cuda_backend(0, ops.pool());
  const CalibrationWindows windows = some_windows(model->network);
  const auto runner =
      make_block_runner(gpu, model->network, decoder_inputs(windows), ops, false, std::nullopt, {});
  models::Block block = model->network.decoder.blocks.front();
  block.attention_norm.weight.back() = INFINITY;
  EXPECT_THROW(
      runner->observe(0, block, {StatisticsKind::kChannels, std::nullopt, nullptr, nullptr}),
      core::Error);
}

TEST_F(CudaBlockRunnerRefusals, ActivationsOfAStoredScale) {
  const auto model = models::open_model(kFamilies / "llama");
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  const auto gpu = make_cuda_backend(0, ops.pool());
  const CalibrationWindows windows = some_windows(model->network);
  try {
    (void)make_block_runner(gpu, model->network, decoder_inputs(windows), ops, false, std::nullopt,
                            {{"layer", formats::parse_scheme("int8-sym-row-a8s")}});
    FAIL() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("use --device cpu"), std::string::npos);
  }
}

// Memory that the GPU does not have, with what would fit.
TEST_F(CudaBlockRunnerRefusals, WindowsThatDoNotFit) {
  const auto model = models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "models/demo");
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  const auto gpu = make_cuda_backend(0, ops.pool());
  constexpr std::int64_t kLeft = std::int64_t{1} << 30;
  const std::int64_t free = device::require_cuda_device().free_bytes;
  const device::cuda::Buffer held(std::max<std::int64_t>(0, free - kLeft));
  const CalibrationWindows windows(3000, std::vector<std::int32_t>(1024));  // 3 GB of states
  try {
    (void)make_block_runner(gpu, model->network, decoder_inputs(windows), ops, false, std::nullopt,
                            {});
    FAIL() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("take --samples "), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace nibble::compress
