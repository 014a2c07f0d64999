#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "compress/calibration/measure_curvature.h"
#include "compress/calibration/pack_forward.h"
#include "models/forward.h"
#include "models/model.h"
#include "ops/gradient/gradient_ops.h"

namespace nibble::compress {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;

TEST(OutputCurvature, SumsProductsInBlocks) {
  constexpr std::int64_t kOutputs = 700;  // a full block and a rest of 188
  constexpr std::int64_t kRows = 9;
  constexpr std::int64_t kStride = 720;
  const auto g = core::normal_values(kRows * kStride, 1);
  core::ThreadPool pool(2);
  OutputCurvature curvature(kOutputs);
  curvature.add(g.data(), 4, kStride, pool);
  curvature.add(g.data() + 4 * kStride, kRows - 4, kStride, pool);
  std::vector<float> divisors(40);
  std::iota(divisors.begin(), divisors.end(), 1.0f);
  curvature.divide_outputs(500, divisors);  // across the border of the blocks
  ASSERT_EQ(curvature.blocks(), 2);
  ASSERT_EQ(curvature.width(1), kOutputs - kCurvatureBlock);
  const auto factor = [&](std::int64_t i) {
    return i >= 500 && i < 540 ? static_cast<double>(i - 499) : 1.0;
  };
  for (std::int64_t b = 0; b < 2; ++b) {
    const auto block = curvature.block(b);
    for (std::int64_t i = 0; i < curvature.width(b); ++i) {
      for (std::int64_t j = 0; j < curvature.width(b); j += 7) {
        const std::int64_t row = curvature.first(b) + i;
        const std::int64_t column = curvature.first(b) + j;
        double sum = 0;
        for (std::int64_t m = 0; m < kRows; ++m) {
          sum += static_cast<double>(g[static_cast<std::size_t>(m * kStride + row)]) *
                 g[static_cast<std::size_t>(m * kStride + column)];
        }
        const double expected = sum * factor(row) * factor(column);
        ASSERT_NEAR(block[static_cast<std::size_t>(i * curvature.width(b) + j)], expected,
                    1e-4 * (1 + std::abs(expected)))
            << row << " " << column;
      }
    }
  }
}

const auto kFamilies = std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families";

// The gradient at logits of -log softmax of tokens that are drawn from it.
Matrix drawn_gradient(const Matrix& logits, CpuOps& ops, std::uint64_t seed) {
  Matrix gradient = ops.matrix(logits.rows(), logits.columns());
  core::Random draw(seed);
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    const float* row = logits.row(i);
    const double largest = *std::max_element(row, row + logits.columns());
    double sum = 0;
    for (std::int64_t j = 0; j < logits.columns(); ++j) {
      sum += std::exp(row[j] - largest);
    }
    double left = draw.uniform();
    bool drawn = false;
    for (std::int64_t j = 0; j < logits.columns(); ++j) {
      const double share = std::exp(row[j] - largest) / sum;
      const bool here = !drawn && left < share;
      left -= share;
      drawn = drawn || here;
      gradient.row(i)[j] = static_cast<float>(share - (here ? 1.0 : 0.0));
    }
  }
  return gradient;
}

class MeasureCurvature : public testing::TestWithParam<const char*> {};

