// Recipes on encoders and encoder-decoders, from their texts to a folder.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "compress/calibration/block_runner.h"
#include "compress/calibration/encoder_texts.h"
#include "compress/pipeline/pipeline.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = NIBBLE_SOURCE_DIR;
const fs::path kTrained = kSource / ".." / "shared";

std::shared_ptr<models::Model> open(const char* family) {
  return models::open_model(kSource / "tests/families" / family);
}

// Lines of words of the small models' vocabulary; each is also a pair.
PipelineOptions small_pairs() {
  PipelineOptions options = small_job(6, 32, 2);
  std::string text;
  for (int line = 0; line < 24; ++line) {
    for (int i = 0; i < 6 + line % 5; ++i) {
      text += fmt::format("t{} ", 3 + (7 * i + 11 * line) % 60);
    }
    text += "\t";
    for (int i = 0; i < 3 + line % 7; ++i) {
      text += fmt::format("t{} ", 3 + (5 * i + 3 * line) % 60);
    }
    text += "\n";
  }
  options.calibration.texts = {std::make_shared<const std::string>(std::move(text))};
  return options;
}

Recipe recipe_of(const char* name, const char* scheme, std::vector<RecipeStep> steps) {
  return {name, formats::parse_scheme(scheme), {}, std::move(steps)};
}

using Case = std::tuple<const char*, const char*>;

class Encoders : public testing::TestWithParam<Case> {};

// All layers of all blocks are rounded, the model opens again, and the
// states stay near those of the original.
TEST_P(Encoders, AreCompressedByEveryRecipe) {
  const auto [family, recipe] = GetParam();
  const auto model = open(family);
  const io::TemporaryFolder folder;
  Interrupted progress("");
  quantize_model(*model, find_recipe(recipe), folder / "small", small_pairs(), false, progress);
  const auto small = models::open_model(folder / "small");
  const auto blocks = models::all_blocks(std::as_const(model->network));
  std::size_t layers = 0;
  for (const models::Block* block : blocks) {
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      layers += set->parts.size();
    }
  }
  EXPECT_EQ(small->compression.schemes.size(), layers);
  const std::string& said = progress.messages();
  const std::string before = "cosine to the original's ";
  ASSERT_NE(said.find(before), std::string::npos) << said;
  const double cosine = std::stod(said.substr(said.find(before) + before.size()));
  EXPECT_GT(cosine, 0.95) << said;
  EXPECT_LT(cosine, 1.0) << said;
}

