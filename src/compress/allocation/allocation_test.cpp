#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "compress/allocation/allocate_formats.h"
#include "compress/allocation/knapsack.h"
#include "compress/allocation/sensitivity.h"
#include "compress/block/layer_for_tests.h"
#include "compress/pipeline/logits_for_tests.h"
#include "compress/pipeline/pipeline.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "compress/recipe/format_choices.h"
#include "compress/recipe/layer_schemes.h"
#include "core/error.h"
#include "core/random.h"
#include "formats/gguf_types.h"

namespace nibble::compress {
namespace {

using formats::Scheme;
using ops::cpu::CpuOps;

// The smallest sum of losses within the budget, by trying everything.
double best_by_trying(const std::vector<std::vector<Offer>>& layers, std::int64_t budget,
                      std::size_t layer = 0) {
  if (layer == layers.size()) {
    return budget >= 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity();
  for (const Offer& offer : layers[layer]) {
    best = std::min(best, offer.loss + best_by_trying(layers, budget - offer.bytes, layer + 1));
  }
  return best;
}

TEST(Knapsack, IsAsGoodAsTryingEverything) {
  core::Random random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::vector<Offer>> layers(1 + random.below(6));
    std::int64_t least = 0;
    std::int64_t most = 0;
    for (auto& offers : layers) {
      for (auto left = random.below(4) + 1; left > 0; --left) {
        offers.push_back({static_cast<std::int64_t>(1 + random.below(50)), random.uniform()});
      }
      const auto smaller = [](const Offer& a, const Offer& b) { return a.bytes < b.bytes; };
      least += std::min_element(offers.begin(), offers.end(), smaller)->bytes;
      most += std::max_element(offers.begin(), offers.end(), smaller)->bytes;
    }
    const std::int64_t budget =
        least +
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least + 2)));
    const auto chosen = choose_offers(layers, budget);
    std::int64_t bytes = 0;
    double loss = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      bytes += layers[i][chosen[i]].bytes;
      loss += layers[i][chosen[i]].loss;
    }
    EXPECT_LE(bytes, budget);
    EXPECT_NEAR(loss, best_by_trying(layers, budget), 1e-12);
  }
}

TEST(Knapsack, RoundsLargeSizesUpAndNeverExceedsTheBudget) {
  core::Random random(4);
  std::vector<std::vector<Offer>> layers(20);
  for (auto& offers : layers) {
    for (int bits : {2, 3, 4, 8}) {
      const std::int64_t bytes = (1 << 24) * bits + static_cast<std::int64_t>(random.below(1000));
      offers.push_back({bytes, std::exp2(-2.0 * bits) * (0.1 + random.uniform())});
    }
  }
  const std::int64_t budget = std::int64_t{20} * (1 << 24) * 7 / 2;
  const auto chosen = choose_offers(layers, budget);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    bytes += layers[i][chosen[i]].bytes;
  }
  EXPECT_LE(bytes, budget);
  EXPECT_GT(bytes, budget - (1 << 24));
  EXPECT_THROW((void)choose_offers(layers, std::int64_t{20} * (1 << 24) * 2), core::Error);
}

TEST(FormatChoices, AreOfTheSameFamily) {
  const auto names = [](const char* scheme) {
    std::vector<std::string> result;
    for (const Scheme& choice : format_choices(formats::parse_scheme(scheme))) {
      result.push_back(formats::to_string(choice));
    }
    return result;
  };
  EXPECT_EQ(names("int4-sym-row-a8"),
            (std::vector<std::string>{
                "int2-sym-g32-a8", "int2-sym-g64-a8", "int2-sym-g128-a8", "int2-sym-row-a8",
                "int3-sym-g32-a8", "int3-sym-g64-a8", "int3-sym-g128-a8", "int3-sym-row-a8",
                "int4-sym-g32-a8", "int4-sym-g64-a8", "int4-sym-g128-a8", "int4-sym-row-a8",
                "int8-sym-g32-a8", "int8-sym-g64-a8", "int8-sym-g128-a8", "int8-sym-row-a8"}));
  EXPECT_EQ(names("lut4-nf4-g64"),
            (std::vector<std::string>{"lut4-nf4-g32", "lut4-nf4-g64", "lut4-nf4-g128"}));
  EXPECT_EQ(names("lut4-matrix-g32-s7").size(), 9U);
  EXPECT_EQ(names("lut3-row-g128").size(), 9U);
  EXPECT_EQ(names("mxfp4"), std::vector<std::string>{"mxfp4"});
  const std::vector<std::string> of_gguf = names("int4-min-g32-s8");
  EXPECT_EQ(of_gguf.size(), formats::rounded_types().size());
  for (const char* scheme :
       {"lut4-iq4-g32", "lut4-iq4-g32-s8", "int5-sym-g32", "int5-min-g32", "int6-sym-g16-s8"}) {
    EXPECT_EQ(names(scheme), of_gguf) << scheme;
  }
  EXPECT_EQ(names("f16"), std::vector<std::string>{"f16"});
}