// Block by block, from the last to the first, must come to what one pass back through the whole
// model does.
TEST_P(MeasureCurvature, AgreesWithOnePassThroughTheModel) {
  const auto model = models::open_model(kFamilies / GetParam());
  const models::Network& network = model->network;
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  std::vector<std::int32_t> window(20);
  core::Random tokens(1);
  for (auto& token : window) {
    token = static_cast<std::int32_t>(tokens.below(network.config.vocabulary));
  }
  const auto curvature =
      measure_curvature(network, decoder_inputs({window}), 5, ops, core::silent_progress(), true);

  ops::gradient::GradientOps tape(ops);
  std::map<int, OutputCurvature> expected;
  std::map<int, std::vector<double>> squares;
  tape.set_observer([&](const ops::LinearSet& set, const Matrix&, const Matrix& gradient) {
    OutputCurvature& sum = expected.try_emplace(set.id, set.parts.front().weight.n).first->second;
    sum.add(gradient.data(), gradient.rows(), gradient.columns(), ops.pool());
    for (std::int64_t i = 0; i < gradient.rows(); ++i) {
      squares[set.id].push_back(std::inner_product(
          gradient.row(i), gradient.row(i) + set.parts.front().weight.n, gradient.row(i), 0.0));
    }
  });
  std::vector<std::int32_t> positions(window.size());
  std::iota(positions.begin(), positions.end(), 0);
  const ops::SequenceSlice<ops::cpu::KvCache> alone{nullptr, 0, 0, 20};
  const models::Batch<ops::gradient::GradientOps> batch{window, positions, {&alone, 1}};
  const auto logits = models::logits(tape, network, models::hidden_states(tape, network, batch));
  tape.backward(logits, drawn_gradient(logits.value(), ops, 5));

  ASSERT_TRUE(curvature.contains(network.output.id));
  for (const auto& [id, set] : curvature) {
    const auto block = set.layers.front().block(0);
    const auto wanted = expected.at(id).block(0);
    ASSERT_EQ(block.size(), wanted.size());
    const float largest = *std::max_element(wanted.begin(), wanted.end());
    for (std::size_t i = 0; i < block.size(); ++i) {
      ASSERT_NEAR(block[i], wanted[i], 1e-4f * largest) << "set " << id << " at " << i;
    }
    ASSERT_EQ(set.token_weights.size(), window.size());
    const double mean =
        std::accumulate(set.token_weights.begin(), set.token_weights.end(), 0.0) / 20;
    EXPECT_NEAR(mean, 1.0, 1e-4);
    if (set.layers.size() == 1) {
      const auto& own = squares.at(id);
      const double total = std::accumulate(own.begin(), own.end(), 0.0);
      for (std::size_t i = 0; i < own.size(); ++i) {
        EXPECT_NEAR(set.token_weights[i], 20 * own[i] / total, 1e-3);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, MeasureCurvature, testing::Values("llama", "opt-post-norm"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The same through both stacks of an encoder-decoder: two texts in a pack.
TEST(Curvature, OfPairsAgreesWithOnePassThroughTheModel) {
  for (const char* family : {"bart", "mbart"}) {
    const auto model = models::open_model(kFamilies / family);
    const models::Network& network = model->network;
    CpuOps ops({2, ops::ActivationPrecision::kFloat});
    CalibrationInputs inputs;
    inputs.encoder = {{{5, 9, 13, 17, 21, 25, 29, 33, 8}, std::vector<std::int32_t>(9), {6, 3}}};
    inputs.decoder = {{{2, 7, 11, 2, 15, 19, 23}, std::vector<std::int32_t>(7), {3, 4}}};
    const auto curvature =
        measure_curvature(network, inputs, 5, ops, core::silent_progress(), true);

    ops::gradient::GradientOps tape(ops);
    std::map<int, OutputCurvature> expected;
    tape.set_observer([&](const ops::LinearSet& set, const Matrix&, const Matrix& gradient) {
      OutputCurvature& sum = expected.try_emplace(set.id, set.parts.front().weight.n).first->second;
      sum.add(gradient.data(), gradient.rows(), gradient.columns(), ops.pool());
    });
    const PackBatch source(inputs.encoder.front());
    const auto states = models::encode(tape, network, source.batch());
    auto x = models::embed(tape, network, PackBatch(inputs.decoder.front()).batch());
    for (const models::Block& block : network.decoder.blocks) {
      run_pack(tape, network.config, network.decoder.norms, block, inputs.decoder.front(),
               PackSource<ops::gradient::GradientOps>{&inputs.encoder.front(), &states}, x);
    }
    const auto logits = models::logits(tape, network, x);
    tape.backward(logits, drawn_gradient(logits.value(), ops, 5));

    std::size_t sets = 1;
    for (const models::Block* block : models::all_blocks(network)) {
      sets += models::linear_sets(*block).size();
    }
    EXPECT_EQ(curvature.size(), sets);
    for (const auto& [id, set] : curvature) {
      const auto block = set.layers.front().block(0);
      const auto wanted = expected.at(id).block(0);
      const float largest = *std::max_element(wanted.begin(), wanted.end());
      for (std::size_t i = 0; i < block.size(); ++i) {
        ASSERT_NEAR(block[i], wanted[i], 1e-4f * largest) << family << " set " << id << " " << i;
      }
    }
    const models::Block& first = network.decoder.blocks.front();
    EXPECT_EQ(curvature.at(first.cross->q.id).token_weights.size(), 7u);
    EXPECT_EQ(curvature.at(first.cross->kv.id).token_weights.size(), 9u);
  }
}

TEST(Curvature, OfExpertsIsRefused) {
  const auto model = models::open_model(kFamilies / "mixtral");
  CpuOps ops({1, ops::ActivationPrecision::kFloat});
  EXPECT_THROW((void)measure_curvature(model->network, decoder_inputs({{1, 2, 3}}), 0, ops,
                                       core::silent_progress()),
               core::Error);
}

}  // namespace
}  // namespace nibble::compress
