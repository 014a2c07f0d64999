#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>

#include "compress/pipeline/logits_for_tests.h"
#include "compress/pipeline/pipeline.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "compress/recipe/apply_for_tests.h"
#include "core/json.h"
#include "core/random.h"
#include "formats/format.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = NIBBLE_SOURCE_DIR;

Recipe with_output(const char* recipe, const char* scheme) {
  return with_output(find_recipe(recipe), formats::parse_scheme(scheme));
}

Recipe from_json(const std::string& json) {
  const io::TemporaryFolder folder;
  return find_recipe(folder.write("nibble_output.json", json).string());
}

const formats::PackedWeight& output_of(const models::Network& network) {
  return network.output.parts.front().weight;
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

double agreement(const std::vector<float>& a, const std::vector<float>& b) {
  double same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    same += a[i] == b[i] ? 1 : 0;
  }
  return same / static_cast<double>(a.size());
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0;
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - b[i], 2);
    total += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(error / total);
}

struct Case {
  const char* model;
  const char* recipe;
  const char* output;
};

class OutputLayers : public testing::TestWithParam<Case> {
 protected:
  const std::shared_ptr<models::Model> model_ = models::open_model(kSource / GetParam().model);
  const PipelineOptions options_ = small_job(2, 32, 2);
};

// Tied and untied, RMSNorm and LayerNorm, with and without statistics, with a learned book, behind
// a rotation.
TEST_P(OutputLayers, AreStoredAndRunAsInMemory) {
  const io::TemporaryFolder folder;
  const Recipe recipe = with_output(GetParam().recipe, GetParam().output);
  quantize_model(*model_, recipe, folder / "out", options_, false, core::silent_progress());
  const auto stored = models::open_model(folder / "out");
  const auto memory = quantize_in_memory(*model_, recipe, options_, core::silent_progress()).model;
  for (const auto& model : {stored, memory}) {
    EXPECT_EQ(formats::to_string(model->compression.schemes.at("lm_head")), GetParam().output);
    EXPECT_EQ(formats::to_string(output_of(model->network).scheme), GetParam().output);
    EXPECT_EQ(model->network.output.parts.front().name, "lm_head");
    EXPECT_FALSE(model->network.config.tied_output);
    EXPECT_EQ((*model->config_json)["tie_word_embeddings"], false);
  }
  EXPECT_EQ(values_of(output_of(stored->network)), values_of(output_of(memory->network)));
  EXPECT_EQ(models::total_weight_bytes(stored->network),
            models::total_weight_bytes(memory->network));
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  EXPECT_EQ(logits(stored->network, ops), logits(memory->network, ops));
}

// The rest of the model has the bytes that it has without.
TEST_P(OutputLayers, ChangeNothingElse) {
  const auto rounded =
      quantize_in_memory(*model_, with_output(GetParam().recipe, GetParam().output), options_,
                         core::silent_progress())
          .model;
  const auto plain =
      quantize_in_memory(*model_, find_recipe(GetParam().recipe), options_, core::silent_progress())
          .model;
  EXPECT_EQ(core::to_float32(rounded->network.embeddings.tokens.plain()),
            core::to_float32(plain->network.embeddings.tokens.plain()));
  EXPECT_EQ(rounded->network.decoder.final_norm->weight, plain->network.decoder.final_norm->weight);
  EXPECT_EQ(models::block_bits_per_weight(rounded->network),
            models::block_bits_per_weight(plain->network));
  for (std::size_t b = 0; b < plain->network.decoder.blocks.size(); ++b) {
    const auto sets = models::linear_sets(std::as_const(rounded->network.decoder.blocks[b]));
    const auto expected = models::linear_sets(std::as_const(plain->network.decoder.blocks[b]));
    for (std::size_t s = 0; s < sets.size(); ++s) {
      EXPECT_EQ(values_of(sets[s]->parts[0].weight), values_of(expected[s]->parts[0].weight));
    }
  }
  EXPECT_FALSE(plain->compression.schemes.contains("lm_head"));
  const formats::PackedWeight& before = output_of(plain->network);
  const double difference =
      relative_difference(values_of(output_of(rounded->network)), values_of(before));
  EXPECT_GT(difference, 1e-4);
  EXPECT_LT(difference, 0.25);
  const std::int64_t own = plain->network.config.tied_output ? 0 : formats::stored_bytes(before);
  EXPECT_EQ(
      models::total_weight_bytes(rounded->network) - models::total_weight_bytes(plain->network),
      formats::stored_bytes(output_of(rounded->network)) - own);
}