TEST(FormatChoices, AreSchemesThatExist) {
  const auto names = [](const char* scheme) {
    std::string result;
    for (const Scheme& choice : format_choices(formats::parse_scheme(scheme))) {
      result += formats::to_string(choice) + " ";
    }
    return result;
  };
  EXPECT_EQ(names("fp8-row-afp8"), "fp8-row-afp8 ");
  EXPECT_EQ(names("int8-sym-tensor"),
            "int2-sym-tensor int3-sym-tensor int4-sym-tensor int8-sym-tensor ");
  EXPECT_EQ(names("int4-sym-g96-a4g96"),
            "int2-sym-g32-a4g96 int2-sym-g96-a4g96 int3-sym-g32-a4g96 int3-sym-g96-a4g96 "
            "int4-sym-g32-a4g96 int4-sym-g96-a4g96 int8-sym-g32-a4g96 int8-sym-g96-a4g96 ");
}

const auto kDemo = std::filesystem::path(NIBBLE_SOURCE_DIR) / "models/demo";

CalibrationWindows demo_windows(const models::Model& model, const std::string& text,
                                std::int64_t samples, std::int64_t seq_len) {
  CalibrationOptions options;
  options.texts = {source_text("models/demo/texts/" + text)};
  options.samples = samples;
  options.seq_len = seq_len;
  return read_calibration(model, options);
}

// Logits of every position of a window.
ops::cpu::Matrix logits_of(const models::Network& network, const std::vector<std::int32_t>& window,
                           CpuOps& ops) {
  std::vector<std::int32_t> positions(window.size());
  std::iota(positions.begin(), positions.end(), 0);
  const ops::SequenceSlice<ops::cpu::KvCache> alone{nullptr, 0, 0,
                                                    static_cast<std::int64_t>(window.size())};
  return models::forward(ops, network, {window, positions, {&alone, 1}}, positions);
}

// Mean over rows of KL(p || q) of the softmax of logits.
double divergence(const ops::cpu::Matrix& p, const ops::cpu::Matrix& q) {
  double sum = 0;
  for (std::int64_t i = 0; i < p.rows(); ++i) {
    double p_sum = 0;
    double q_sum = 0;
    double product = 0;
    for (std::int64_t j = 0; j < p.columns(); ++j) {
      const double weight = std::exp(static_cast<double>(p.row(i)[j]));
      p_sum += weight;
      q_sum += std::exp(static_cast<double>(q.row(i)[j]));
      product += weight * (static_cast<double>(p.row(i)[j]) - q.row(i)[j]);
    }
    sum += product / p_sum - std::log(p_sum) + std::log(q_sum);
  }
  return sum / static_cast<double>(p.rows());
}

std::vector<float> values_of(const formats::PackedWeight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.n * weight.k));
  for (std::int64_t row = 0; row < weight.n; ++row) {
    formats::decode_row(weight, row,
                        std::span(values).subspan(static_cast<std::size_t>(row * weight.k),
                                                  static_cast<std::size_t>(weight.k)));
  }
  return values;
}

// What is predicted from gradients must be what rounding a layer does to the predictions, on a text
// that the gradients have not seen.
TEST(Sensitivity, PredictsTheDivergenceOfTheRoundedModel) {
  const auto model = models::open_model(kDemo);
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const auto sensitivity = measure_sensitivity(
      model->network, decoder_inputs(demo_windows(*model, "calibration.txt", 6, 256)), 1, ops,
      core::silent_progress());
  const models::Network& original = model->network;
  const auto windows = demo_windows(*model, "evaluation.txt", 3, 256);
  std::vector<ops::cpu::Matrix> before;
  for (const auto& window : windows) {
    before.push_back(logits_of(original, window, ops));
  }
  const Scheme scheme = formats::parse_scheme("int4-asym-g128");
  for (const std::size_t index : {0, 4}) {
    for (const ops::LinearSet* set : models::linear_sets(original.decoder.blocks[index])) {
      const ops::Linear& part = set->parts.back();  // v_proj, o_proj, up_proj, down_proj
      CompressedBlock change;
      change.layers.emplace(
          part.name,
          formats::round_to_nearest(values_of(part.weight), part.weight.n, part.weight.k, scheme));
      models::Network changed = original;
      changed.decoder.blocks[index] = apply_compressed(changed.decoder.blocks[index], change);
      double measured = 0;
      for (std::size_t i = 0; i < windows.size(); ++i) {
        measured += divergence(before[i], logits_of(changed, windows[i], ops)) /
                    static_cast<double>(windows.size());
      }
      const double predicted =
          predicted_loss(sensitivity.at(part.name), part.weight, scheme, ops.pool());
      EXPECT_GT(predicted, measured / 1.6) << part.name;
      EXPECT_LT(predicted, measured * 1.6) << part.name;
    }
  }
}

