#include "compress/pipeline/pipeline.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "compress/calibration/block_runner.h"
#include "compress/calibration/key_centre.h"
#include "compress/pipeline/checkpoint.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "io/temporary_folder_for_tests.h"
#include "models/forward.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = NIBBLE_SOURCE_DIR;

PipelineOptions small_options() {
  return small_job_on_text(4, 128, 2);
}

void expect_two_zeros_of_four(const models::Network& network, const std::string& name) {
  for (const models::Block& block : network.decoder.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      for (const ops::Linear& part : set->parts) {
        std::vector<float> row(static_cast<std::size_t>(part.weight.k));
        for (std::int64_t i = 0; part.name == name && i < part.weight.n; ++i) {
          formats::decode_row(part.weight, i, row);
          EXPECT_NE(std::count(row.begin(), row.end(), 0.0f), part.weight.k) << name;
          for (auto at = row.begin(); at != row.end(); at += 4) {
            ASSERT_GE(std::count(at, at + 4, 0.0f), 2) << name;
          }
        }
      }
    }
  }
}

TEST(Pipeline, WritesAFolderThatDecodesLikeTheModelInMemory) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "models/demo");
  for (const char* name :
       {"rtn-w4g64", "gptq-w3g128", "nf4g64", "mxfp4", "nvfp4", "w8a8", "f16", "rtn-w2grow"}) {
    if (std::string(name) == "rtn-w2grow") {
      EXPECT_THROW((void)find_recipe(name), core::Error);
      continue;
    }
    const Recipe recipe = find_recipe(name);
    quantize_model(*model, recipe, folder / name, small_options(), false, core::silent_progress());
    const auto stored = models::open_model(folder / name);
    const auto in_memory =
        quantize_in_memory(*model, recipe, small_options(), core::silent_progress()).model;
    EXPECT_EQ(stored->compression.recipe, name);
    EXPECT_TRUE(fs::exists(folder / name / "tokenizer.json"));
    EXPECT_FALSE(fs::exists(folder / name / "job.json"));
    for (std::size_t b = 0; b < stored->network.decoder.blocks.size(); ++b) {
      const auto sets = models::linear_sets(std::as_const(stored->network.decoder.blocks[b]));
      const auto expected =
          models::linear_sets(std::as_const(in_memory->network.decoder.blocks[b]));
      for (std::size_t s = 0; s < sets.size(); ++s) {
        const formats::PackedWeight& weight = sets[s]->parts[0].weight;
        std::vector<float> row(static_cast<std::size_t>(weight.k));
        std::vector<float> other(row.size());
        formats::decode_row(weight, 1, row);
        formats::decode_row(expected[s]->parts[0].weight, 1, other);
        ASSERT_EQ(row, other) << name;
      }
    }
  }
}

TEST(Pipeline, GoesOnAfterAnInterruptionAndEndsInTheSameBytes) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "models/demo");
  const Recipe recipe = find_recipe("gptq-w4g128");
  quantize_model(*model, recipe, folder / "whole", small_options(), false, core::silent_progress());
  for (const char* moment :
       {"block 1 of 6 finished", "block 2 of 6: running window 3", "block 4 of 6 finished",
        "block 5 of 6: model.layers.4.mlp.up_proj error", "block 6 of 6 finished"}) {
    const fs::path target = folder / "resumed";
    Interrupted stop(moment);
    EXPECT_ANY_THROW(quantize_model(*model, recipe, target, small_options(), false, stop));
    EXPECT_FALSE(fs::exists(target)) << "a partial result under the output's name";
    EXPECT_THROW(
        quantize_model(*model, recipe, target, small_options(), false, core::silent_progress()),
        core::Error)
        << "an unfinished job is not thrown away in silence";
    EXPECT_THROW(quantize_model(*model, find_recipe("gptq-w3g128"), target, small_options(), true,
                                core::silent_progress()),
                 core::Error)
        << "another job can't go on with it";
    quantize_model(*model, recipe, target, small_options(), true, core::silent_progress());
    EXPECT_EQ(io::folder_contents(target), io::folder_contents(folder / "whole")) << moment;
    fs::remove_all(target);
  }
  EXPECT_THROW(quantize_model(*model, recipe, folder / "whole", small_options(), true,
                              core::silent_progress()),
               core::Error)
      << "an existing output is not overwritten";
}