INSTANTIATE_TEST_SUITE_P(
    Models, OutputLayers,
    testing::Values(Case{"tests/families/llama", "rtn-w4g16", "int8-sym-g32"},
                    Case{"tests/families/llama", "gptq-w4g16-search-refine", "int4-asym-g16"},
                    Case{"tests/families/qwen2", "gptq-w4g16", "int4-sym-g32"},
                    Case{"tests/families/qwen2", "best4", "int8-sym-g32"},
                    Case{"tests/families/llama", "best4", "lut4-matrix-g32-s7"},
                    Case{"tests/families/gpt2", "any4g16", "lut4-row-g16"},
                    Case{"tests/families/opt", "awq-w4g16", "int4-asym-g16"},
                    Case{"tests/families/mixtral", "gptq-w4g16", "mxfp4"},
                    Case{"tests/families/llama", "quarot-gptq-w4g16", "int8-sym-g32"},
                    Case{"tests/families/llama-bias-tied", "f16", "int8-sym-g32-a8"},
                    Case{"models/demo", "rtn-w4g128", "int8-sym-g32"}),
    [](const testing::TestParamInfo<Case>& tested) {
      std::string name = fs::path(tested.param.model).filename().string() + "_" +
                         tested.param.recipe + "_" + tested.param.output;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(OutputLayer, RoundToNearestIsThatOfTheMatrix) {
  const auto model = models::open_model(kSource / "models/demo");
  const auto rounded = quantize_in_memory(*model, with_output("rtn-w4g128", "int8-sym-g32"),
                                          small_job(1, 16, 2), core::silent_progress());
  const std::vector<float> table = core::to_float32(model->network.embeddings.tokens.plain());
  EXPECT_EQ(values_of(output_of(rounded.model->network)),
            values_of(formats::round_to_nearest(table, 8192, 256,
                                                formats::parse_scheme("int8-sym-g32"))));
  EXPECT_EQ(rounded.layers.back().name, "lm_head");
  EXPECT_EQ(rounded.layers.back().note, "");
  EXPECT_GT(rounded.layers.back().relative_error, 1e-6);
  EXPECT_LT(rounded.layers.back().relative_error, 1e-3);
}

// What enters the output layer of `network` on the calibration windows.
InputStatistics output_inputs(const models::Model& model, const models::Network& network,
                              const PipelineOptions& options) {
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  InputStatistics statistics(StatisticsKind::kHessian, network.config.hidden);
  CalibrationOptions calibration = options.calibration;
  calibration.threads = 1;
  for (const auto& window : read_calibration(model, calibration)) {
    std::vector<std::int32_t> positions(window.size());
    std::iota(positions.begin(), positions.end(), 0);
    const ops::SequenceSlice<ops::cpu::KvCache> alone{nullptr, 0, 0, std::ssize(window)};
    const auto x = models::hidden_states(ops, network, {window, positions, {&alone, 1}});
    statistics.add(ops.norm_matrix(x, *network.decoder.final_norm), ops.pool());
  }
  return statistics;
}

// GPTQ by hand, with the Hessian of what the final norm gives in the model of which all blocks are
// compressed, finds the codes that the pipeline stores; with that of the original it does not.
TEST(OutputLayer, IsMeasuredBehindTheCompressedBlocks) {
  const auto model = models::open_model(kSource / "tests/families/llama");
  const PipelineOptions options = small_job_on_text(8, 64, 1);
  const auto rounded = quantize_in_memory(*model, with_output("gptq-w2g16", "int3-asym-g16"),
                                          options, core::silent_progress());
  const auto by_hand = [&](const models::Network& measured) {
    InputStatistics statistics = output_inputs(*model, measured, options);
    ops::LinearSet output = model->network.output;
    output.parts.front().name = "lm_head";
    std::map<int, SetCurvature> none;
    SetWork work =
        *make_set_work(output, {{"lm_head", formats::parse_scheme("int3-asym-g16")}}, none);
    work.statistics = &statistics;
    core::ThreadPool pool(1);
    apply_on_cpu(*make_pass("gptq", core::Json::object()), work, pool);
    return values_of(*work.layers.front().packed);
  };
  const std::vector<float> stored = values_of(output_of(rounded.model->network));
  EXPECT_GT(agreement(by_hand(rounded.model->network), stored), 0.99);
  EXPECT_LT(agreement(by_hand(model->network), stored), 0.95);
}

TEST(OutputLayer, GoesOnAfterAnInterruptionAndEndsInTheSameBytes) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "tests/families/qwen2");
  const PipelineOptions options = small_job_on_text(4, 32, 2);
  const Recipe recipe = with_output("best4", "int4-sym-g32");
  quantize_model(*model, recipe, folder / "whole", options, false, core::silent_progress());
  const fs::path target = folder / "resumed";
  for (const char* moment : {"block 1 of 2 finished", "block 2 of 2: running window 3",
                             "block 2 of 2 finished", "output layer: measuring window 2",
                             "output layer: lm_head error", "output layer finished"}) {
    Interrupted stop(moment);
    EXPECT_ANY_THROW(quantize_model(*model, recipe, target, options, false, stop)) << moment;
    EXPECT_FALSE(fs::exists(target));
    EXPECT_THROW(quantize_model(*model, find_recipe("best4"), target, options, true,
                                core::silent_progress()),
                 core::Error)
        << "a job without the output layer is another job";
    quantize_model(*model, recipe, target, options, true, core::silent_progress());
    EXPECT_EQ(io::folder_contents(target), io::folder_contents(folder / "whole")) << moment;
    fs::remove_all(target);
  }
  PipelineOptions one_thread = options;
  one_thread.threads = 1;
  quantize_model(*model, recipe, target, one_thread, false, core::silent_progress());
  EXPECT_EQ(io::folder_contents(target), io::folder_contents(folder / "whole"));
}