double bits_of(const models::Network& network, const Recipe& recipe) {
  const auto quantized = layer_schemes(network, recipe);
  double bits = 0;
  double weights = 0;
  for (const models::Block& block : network.decoder.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      for (const ops::Linear& part : set->parts) {
        const auto packed =
            formats::PackedWeightBuilder(quantized.at(part.name), part.weight.n, part.weight.k)
                .finish();
        bits += 8.0 * static_cast<double>(formats::stored_bytes(packed));
        weights += static_cast<double>(part.weight.n * part.weight.k);
      }
    }
  }
  return bits / weights;
}

TEST(AllocateFormats, KeepsToTheTargetAndLosesLessThanOneFormat) {
  const auto model = models::open_model(kDemo);
  const models::Network& network = model->network;
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const auto sensitivity =
      measure_sensitivity(network, decoder_inputs(demo_windows(*model, "calibration.txt", 2, 128)),
                          1, ops, core::silent_progress());
  const auto loss_of = [&](const Recipe& recipe) {
    const auto schemes = layer_schemes(network, recipe);
    double loss = 0;
    for (const models::Block& block : network.decoder.blocks) {
      for (const ops::LinearSet* set : models::linear_sets(block)) {
        for (const ops::Linear& part : set->parts) {
          loss += predicted_loss(sensitivity.at(part.name), part.weight, schemes.at(part.name),
                                 ops.pool());
        }
      }
    }
    return loss;
  };
  for (const char* name : {"rtn-w3g64", "rtn-w4g128"}) {
    const Recipe uniform = find_recipe(name);
    const double bits = bits_of(network, uniform);
    const Recipe mixed = allocate_formats(network, with_target(uniform, {bits, 0}), sensitivity,
                                          ops.pool(), core::silent_progress());
    EXPECT_LE(bits_of(network, mixed), bits);
    EXPECT_GT(bits_of(network, mixed), bits - 0.05);
    EXPECT_LT(loss_of(mixed), 0.95 * loss_of(uniform)) << name;
    EXPECT_FALSE(mixed.target.has_value());
  }
}

TEST(AllocateFormats, ASizeIsThatOfAllWeights) {
  const auto model = models::open_model(kDemo);
  const Recipe recipe = find_recipe("rtn-w4g128-sym@6MB");
  const Quantized small =
      quantize_in_memory(*model, recipe, small_job_on_text(1, 128, 2), core::silent_progress());
  EXPECT_LE(models::total_weight_bytes(small.model->network), 6000000);
  EXPECT_GT(models::total_weight_bytes(small.model->network), 5950000);
  EXPECT_EQ(small.model->compression.recipe, "rtn-w4g128-sym@5.7 MiB");
}

TEST(AllocateFormats, LayersThatTheRecipeNamesKeepTheirScheme) {
  const auto model = models::open_model(kDemo);
  Recipe recipe = find_recipe("rtn-w4g128@4");
  recipe.layers.push_back({{"*.q_proj"}, formats::parse_scheme("int8-sym-row")});
  const Quantized result =
      quantize_in_memory(*model, recipe, small_job_on_text(1, 128, 2), core::silent_progress());
  for (const auto& [name, scheme] : result.model->compression.schemes) {
    if (name.ends_with("q_proj")) {
      EXPECT_EQ(formats::to_string(scheme), "int8-sym-row") << name;
    }
  }
  EXPECT_LE(models::block_bits_per_weight(result.model->network), 4.0);
}

// Layers matter the more the later they come.
std::map<std::string, LayerSensitivity> rising_sensitivity(const models::Network& network) {
  std::map<std::string, LayerSensitivity> sensitivity;
  double output = 1;
  for (const models::Block* block : models::all_blocks(network)) {
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      for (const ops::Linear& layer : set->parts) {
        sensitivity[layer.name] = {
            std::vector<double>(static_cast<std::size_t>(layer.weight.n), output),
            std::vector<double>(static_cast<std::size_t>(layer.weight.k), 1.0)};
        output *= 1.7;
      }
    }
  }
  return sensitivity;
}