TEST(Pipeline, TellsWindowsAndLayersOfABlock) {
  const auto model = models::open_model(kSource / "models/demo");
  Interrupted progress("");
  quantize_in_memory(*model, find_recipe("gptq-w4g128"), small_options(), progress);
  const auto& notes = progress.notes();
  const auto at = [&](const std::string& part) {
    return std::find_if(
               notes.begin(), notes.end(),
               [&](const std::string& note) { return note.find(part) != std::string::npos; }) -
           notes.begin();
  };
  EXPECT_LT(at("block 2 of 6: measuring window 4 of 4"), at("block 2 of 6: model.layers.1"));
  EXPECT_LT(at("layers.1.self_attn.q_proj error 0.0"), at("layers.1.mlp.down_proj error 0.0"));
  EXPECT_LT(at("layers.1.mlp.down_proj error"), at("block 2 of 6: running window 1 of 4"));
  EXPECT_LT(at("block 2 of 6: running window 4 of 4"), at("block 2 of 6 finished"));
  EXPECT_LT(at("block 6 of 6 finished"), static_cast<std::int64_t>(notes.size()));
}

// Hidden states in a file, with and without those of the original model beside them.
TEST(Pipeline, EndsInTheSameBytesWhenHiddenStatesAreSpilled) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "tests/families/llama");
  const PipelineOptions in_memory = small_job_on_text(4, 32, 2);
  std::ofstream(folder / "two.json")
      << R"({"scheme": "int4-asym-g16", "passes": ["asymmetric", "gptq"]})";
  std::ofstream(folder / "turn.json")
      << R"({"scheme": "int4-asym-g16", "passes": ["asymmetric", "gptq"], "true_sequential": true})";
  for (const std::string& name : {std::string("gptq-w4g16"), (folder / "two.json").string(),
                                  (folder / "turn.json").string()}) {
    const Recipe recipe = find_recipe(name);
    Interrupted plain("");
    quantize_model(*model, recipe, folder / "memory", in_memory, false, plain);
    EXPECT_EQ(plain.messages(), "");
    PipelineOptions options = in_memory;
    options.memory = 1 << 10;
    Interrupted stop("block 1 of 2 finished");
    EXPECT_ANY_THROW(quantize_model(*model, recipe, folder / "file", options, false, stop));
    EXPECT_NE(stop.messages().find("temporary file"), std::string::npos) << stop.messages();
    EXPECT_NE(stop.messages().find("more than --memory 1.0 KiB"), std::string::npos);
    for (const auto& entry : fs::directory_iterator(folder / ".file.partial")) {
      EXPECT_TRUE(entry.path().extension() == ".safetensors" ||
                  entry.path().filename() == "job.json")
          << entry.path();
    }
    quantize_model(*model, recipe, folder / "file", options, true, core::silent_progress());
    EXPECT_EQ(io::folder_contents(folder / "file"), io::folder_contents(folder / "memory")) << name;
    options.memory = std::int64_t{1} << 32;
    Interrupted roomy("");
    quantize_in_memory(*model, recipe, options, roomy);
    EXPECT_EQ(roomy.messages(), "") << "there was room";
    fs::remove_all(folder / "memory");
    fs::remove_all(folder / "file");
  }
}

TEST(Pipeline, CompressesEveryFamily) {
  const io::TemporaryFolder folder;
  const PipelineOptions options = small_job(2, 32, 1);
  for (const char* family : {"llama-bias-tied", "mistral", "qwen3", "qwen3-moe", "mixtral", "phi3",
                             "gemma2", "gemma3", "gpt2", "opt", "opt-post-norm", "opt-projected"}) {
    const auto model = models::open_model(kSource / "tests/families" / family);
    for (const char* recipe : {"gptq-w4g16", "gptq-w4g16-search-refine"}) {
      const fs::path target = folder / fmt::format("{}-{}", family, recipe);
      quantize_model(*model, find_recipe(recipe), target, options, false, core::silent_progress());
      const auto stored = models::open_model(target);
      EXPECT_LT(models::block_bits_per_weight(stored->network), 6.0) << family;
    }
  }
}