// A damaged piece of an interrupted job is refused, not taken over.
TEST(OutputLayer, ADamagedPieceIsRefused) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "tests/families/llama");
  const Recipe recipe = with_output("rtn-w4g16", "int8-sym-g32");
  Interrupted stop("output layer finished");
  EXPECT_ANY_THROW(
      quantize_model(*model, recipe, folder / "out", small_job(1, 16, 1), false, stop));
  fs::copy_file(folder / ".out.partial/model-00003-of-00004.safetensors",
                folder / ".out.partial/model-00004-of-00004.safetensors",
                fs::copy_options::overwrite_existing);
  io::expect_error(core::ErrorKind::kInvalidModel, {"lm_head"}, [&] {
    quantize_model(*model, recipe, folder / "out", small_job(1, 16, 1), true,
                   core::silent_progress());
  });
}

std::string note_of(const char* recipe, const char* scheme) {
  const auto model = models::open_model(kSource / "tests/families/llama");
  return quantize_in_memory(*model, with_output(recipe, scheme), small_job(2, 32, 1),
                            core::silent_progress())
      .layers.back()
      .note;
}

TEST(OutputLayer, SaysWhichPassesHaveNoPartInIt) {
  EXPECT_EQ(note_of("any4g16-gptq", "int8-sym-g32"), "without any4");
  EXPECT_EQ(note_of("any4g16-gptq", "lut4-row-g32"), "");
  EXPECT_EQ(note_of("best4", "int8-sym-g32"), "without awq, any4");
  EXPECT_EQ(note_of("awq-w4g16", "int8-sym-g32"), "") << "clips it";
  EXPECT_EQ(note_of("smoothquant-w8a8", "int8-sym-g32"), "without smoothquant");
  EXPECT_EQ(note_of("sparsegpt24-gptq-w4g16", "int8-sym-g32"), "without sparsegpt");
  EXPECT_EQ(note_of("atom-w4a4", "int8-sym-g32"), "without atom-reorder");
}

