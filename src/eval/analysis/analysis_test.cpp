#include "eval/analysis/analysis.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include <gtest/gtest.h>

#include "core/json.h"
#include "eval/analysis/analysis_texts.h"

// Against NumPy in float64 (tests/reference/make_analysis_goldens.py), whose logits agree with
// those of transformers.
namespace nibble::eval {
namespace {

using core::Json;

const std::filesystem::path kRoot = NIBBLE_SOURCE_DIR;

Json golden() {
  std::ifstream file(kRoot / "src/eval/goldens/analysis.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return core::parse_json(text, "analysis.json");
}

std::shared_ptr<models::Model> open_family(const std::string& name) {
  return models::open_model(kRoot / "tests/families" / name);
}

AnalysisSide side(std::shared_ptr<const models::Model> model) {
  AnalysisSide side{std::move(model), {}};
  side.options.cpu.threads = 2;
  return side;
}

// The model with the weights of its blocks rounded to multiples of `step`.
std::shared_ptr<models::Model> rounded(const std::string& name, float step) {
  auto model = open_family(name);
  for (models::Block* block : models::all_blocks(model->network)) {
    for (ops::LinearSet* set : models::linear_sets(*block)) {
      for (ops::Linear& part : set->parts) {
        const auto k = static_cast<std::size_t>(part.weight.k);
        std::vector<float> values(static_cast<std::size_t>(part.weight.n) * k);
        for (std::size_t row = 0; row < static_cast<std::size_t>(part.weight.n); ++row) {
          formats::decode_row(part.weight, static_cast<std::int64_t>(row),
                              std::span(values).subspan(row * k, k));
        }
        for (float& value : values) {
          value = std::nearbyint(value / step) * step;
        }
        part.weight = formats::dense_weight(
            core::Tensor::from<float>(values, {part.weight.n, part.weight.k}));
      }
    }
  }
  return model;
}

std::vector<AnalysisText> texts_of(const Json& expected) {
  std::vector<AnalysisText> texts;
  for (const Json& text : expected["texts"]) {
    texts.push_back({text["source"].get<std::vector<std::int32_t>>(),
                     {},
                     text["target"].get<std::vector<std::int32_t>>()});
  }
  return texts;
}

void expect_curve(const PositionMeans& means, std::int64_t first, const Json& expected) {
  EXPECT_EQ(means.positions(), std::ssize(expected) + first - 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto value = expected[i].get<double>();
    EXPECT_NEAR(means.at(first + static_cast<std::int64_t>(i)), value, 1e-4 * (1 + std::abs(value)))
        << i;
  }
}

void expect_curves(const RangeCurves& curves, const Json& expected) {
  expect_curve(curves.minimum, 1, expected["minimum"]);
  expect_curve(curves.maximum, 1, expected["maximum"]);
  expect_curve(curves.magnitude, 1, expected["magnitude"]);
}

void expect_block(const BlockAnalysis& block, const Json& expected, bool with_noise) {
  ASSERT_EQ(block.ranges.size(), expected["ranges"].size());
  for (std::size_t i = 0; i < block.ranges.size(); ++i) {
    const Json& ranges = expected["ranges"][i];
    SCOPED_TRACE(block.ranges[i].place);
    EXPECT_EQ(block.ranges[i].place, ranges["place"]);
    expect_curves(block.ranges[i].model, ranges["model"]);
    expect_curves(block.ranges[i].quantized, ranges["rounded"]);
  }
  ASSERT_EQ(block.noise.size(), with_noise ? expected["noise"].size() : 0);
  for (std::size_t i = 0; i < block.noise.size(); ++i) {
    const Json& noise = expected["noise"][i];
    SCOPED_TRACE(block.noise[i].place);
    EXPECT_EQ(block.noise[i].place, noise["place"]);
    EXPECT_NEAR(block.noise[i].chained.decibels(), noise["chained"].get<double>(), 1e-3);
    EXPECT_NEAR(block.noise[i].alone.decibels(), noise["alone"].get<double>(), 1e-3);
  }
}

void expect_analysis(const Analysis& analysis, const Json& expected, bool with_noise = true) {
  expect_curve(analysis.loss->model, 2, expected["loss"]["model"]);
  expect_curve(analysis.loss->quantized, 2, expected["loss"]["rounded"]);
  ASSERT_EQ(analysis.stacks.size(), expected["stacks"].size());
  for (std::size_t s = 0; s < analysis.stacks.size(); ++s) {
    const StackAnalysis& stack = analysis.stacks[s];
    const Json& blocks = expected["stacks"][s]["blocks"];
    EXPECT_EQ(stack.name, expected["stacks"][s]["name"]);
    expect_curves(stack.embedding.model, expected["stacks"][s]["embedding"]);
    ASSERT_EQ(stack.blocks.size(), blocks.size());
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      SCOPED_TRACE(b);
      expect_block(stack.blocks[b], blocks[b], with_noise);
    }
  }
}

class Analyses : public ::testing::TestWithParam<const char*> {};

TEST_P(Analyses, AreThoseOfNumpy) {
  const Json expected = golden();
  const Json& own = expected[GetParam()];
  const auto other = rounded(GetParam(), expected["step"].get<float>());
  const std::vector<AnalysisText> texts = texts_of(own);
  const Analysis analysis =
      analyze(side(open_family(GetParam())), side(other), texts, core::silent_progress());
  EXPECT_EQ(analysis.texts, 2);
  EXPECT_EQ(analysis.stacks.back().norms, std::string(GetParam()) == "opt"
                                              ? models::NormPlacement::kPre
                                              : models::NormPlacement::kPost);
  expect_analysis(analysis, own);
  const PositionalLoss& loss = *analysis.loss;
  EXPECT_NEAR(loss.increase.all().value, loss.quantized.all().value - loss.model.all().value, 1e-9);
  // What scales values between layers has no noise to tell, but all else.
  other->compression.recipe = "smoothquant-w8a8";
  other->compression.keeps_inputs = false;
  expect_analysis(
      analyze(side(open_family(GetParam())), side(other), texts, core::silent_progress()), own,
      false);
}

INSTANTIATE_TEST_SUITE_P(Families, Analyses, ::testing::Values("opt", "opt-post-norm", "bart"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Analysis, OfAModelAloneAndBesideItself) {
  for (const char* family : {"gpt2", "llama", "qwen3", "mistral", "mixtral", "phi3", "gemma2"}) {
    SCOPED_TRACE(family);
    const auto model = open_family(family);
    AnalysisText text;
    for (std::int32_t i = 0; i < 20; ++i) {
      text.target.push_back(i * 7 % 64);
    }
    const Analysis alone = analyze(side(model), {}, {&text, 1}, core::silent_progress());
    EXPECT_EQ(alone.loss->model.positions(), 20);
    EXPECT_EQ(alone.loss->quantized.positions(), 0);
    EXPECT_TRUE(alone.stacks[0].blocks[0].noise.empty());
    const Analysis twice = analyze(side(model), side(model), {&text, 1}, core::silent_progress());
    EXPECT_EQ(twice.loss->increase.all().value, 0);
    for (const BlockAnalysis& block : twice.stacks[0].blocks) {
      for (const PlaceNoise& noise : block.noise) {
        EXPECT_EQ(noise.chained.decibels(), std::numeric_limits<double>::infinity()) << noise.place;
        EXPECT_EQ(noise.alone.decibels(), std::numeric_limits<double>::infinity()) << noise.place;
      }
      for (const PlaceRanges& ranges : block.ranges) {
        EXPECT_EQ(ranges.model.magnitude.at(20), ranges.quantized.magnitude.at(20)) << ranges.place;
      }
    }
  }
}

TEST(Analysis, OfAnEncoder) {
  const auto model = open_family("bert-texts");
  const AnalysisText text{{5, 9, 20}, {0, 0, 1}, {}};
  const Analysis analysis = analyze(side(model), side(model), {&text, 1}, core::silent_progress());
  EXPECT_FALSE(analysis.loss);
  ASSERT_EQ(analysis.stacks.size(), 1u);
  EXPECT_EQ(analysis.stacks[0].name, "encoder");
  EXPECT_EQ(analysis.stacks[0].blocks[1].ranges.back().model.magnitude.positions(), 3);
}

TEST(Analysis, RefusesWhatDoesNotFit) {
  const auto model = open_family("opt");
  const AnalysisText text{{}, {}, {1, 2, 3}};
  const auto fails = [&](const AnalysisSide& first, const AnalysisSide& second,
                         std::span<const AnalysisText> texts) {
    EXPECT_THROW(analyze(first, second, texts, core::silent_progress()), core::Error);
  };
  fails(side(model), {}, {});
  fails(side(model), side(open_family("gpt2")), {&text, 1});
  const AnalysisText one{{}, {}, {1}};
  fails(side(model), {}, {&one, 1});
  const AnalysisText unknown{{}, {}, {1, 64}};
  fails(side(model), {}, {&unknown, 1});
  const AnalysisText last{{3}, {}, {2, 64}};
  fails(side(open_family("bart")), {}, {&last, 1});
  AnalysisSide on_gpu = side(model);
  on_gpu.options.place = device::parse_place("cuda");
  fails(on_gpu, {}, {&text, 1});
}

TEST(AnalysisTexts, WindowsAreFullOnes) {
  const auto model = open_family("opt");
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto windows = windows_of(*model, tokens, {4, 0});
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[1].target, (std::vector<std::int32_t>{5, 6, 7, 8}));
  EXPECT_EQ(windows_of(*model, tokens, {4, 7}).size(), 1u);
  EXPECT_THROW(windows_of(*model, tokens, {4, 3}), core::Error);
  EXPECT_THROW(windows_of(*model, tokens, {1, 0}), core::Error);
  EXPECT_THROW(windows_of(*model, tokens, {129, 0}), core::Error);
}

TEST(AnalysisTexts, LinesAreTextsOrPairs) {
  const auto where = [](std::size_t i) { return "line " + std::to_string(i); };
  const std::vector<engine::InputText> lines = {{"t5 t6 t7", "t8 t9"}, {"t5", "t9"}};
  const auto bart = open_family("bart");
  const auto pairs = lines_of(*bart, lines, where, {});
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].source, (std::vector<std::int32_t>{5, 6, 7}));
  EXPECT_EQ(pairs[0].target, (std::vector<std::int32_t>{2, 8, 9}));  // behind the start token
  EXPECT_EQ(lines_of(*bart, lines, where, {0, 7}).size(), 1u);
  EXPECT_THROW(lines_of(*bart, lines, where, {0, 5}), core::Error);
  const std::vector<engine::InputText> single = {{"t5 t6", std::nullopt}};
  EXPECT_THROW(lines_of(*bart, single, where, {}), core::Error);
  const auto bert = open_family("bert-texts");
  EXPECT_EQ(lines_of(*bert, single, where, {})[0].target.size(), 0u);
  EXPECT_GE(lines_of(*bert, lines, where, {})[0].source.size(), 5u);
}

}  // namespace
}  // namespace nibble::eval