// Scales would change the residual stream that attention and MLP of post-norm blocks read.
TEST(Pipeline, SaysWhichInputsOfPostNormBlocksAreNotScaled) {
  const auto model = models::open_model(kSource / "tests/families/opt-post-norm");
  for (const char* recipe : {"smoothquant-w8a8", "awq-w4g16"}) {
    const auto layers = quantize_in_memory(*model, find_recipe(recipe), small_job(2, 32, 1),
                                           core::silent_progress())
                            .layers;
    for (const LayerReport& layer : layers) {
      const bool reads_stream = layer.name.find("out_proj") == std::string::npos &&
                                layer.name.find("fc2") == std::string::npos;
      EXPECT_EQ(layer.note.find("not scaled") != std::string::npos, reads_stream) << layer.name;
    }
    EXPECT_EQ(std::ssize(layers), 18);
  }
}

// Keys of post-norm blocks are made of the stream as it is.
TEST(Pipeline, CentresKeysOfPostNormBlocksByTheStream) {
  const auto model = models::open_model(kSource / "tests/families/opt-post-norm");
  const models::Block& block = model->network.decoder.blocks.front();
  const PipelineOptions options = small_job(2, 32, 1);
  const auto result =
      quantize_in_memory(*model, find_recipe("gptq-w4g16"), options, core::silent_progress()).model;
  CalibrationOptions calibration = options.calibration;
  calibration.threads = 1;
  ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
  const CalibrationWindows windows =
      sample_calibration(*model, calibration, core::silent_progress());
  const std::vector<float> mean =
      CpuBlockRunner(model->network, decoder_inputs(windows), ops, false, std::nullopt)
          .mean_input(nullptr);
  EXPECT_EQ(result->network.decoder.blocks.front().attention.spec.key_centre,
            key_centre(model->network.config, block, mean));
}

// The centre of the keys goes through the file; recipes that see no text have none, and models that
// normalise keys neither.
TEST(Pipeline, StoresTheCentreOfTheKeys) {
  const io::TemporaryFolder folder;
  const PipelineOptions options = small_job(2, 32, 1);
  for (const char* family :
       {"llama-bias-tied", "qwen3", "mixtral", "gpt2", "opt", "opt-post-norm"}) {
    const auto model = models::open_model(kSource / "tests/families" / family);
    const bool centred = std::string_view(family) != "qwen3";
    for (const char* recipe : {"gptq-w4g16", "rtn-w4g16"}) {
      const bool calibrated = std::string_view(recipe) == "gptq-w4g16";
      const fs::path target = folder / fmt::format("{}-{}", family, recipe);
      quantize_model(*model, find_recipe(recipe), target, options, false, core::silent_progress());
      const auto stored = models::open_model(target);
      const auto in_memory =
          quantize_in_memory(*model, find_recipe(recipe), options, core::silent_progress()).model;
      for (std::size_t b = 0; b < stored->network.decoder.blocks.size(); ++b) {
        const ops::AttentionSpec& spec = stored->network.decoder.blocks[b].attention.spec;
        const std::int64_t expected = centred && calibrated ? spec.kv_heads * spec.head_dim : 0;
        EXPECT_EQ(std::ssize(spec.key_centre), expected) << target;
        EXPECT_EQ(spec.key_centre, in_memory->network.decoder.blocks[b].attention.spec.key_centre);
      }
    }
  }
}

// Learned books through the file, for each row and for a matrix; an expert may see no token at all.
TEST(Pipeline, StoresLearnedBooks) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "tests/families/mixtral");
  std::ofstream(folder / "matrix.json")
      << R"({"scheme": "lut4-matrix-g16", "passes": ["any4", "gptq", "refine"]})";
  for (const std::string& name : {std::string("any4g16"), std::string("any4g16-gptq-refine"),
                                  (folder / "matrix.json").string()}) {
    const Recipe recipe = find_recipe(name);
    PipelineOptions options = small_job(1, 4, 2);
    const fs::path target = folder / recipe.name;
    quantize_model(*model, recipe, target, options, false, core::silent_progress());
    options.threads = 1;
    const auto in_memory =
        quantize_in_memory(*model, recipe, options, core::silent_progress()).model;
    const auto stored = models::open_model(target);
    const auto sets = models::linear_sets(std::as_const(stored->network.decoder.blocks[1]));
    const auto expected = models::linear_sets(std::as_const(in_memory->network.decoder.blocks[1]));
    for (std::size_t s = 0; s < sets.size(); ++s) {
      const formats::PackedWeight& weight = sets[s]->parts[0].weight;
      std::vector<float> row(static_cast<std::size_t>(weight.k));
      std::vector<float> other(row.size());
      for (std::int64_t i = 0; i < weight.n; ++i) {
        formats::decode_row(weight, i, row);
        formats::decode_row(expected[s]->parts[0].weight, i, other);
        ASSERT_EQ(row, other) << name << " " << sets[s]->parts[0].name;
      }
    }
  }
}