// Logits of every token of a window.
std::vector<float> logits_of(const models::Network& network,
                             const std::vector<std::int32_t>& window, ops::cpu::CpuOps& ops) {
  std::vector<std::int32_t> positions(window.size());
  std::iota(positions.begin(), positions.end(), 0);
  const ops::SequenceSlice<ops::cpu::KvCache> alone{nullptr, 0, 0, std::ssize(window)};
  const auto result = models::forward(ops, network, {window, positions, {&alone, 1}}, positions);
  return {result.values().begin(), result.values().end()};
}

// Mean over rows of KL(p || q) of the softmax of logits.
double divergence(const std::vector<float>& p, const std::vector<float>& q, std::size_t words) {
  double sum = 0;
  for (std::size_t row = 0; row < p.size(); row += words) {
    double p_sum = 0;
    double q_sum = 0;
    double product = 0;
    for (std::size_t j = row; j < row + words; ++j) {
      const double weight = std::exp(static_cast<double>(p[j]));
      p_sum += weight;
      q_sum += std::exp(static_cast<double>(q[j]));
      product += weight * (static_cast<double>(p[j]) - q[j]);
    }
    sum += product / p_sum - std::log(p_sum) + std::log(q_sum);
  }
  return sum / static_cast<double>(p.size() / words);
}

// On a text that the calibration has not seen.
TEST(OutputLayer, PassesThatKnowItsInputsDoLessDamage) {
  const auto model = models::open_model(kSource / "models/demo");
  CalibrationOptions unseen;
  unseen.texts = {source_text("models/demo/texts/evaluation.txt")};
  unseen.samples = 1;
  unseen.seq_len = 256;
  const auto window = read_calibration(*model, unseen).front();
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const std::vector<float> before = logits_of(model->network, window, ops);
  const auto damage = [&](const std::string& passes) {
    const Recipe recipe =
        from_json(R"({"scheme": "bf16", "output": "int3-asym-g64", "passes": [)" + passes + "]}");
    const auto result =
        quantize_in_memory(*model, recipe, small_job_on_text(8, 256, 2), core::silent_progress());
    return divergence(before, logits_of(result.model->network, window, ops), 8192);
  };
  const double rounded = damage("\"rtn\"");
  EXPECT_GT(rounded, 0.001);
  EXPECT_LT(damage(R"("search", "rtn")"), rounded);
  EXPECT_LT(damage("\"gptq\""), rounded);
  EXPECT_LT(damage(R"("rtn", "refine")"), rounded);
  EXPECT_LT(damage(R"("rtn", {"pass": "refine", "loss": "model"})"), rounded);
}

