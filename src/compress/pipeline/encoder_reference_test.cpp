// What the layers of encoders and of decoders behind them read, and what GPTQ loses there, against
// NumPy (tests/reference/make_encoder_gptq.py).

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "compress/calibration/block_runner.h"
#include "compress/recipe/apply_for_tests.h"
#include "core/json.h"
#include "models/model.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

const fs::path kTests = fs::path(NIBBLE_SOURCE_DIR) / "tests";

// Three or two texts in a pack, as lengths allow.
CalibrationInputs reference_inputs(bool pairs) {
  constexpr std::int32_t kTexts = 11;
  CalibrationInputs inputs;
  for (std::int32_t text = 0; text < kTexts; ++text) {
    if (text % 3 == 0) {
      inputs.encoder.emplace_back();
      inputs.decoder.resize(pairs ? inputs.encoder.size() : 0);
    }
    CalibrationPack& read = inputs.encoder.back();
    read.lengths.push_back(9 + 3 * text);
    for (std::int32_t i = 0; i < read.lengths.back(); ++i) {
      read.tokens.push_back(4 + (7 * i + 13 * text) % 60);
      read.types.push_back((i + text) % 2);
    }
    if (pairs) {
      CalibrationPack& written = inputs.decoder.back();
      written.lengths.push_back(4 + 2 * text);
      written.tokens.push_back(2);
      for (std::int32_t i = 0; i + 1 < written.lengths.back(); ++i) {
        written.tokens.push_back(4 + (11 * i + 5 * text) % 60);
      }
      written.types.resize(written.tokens.size());
    }
  }
  return inputs;
}

// Both triangles of a Hessian of which only the lower one counts.
std::vector<float> symmetric(std::vector<float> h, std::int64_t k) {
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = i + 1; j < k; ++j) {
      h[static_cast<std::size_t>(i * k + j)] = h[static_cast<std::size_t>(j * k + i)];
    }
  }
  return h;
}

class EncoderReference : public testing::TestWithParam<const char*> {
 protected:
  EncoderReference() {
    std::ifstream file(kTests / "reference" / "encoder_gptq.json");
    golden_ = core::Json::parse(file).at(GetParam());
  }

  void expect_reference(SetWork& set, const std::string& pass) {
    const std::int64_t k = set.layers.front().k();
    const std::vector<float> h = symmetric(set.statistics->hessian(), k);
    double trace = 0;
    double form = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      trace += static_cast<double>(h[static_cast<std::size_t>(i * k + i)]);
      for (std::int64_t j = 0; j < k; ++j) {
        form += static_cast<double>(h[static_cast<std::size_t>(i * k + j)]) /
                static_cast<double>((1 + i) * (1 + j));
      }
    }
    apply_on_cpu(*make_pass(pass, core::Json::object()), set, ops_.pool());
    for (const LayerWork& layer : set.layers) {
      const core::Json& golden = golden_.at(layer.layer->name);
      EXPECT_NEAR(trace, golden.at("trace").get<double>(), 1e-4 * trace) << layer.layer->name;
      EXPECT_NEAR(form, golden.at("form").get<double>(), 1e-4 * form) << layer.layer->name;
      const auto nothing = formats::round_to_nearest(std::vector<float>(layer.target.size()),
                                                     layer.n(), k, formats::parse_scheme("f32"));
      const double lost = loss(layer.target, *layer.packed, h) / loss(layer.target, nothing, h);
      const double wanted = golden.at(pass).get<double>();
      EXPECT_NEAR(lost, wanted, 0.005 * wanted) << layer.layer->name << " " << pass;
      ++layers_;
    }
  }

  core::Json golden_;
  std::size_t layers_ = 0;
  ops::cpu::CpuOps ops_{{2, ops::ActivationPrecision::kFloat}};
};

TEST_P(EncoderReference, LayersReadAndLoseWhatNumpySays) {
  const auto model = models::open_model(kTests / "families" / GetParam());
  const models::Network& network = model->network;
  std::map<std::string, formats::Scheme> schemes;
  for (const auto& [name, values] : golden_.items()) {
    schemes.emplace(name, formats::parse_scheme("int4-asym-row"));
  }
  std::map<int, SetCurvature> none;
  for (const char* pass : {"rtn", "gptq"}) {
    CpuBlockRunner runner(network, reference_inputs(network.has_decoder()), ops_, false,
                          std::nullopt);
    std::int64_t index = 0;
    for (const models::Block* block : models::all_blocks(network)) {
      auto statistics =
          runner.observe(index, *block, {StatisticsKind::kHessian, std::nullopt, nullptr, nullptr});
      BlockWork work(network.config, models::NormPlacement::kPost, *block, schemes, none);
      work.use(statistics);
      for (SetWork& set : work.sets()) {
        expect_reference(set, pass);
      }
      runner.advance(index++, *block, models::Block());
    }
  }
  EXPECT_EQ(layers_, 2 * golden_.size());
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderReference, testing::Values("bert", "bart"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace nibble::compress