// Two weights of every four are 0 in what the folder holds, whatever the number of threads.
TEST(Pipeline, StoresPrunedWeights) {
  const io::TemporaryFolder folder;
  std::ofstream(folder / "after.json")
      << R"({"scheme": "lut4-nf4-g16", "passes": ["gptq", )"
         R"({"pass": "wanda", "pattern": "2:4", "after_rounding": true}, "refine"]})";
  const PipelineOptions options = small_job(2, 16, 1);
  for (const char* family : {"llama", "mixtral", "gpt2"}) {
    const auto model = models::open_model(kSource / "tests/families" / family);
    for (const std::string& name :
         {std::string("wanda24"), std::string("sparsegpt24-gptq-w4g16"),
          std::string("sparsegpt24-rtn-w4g16-sym-refine"), (folder / "after.json").string()}) {
      const Recipe recipe = find_recipe(name);
      const fs::path target = folder / fmt::format("{}-{}", family, recipe.name);
      quantize_model(*model, recipe, target, options, false, core::silent_progress());
      PipelineOptions threads = options;
      threads.threads = 2;
      quantize_model(*model, recipe, folder / "threads", threads, false, core::silent_progress());
      EXPECT_EQ(io::folder_contents(folder / "threads"), io::folder_contents(target))
          << recipe.name;
      fs::remove_all(folder / "threads");
      const auto stored = models::open_model(target);
      for (const auto& [layer, scheme] : layer_schemes(stored->network, recipe)) {
        expect_two_zeros_of_four(stored->network, layer);
      }
    }
  }
}

// The share of weights of the second block that decode to the same values.
double agreement(const models::Network& a, const models::Network& b) {
  double same = 0;
  double all = 0;
  const auto sets = models::linear_sets(a.decoder.blocks[1]);
  const auto others = models::linear_sets(b.decoder.blocks[1]);
  for (std::size_t s = 0; s < sets.size(); ++s) {
    const formats::PackedWeight& weight = sets[s]->parts[0].weight;
    std::vector<float> row(static_cast<std::size_t>(weight.k));
    std::vector<float> other(row.size());
    for (std::int64_t i = 0; i < weight.n; ++i) {
      formats::decode_row(weight, i, row);
      formats::decode_row(others[s]->parts[0].weight, i, other);
      for (std::size_t j = 0; j < row.size(); ++j) {
        same += row[j] == other[j] ? 1 : 0;
        all += 1;
      }
    }
  }
  return same / all;
}

// The windows leave a first block in 8 bits nearly as they were, whether its inputs are turned
// online or not: GPTQ finds nearly the same codes for the second.
TEST(Pipeline, CalibratesBehindTurnedInputs) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "tests/families/llama");
  const PipelineOptions options = small_job_on_text(4, 32, 1);
  const auto second_block_behind = [&](const std::string& scheme, const std::string& passes) {
    const fs::path file = folder / "recipe.json";
    std::ofstream(file) << R"({"scheme": "int4-asym-g16", "passes": [)" << passes
                        << R"(], "layers": [{"match": "model.layers.0.*", "scheme": ")" << scheme
                        << "\"}]}";
    return quantize_in_memory(*model, find_recipe(file.string()), options, core::silent_progress())
        .model;
  };
  const auto plain = second_block_behind("int8-sym-g16", "\"gptq\"");
  for (const char* scheme : {"int8-sym-g16-h16", "int8-sym-g16-a8-h16"}) {
    const auto turned = second_block_behind(scheme, R"("hadamard", "gptq")");
    EXPECT_GT(agreement(turned->network, plain->network), 0.9) << scheme;
  }
}

// Mean squared difference of the hidden states of two models behind their last block.
double difference(const models::Network& a, const models::Network& b,
                  const std::vector<std::int32_t>& tokens) {
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  std::vector<std::int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  const ops::SequenceSlice<ops::cpu::KvCache> alone{nullptr, 0, 0, std::ssize(tokens)};
  const models::Batch<ops::cpu::CpuOps> batch{tokens, positions, {&alone, 1}};
  const auto x = models::hidden_states(ops, a, batch);
  const auto y = models::hidden_states(ops, b, batch);
  double sum = 0;
  for (std::size_t i = 0; i < x.values().size(); ++i) {
    sum += std::pow(static_cast<double>(x.values()[i]) - y.values()[i], 2);
  }
  return sum / static_cast<double>(x.values().size());
}