// Q6_K takes 6.5625 bits there, of which Nibble holds the codes in 8.
TEST(AllocateFormats, GgufFilesCountTheirOwnBlocks) {
  const auto model = models::open_model(kDemo);
  const models::Network& network = model->network;
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  Recipe recipe = find_recipe("q6_k");
  recipe.choices = {recipe.scheme};
  recipe.target = SizeTarget{6.57, 0, true};
  const Recipe mixed = allocate_formats(network, recipe, rising_sensitivity(network), ops.pool(),
                                        core::silent_progress());
  EXPECT_EQ(layer_schemes(network, mixed).at("model.layers.0.mlp.up_proj"), recipe.scheme);
  recipe.target->in_gguf = false;
  EXPECT_THROW(allocate_formats(network, recipe, rising_sensitivity(network), ops.pool(),
                                core::silent_progress()),
               core::Error);
}

// Rows have 32 and 48 inputs. In a file blocks are whole, so that none holds those of 48.
TEST(AllocateFormats, LayersChooseAmongTheTypesOfGgufThatDivideTheirRows) {
  const auto model = models::open_model(NIBBLE_SOURCE_DIR "/tests/families/llama");
  const models::Network& network = model->network;
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  for (const bool in_gguf : {false, true}) {
    Recipe recipe = find_recipe("q4_k");
    recipe.choices = format_choices(recipe.scheme);
    recipe.choices.push_back(formats::parse_scheme("f16"));
    recipe.target = SizeTarget{7.5, 0, in_gguf};
    const Recipe mixed = allocate_formats(network, recipe, rising_sensitivity(network), ops.pool(),
                                          core::silent_progress());
    std::set<std::string> found;
    for (const auto& [name, scheme] : layer_schemes(network, mixed)) {
      const std::int64_t k = name.ends_with("down_proj") ? 48 : 32;
      const auto* const type = formats::block_type_of(scheme);
      EXPECT_TRUE(type == nullptr || !in_gguf || k % type->block_elements == 0)
          << name << " " << formats::to_string(scheme);
      formats::require_shape(scheme, 1, k);
      found.insert(formats::to_string(scheme));
    }
    EXPECT_GT(found.size(), 2u);
    const bool has_five_bits =
        std::any_of(found.begin(), found.end(),
                    [](const std::string& scheme) { return scheme.starts_with("int5"); });
    EXPECT_EQ(has_five_bits, in_gguf);  // as large as 8 bits elsewhere
  }
}

TEST(AllocateFormats, ExpertsOfGgufFilesShareATensor) {
  const auto model = models::open_model(NIBBLE_SOURCE_DIR "/tests/families/mixtral");
  CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const auto sensitivity = rising_sensitivity(model->network);
  Recipe recipe = with_target(find_recipe("rtn-w4g32-sym"), {9.5, 0, true});
  recipe.choices = {formats::parse_scheme("int4-sym-g32"), formats::parse_scheme("int8-sym-g32"),
                    formats::parse_scheme("f16")};  // which some have to take
  const Recipe mixed =
      allocate_formats(model->network, recipe, sensitivity, ops.pool(), core::silent_progress());
  const auto schemes = layer_schemes(model->network, mixed);
  std::map<std::string, std::set<std::string>> of_kind;
  for (const auto& [name, scheme] : schemes) {
    const std::size_t expert = name.find("experts.");
    if (expert != std::string::npos) {
      of_kind[name.substr(0, expert) + name.substr(name.rfind('.'))].insert(
          formats::to_string(scheme));
    }
  }
  EXPECT_FALSE(of_kind.empty());
  for (const auto& [kind, found] : of_kind) {
    EXPECT_EQ(found.size(), 1u) << kind;
  }
  EXPECT_EQ(mixed.layers.size(), 3u);
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

TEST(AllocateFormats, RefusesWhatCannotBe) {
  const auto message = [](const char* name) { return refusal([&] { (void)find_recipe(name); }); };
  EXPECT_NE(message("mxfp4@4").find("comes in one size only"), std::string::npos);
  EXPECT_NE(message("quarot-rtn-w4g128@4").find("turn or reorder"), std::string::npos);
  EXPECT_NE(message("rtn-w4g128@0").find("a target must be"), std::string::npos);
  EXPECT_NE(message("rtn-w4g128@-3").find("a target must be"), std::string::npos);
  EXPECT_NE(message("rtn-w4g128@four").find("behind '@'"), std::string::npos);
  EXPECT_NE(message("rtn-w4g128@4@4").find("has a target already"), std::string::npos);
  EXPECT_NE(message("rtn-w4g128@nan").find("a target must be"), std::string::npos);
  const auto model = models::open_model(kDemo);
  for (const char* name : {"rtn-w4g128@1.5", "rtn-w4g128@5MB"}) {
    const std::string said = refusal([&] {
      (void)quantize_in_memory(*model, find_recipe(name), small_job_on_text(1, 128, 2),
                               core::silent_progress());
    });
    EXPECT_NE(said.find("the smallest that its formats can do"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace nibble::compress