INSTANTIATE_TEST_SUITE_P(
    Families, Encoders,
    testing::Combine(testing::Values("bert", "bert-texts", "bert-masked", "bert-tokens",
                                     "roberta-texts", "distilbert-texts", "bart", "mbart"),
                     testing::Values("gptq-w4row", "awq-w4row", "any4row", "smoothquant-w8a8",
                                     "w8a8s", "best4", "gptq-w4row-search-refine", "atom-w4a4",
                                     "gptq-w4row@6")),
    [](const auto& parameter) {
      std::string name =
          fmt::format("{}_{}", std::get<0>(parameter.param), std::get<1>(parameter.param));
      std::replace_if(
          name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

TEST(EncoderPipeline, GoesOnToTheSameBytes) {
  const io::TemporaryFolder folder;
  const auto model = open("bart");
  const Recipe recipe = find_recipe("best4");
  quantize_model(*model, recipe, folder / "whole", small_pairs(), false, core::silent_progress());
  for (const char* moment : {"block 2 of 5 finished", "block 3 of 5: measuring window 1"}) {
    Interrupted stop(moment);
    EXPECT_THROW(quantize_model(*model, recipe, folder / "parts", small_pairs(), false, stop),
                 std::runtime_error);
    quantize_model(*model, recipe, folder / "parts", small_pairs(), true, core::silent_progress());
    EXPECT_EQ(io::folder_contents(folder / "parts"), io::folder_contents(folder / "whole"));
    fs::remove_all(folder / "parts");
  }
}

// Hidden states in a file are those in memory.
TEST(EncoderPipeline, GivesTheSameWithLittleMemory) {
  const auto model = open("mbart");
  const Recipe recipe = recipe_of("a", "int4-asym-row", {{"awq"}, {"asymmetric"}, {"gptq"}});
  PipelineOptions options = small_pairs();
  const auto in_memory = quantize_in_memory(*model, recipe, options, core::silent_progress());
  options.memory = 1;
  const auto in_file = quantize_in_memory(*model, recipe, options, core::silent_progress());
  ASSERT_EQ(in_file.layers.size(), in_memory.layers.size());
  for (std::size_t i = 0; i < in_file.layers.size(); ++i) {
    EXPECT_EQ(in_file.layers[i].relative_error, in_memory.layers[i].relative_error);
  }
}

TEST(EncoderPipeline, SaysWhatItCannotServe) {
  const PipelineOptions options = small_pairs();
  const auto expect_refusal = [&](const char* family, const char* name,
                                  const std::vector<std::string>& parts) {
    io::expect_error(core::ErrorKind::kUsage, parts, [&] {
      quantize_in_memory(*open(family), find_recipe(name), options, core::silent_progress());
    });
  };
  expect_refusal("bert", "quarot-gptq-w4row", {"rotate", "post-norm", "leave the rotation out"});
  expect_refusal("mbart", "quarot-rtn-w4row", {"rotate", "not turned"});
  io::expect_error(core::ErrorKind::kUsage, {"the ends of such a model stay"}, [&] {
    quantize_in_memory(*open("bart"),
                       with_output(find_recipe("gptq-w4row"), formats::parse_scheme("f16")),
                       options, core::silent_progress());
  });
  const auto notes = quantize_in_memory(*open("bart"), find_recipe("smoothquant-w8a8"), options,
                                        core::silent_progress())
                         .layers;
  const auto note_of = [&](std::string_view name) {
    const auto found = std::find_if(notes.begin(), notes.end(),
                                    [&](const LayerReport& layer) { return layer.name == name; });
    return found == notes.end() ? "?" : found->note;
  };
  EXPECT_EQ(note_of("model.decoder.layers.0.encoder_attn.k_proj"),
            "not scaled: it reads the states of the encoder, which other blocks read too");
  EXPECT_EQ(note_of("model.decoder.layers.0.encoder_attn.q_proj"),
            "not scaled: it reads the residual stream itself (post-norm)");
  EXPECT_EQ(note_of("model.decoder.layers.0.encoder_attn.out_proj"), "");
}

// Layers that round their inputs are laid out for their kernels under the ids of their sets, which
// those of the original have too.
TEST(EncoderPipeline, KeepsTheOriginalBesideLayersThatRoundTheirInputs) {
  const auto model = open("bert");
  const Recipe recipe = recipe_of("a8", "int8-sym-row-a8", {{"gptq"}});
  const auto small =
      quantize_in_memory(*model, recipe, small_pairs(), core::silent_progress()).model;
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const CalibrationInputs texts = read_encoder_texts(*model, small_pairs().calibration);
  ASSERT_GT(texts.size(), 1u);
  CpuBlockRunner runner(model->network, texts, ops, true, std::nullopt);
  const auto& blocks = model->network.encoder.blocks;
  const Observation wanted{StatisticsKind::kCross, std::nullopt, &blocks[0], nullptr};
  const models::Block& first = small->network.encoder.blocks[0];
  const int down = first.mlp->down.id;
  const std::vector<float> together = runner.observe(0, first, wanted).at(down).cross();
  std::vector<double> apart(together.size());
  for (const CalibrationPack& pack : texts.encoder) {
    CpuBlockRunner alone(model->network, CalibrationInputs{{pack}, {}}, ops, true, std::nullopt);
    const std::vector<float> cross = alone.observe(0, first, wanted).at(down).cross();
    std::transform(apart.begin(), apart.end(), cross.begin(), apart.begin(), std::plus<>());
  }
  for (std::size_t i = 0; i < apart.size(); ++i) {
    ASSERT_NEAR(together[i], apart[i], 1e-5 * apart.front()) << i;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    runner.advance(static_cast<std::int64_t>(i), small->network.encoder.blocks[i], blocks[i]);
  }
  const auto damage = runner.damage();
  ASSERT_TRUE(damage.has_value());
  EXPECT_GT(damage->signal_to_noise, 20.0);
  EXPECT_LT(damage->signal_to_noise, 60.0);
}

// tr(E H E^T) / tr(W H W^T) of some rows of a layer; of H the lower triangle counts.
double relative_loss(const formats::PackedWeight& original, const formats::PackedWeight& rounded,
                     const std::vector<float>& h) {
  const auto k = static_cast<std::size_t>(original.k);
  std::vector<float> w(k);
  std::vector<float> error(k);
  double lost = 0;
  double whole = 0;
  for (std::int64_t row = 0; row < original.n; row += 32) {
    formats::decode_row(original, row, w);
    formats::decode_row(rounded, row, error);
    std::transform(w.begin(), w.end(), error.begin(), error.begin(), std::minus<>());
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        const double both = static_cast<double>(h[i * k + j]) * (i == j ? 1 : 2);
        lost += both * static_cast<double>(error[i]) * error[j];
        whole += both * static_cast<double>(w[i]) * w[j];
      }
    }
  }
  return lost / whole;
}

// What the layers put out on texts that calibration has not seen, relative to the
// original's, in sum.
double held_out_error(const models::Model& model, const models::Network& rounded,
                      const CalibrationInputs& texts) {
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  CpuBlockRunner runner(model.network, texts, ops, false, std::nullopt);
  double sum = 0;
  std::int64_t index = 0;
  for (const models::Block* block : models::all_blocks(model.network)) {
    const auto statistics =
        runner.observe(index, *block, {StatisticsKind::kHessian, std::nullopt, nullptr, nullptr});
    const auto sets = models::linear_sets(*block);
    const auto other =
        models::linear_sets(*models::all_blocks(rounded)[static_cast<std::size_t>(index)]);
    for (std::size_t s = 0; s < sets.size(); ++s) {
      const std::vector<float>& h = statistics.at(sets[s]->id).hessian();
      for (std::size_t p = 0; p < sets[s]->parts.size(); ++p) {
        sum += relative_loss(sets[s]->parts[p].weight, other[s]->parts[p].weight, h);
      }
    }
    runner.advance(index++, *block, models::Block());
  }
  return sum;
}

TEST(EncoderPipeline, GptqHelpsTextsThatItHasNotSeen) {
  const fs::path folder = kTrained / "models" / "bert-7m-sst2";
  const fs::path glue = kTrained / "data" / "glue" / "SST-2";
  if (!fs::exists(folder) || !fs::exists(glue)) {
    GTEST_SKIP() << "the test model or its texts are not here";
  }
  const auto model = models::open_model(folder);
  PipelineOptions options = small_job(8, 256, 2);
  const auto text = [&](const char* name) {
    return std::make_shared<const std::string>(io::read_text_file(glue / name, 1 << 24));
  };
  options.calibration.texts = {text("train.tsv")};
  CalibrationOptions unseen = options.calibration;
  unseen.texts = {text("dev.tsv")};
  const CalibrationInputs texts = read_encoder_texts(*model, unseen);
  const auto error = [&](const char* recipe) {
    const auto rounded =
        quantize_in_memory(*model, find_recipe(recipe), options, core::silent_progress()).model;
    return held_out_error(*model, rounded->network, texts);
  };
  const double rtn = error("rtn-w4g128");
  EXPECT_LT(error("gptq-w4g128"), 0.8 * rtn);
}

}  // namespace
}  // namespace nibble::compress