// Each later layer makes up for what the layers before it have lost; in turn more than at once.
TEST(Pipeline, AsymmetricCalibrationMakesUpForTheLayersBefore) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "models/demo");
  const auto loss = [&](const std::string& fields, const std::string& passes) {
    const fs::path file = folder / "recipe.json";
    std::ofstream(file) << R"({"scheme": "int3-asym-g64", )" << fields << R"("passes": [)" << passes
                        << "]}";
    const PipelineOptions options = small_job_on_text(12, 128, 2);
    const auto result =
        quantize_in_memory(*model, find_recipe(file.string()), options, core::silent_progress());
    double sum = 0;
    for (const auto& window : read_calibration(*model, options.calibration)) {
      sum += difference(model->network, result.model->network, window);
    }
    return sum;
  };
  const double plain = loss("", R"("gptq")");
  const double corrected = loss("", R"("asymmetric", "gptq")");
  const double in_turn = loss(R"("true_sequential": true, )", R"("asymmetric", "gptq")");
  EXPECT_LT(corrected, 0.97 * plain);
  EXPECT_LT(in_turn, 0.97 * plain);
}

TEST(Pipeline, Best4GoesOnAfterAnInterruptionAndEndsInTheSameBytes) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "tests/families/qwen2");
  const PipelineOptions options = small_job_on_text(4, 32, 2);
  const Recipe recipe = find_recipe("best4");
  quantize_model(*model, recipe, folder / "whole", options, false, core::silent_progress());
  Interrupted interrupted("block 1 of 2 finished");
  EXPECT_THROW(quantize_model(*model, recipe, folder / "parts", options, false, interrupted),
               std::runtime_error);
  quantize_model(*model, recipe, folder / "parts", options, true, core::silent_progress());
  EXPECT_EQ(io::folder_contents(folder / "whole"), io::folder_contents(folder / "parts"));
}

TEST(Pipeline, WhatExpertsCannotServeIsRefused) {
  const auto model = models::open_model(kSource / "tests/families/mixtral");
  EXPECT_THROW((void)quantize_in_memory(*model, find_recipe("best4"), small_options(),
                                        core::silent_progress()),
               core::Error);
}

TEST(Pipeline, CompressedModelsAreNotCompressedAgain) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kSource / "tests/families/llama");
  quantize_model(*model, find_recipe("rtn-w4g16"), folder / "once", {}, false,
                 core::silent_progress());
  const auto once = models::open_model(folder / "once");
  EXPECT_THROW(quantize_model(*once, find_recipe("rtn-w4g16"), folder / "twice", {}, false,
                              core::silent_progress()),
               core::Error);
}

TEST(Calibration, TakesTheFirstWindowsOfEachTextInTurn) {
  const auto model = models::open_model(kSource / "models/demo");
  CalibrationOptions options;
  options.texts = {source_text("models/demo/texts/calibration.txt"),
                   source_text("models/demo/texts/evaluation.txt")};
  options.samples = 5;
  options.seq_len = 64;
  const CalibrationWindows windows = read_calibration(*model, options);
  ASSERT_EQ(windows.size(), 5u);
  options.texts.pop_back();
  options.samples = 2;
  const CalibrationWindows first = read_calibration(*model, options);
  EXPECT_EQ(first[0], windows[0]);
  EXPECT_EQ(first[1], windows[2]);
  options.seq_len = 1024;
  options.samples = 1000;
  EXPECT_GT(read_calibration(*model, options).size(), 1u);
}

TEST(Calibration, ModelsWriteTheSameTextForTheSameSeed) {
  const auto model = models::open_model(kSource / "tests/families/llama");
  CalibrationOptions options;
  options.samples = 20;
  options.seq_len = 24;
  options.threads = 1;
  const auto one = sample_calibration(*model, options, core::silent_progress());
  options.threads = 2;
  EXPECT_EQ(sample_calibration(*model, options, core::silent_progress()), one);
  options.seed = 1;
  EXPECT_NE(sample_calibration(*model, options, core::silent_progress()), one);
  EXPECT_EQ(one.size(), 20u);
  EXPECT_EQ(one[0].size(), 24u);
}

}  // namespace
}  // namespace nibble::compress