TEST(OutputLayer, ASizeCountsItAsItWillBeStored) {
  const auto model = models::open_model(kSource / "models/demo");
  Recipe recipe = with_output("rtn-w4g128-sym", "int8-sym-g32");
  recipe = with_target(std::move(recipe), {0, 8200000});
  const auto small =
      quantize_in_memory(*model, recipe, small_job_on_text(1, 128, 2), core::silent_progress())
          .model;
  EXPECT_LE(models::total_weight_bytes(small->network), 8200000);
  EXPECT_GT(models::total_weight_bytes(small->network), 8150000);
  // A size that is just enough: the matrix in 16 bits is not counted, nor is it counted twice.
  const auto untied = models::open_model(kSource / "tests/families/llama");
  const PipelineOptions options = small_job_on_text(1, 32, 1);
  Recipe exact = with_output("rtn-w4g16", "int8-sym-g32");
  const auto uniform = quantize_in_memory(*untied, exact, options, core::silent_progress()).model;
  const std::int64_t bytes = models::total_weight_bytes(uniform->network);
  exact.choices = {exact.scheme};
  exact = with_target(std::move(exact), {0, bytes});
  const auto fitted = quantize_in_memory(*untied, exact, options, core::silent_progress()).model;
  EXPECT_EQ(models::total_weight_bytes(fitted->network), bytes);
  Recipe short_by_one = with_output("rtn-w4g16", "int8-sym-g32");
  short_by_one.choices = {short_by_one.scheme};
  short_by_one = with_target(std::move(short_by_one), {0, bytes - 1});
  io::expect_error(core::ErrorKind::kUsage, {"the smallest that its formats can do"}, [&] {
    (void)quantize_in_memory(*untied, short_by_one, options, core::silent_progress());
  });
  Recipe tight = with_output("rtn-w4g16", "int8-sym-g32");
  tight = with_target(std::move(tight), {0, 4000});
  io::expect_error(core::ErrorKind::kUsage, {"the embedding is not rounded"}, [&] {
    (void)quantize_in_memory(*untied, tight, options, core::silent_progress());
  });
}

TEST(OutputLayer, BitsOfATargetAreThoseOfTheBlocks) {
  const auto model = models::open_model(kSource / "models/demo");
  const PipelineOptions options = small_job_on_text(1, 128, 2);
  Recipe recipe = with_target(with_output("rtn-w4g128", "int8-sym-g32"), {4.0, 0});
  const auto mixed = quantize_in_memory(*model, recipe, options, core::silent_progress()).model;
  EXPECT_LE(models::block_bits_per_weight(mixed->network), 4.0);
  EXPECT_GT(models::block_bits_per_weight(mixed->network), 3.95);
  EXPECT_EQ(formats::to_string(output_of(mixed->network).scheme), "int8-sym-g32");
}

TEST(OutputLayer, WhatItCannotBeIsRefused) {
  const auto refuses = [](const char* recipe, const char* scheme, const char* part) {
    io::expect_error(core::ErrorKind::kUsage, {part}, [&] { (void)with_output(recipe, scheme); });
  };
  refuses("quarot-w4a4", "int4-sym-g128-h128", "without -h and -tail");
  refuses("atom-w4a4", "int4-sym-g128-a4-tail64", "without -h and -tail");
  refuses("rtn-w4g128", "lut4-row-g64", "begin with the pass any4");
  refuses("awq-gptq-w4g128-search", "lut4-row-g64", "any4");
  io::expect_error(core::ErrorKind::kUsage, {"has a scheme for the output layer already"}, [] {
    (void)with_output(with_output("rtn-w4", "int8-sym-g32"), formats::parse_scheme("f16"));
  });
  io::expect_error(core::ErrorKind::kInvalidModel, {"'output'"}, [] {
    (void)from_json(R"({"scheme": "int4-asym-g64", "passes": ["rtn"], "output": 8})");
  });
  auto model = models::open_model(kSource / "tests/families/llama");
  model->network.output.parts.front().weight.k = 20;
  io::expect_error(core::ErrorKind::kUsage, {"output layer", "multiples of 32"},
                   [&] { (void)layer_schemes(model->network, with_output("rtn-w4g16", "mxfp4")); });
}

TEST(OutputLayer, IsPartOfTheJobAndOfTheName) {
  const Recipe plain = find_recipe("rtn-w4g128");
  EXPECT_FALSE(to_json(plain).contains("output"));
  const Recipe recipe = with_output("rtn-w4g128", "int8-sym-g32");
  EXPECT_EQ(to_json(recipe)["output"], "int8-sym-g32");
  EXPECT_EQ(recipe.name, "rtn-w4g128 (output int8-sym-g32)");
  const Recipe file =
      from_json(R"({"scheme": "f16", "passes": ["gptq"], "output": "int4-sym-g32"})");
  EXPECT_EQ(formats::to_string(file.output.value()), "int4-sym-g32");
}

}  // namespace
}  // namespace nibble::compress
