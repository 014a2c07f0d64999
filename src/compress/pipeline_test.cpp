#include "compress/pipeline.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "compress/checkpoint.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = NIBBLE_SOURCE_DIR;

// A folder for one test, empty at its start.
fs::path scratch() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder =
      fs::temp_directory_path() / fmt::format("nibble_{}_{}", test->name(), getpid());
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    files[fs::relative(entry.path(), folder)] = bytes.str();
  }
  return files;
}

PipelineOptions small_options() {
  PipelineOptions options;
  options.calibration.texts = {kSource / "models/demo/texts/calibration.txt"};
  options.calibration.samples = 4;
  options.calibration.seq_len = 128;
  options.threads = 2;
  return options;
}

void expect_two_zeros_of_four(const models::Decoder& decoder, const std::string& name) {
  for (const models::Block& block : decoder.blocks) {
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

// Fails at one block, as a killed process would stop there.
class Interrupted : public core::ProgressSink {
 public:
  explicit Interrupted(std::int64_t block) : block_(block) {}
  void begin(std::string_view, std::int64_t) override {}
  void update(std::int64_t done, std::string_view) override {
    if (done == block_) {
      throw std::runtime_error("interrupted");
    }
  }
  void end() override {}
  void message(std::string_view) override {}

 private:
  std::int64_t block_;
};

TEST(Pipeline, WritesAFolderThatDecodesLikeTheModelInMemory) {
  const fs::path folder = scratch();
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
    for (std::size_t b = 0; b < stored->decoder.blocks.size(); ++b) {
      const auto sets = models::linear_sets(std::as_const(stored->decoder.blocks[b]));
      const auto expected = models::linear_sets(std::as_const(in_memory->decoder.blocks[b]));
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
  fs::remove_all(folder);
}

TEST(Pipeline, GoesOnAfterAnInterruptionAndEndsInTheSameBytes) {
  const fs::path folder = scratch();
  const auto model = models::open_model(kSource / "models/demo");
  const Recipe recipe = find_recipe("gptq-w4g128");
  quantize_model(*model, recipe, folder / "whole", small_options(), false, core::silent_progress());
  for (const std::int64_t block : {1, 4, 6}) {
    const fs::path target = folder / "resumed";
    Interrupted stop(block);
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
    EXPECT_EQ(contents(target), contents(folder / "whole")) << "after block " << block;
    fs::remove_all(target);
  }
  EXPECT_THROW(quantize_model(*model, recipe, folder / "whole", small_options(), true,
                              core::silent_progress()),
               core::Error)
      << "an existing output is not overwritten";
  fs::remove_all(folder);
}

TEST(Pipeline, CompressesEveryFamily) {
  const fs::path folder = scratch();
  PipelineOptions options;
  options.calibration.samples = 2;
  options.calibration.seq_len = 32;
  options.threads = 1;
  for (const char* family : {"llama-bias-tied", "mistral", "qwen3", "mixtral", "gpt2", "opt"}) {
    const auto model = models::open_model(kSource / "tests/families" / family);
    for (const char* recipe : {"gptq-w4g16", "gptq-w4g16-search-refine"}) {
      const fs::path target = folder / fmt::format("{}-{}", family, recipe);
      quantize_model(*model, find_recipe(recipe), target, options, false, core::silent_progress());
      const auto stored = models::open_model(target);
      EXPECT_LT(models::block_bits_per_weight(stored->decoder), 6.0) << family;
    }
  }
  fs::remove_all(folder);
}

// Learned books through the file, for each row and for a matrix; an expert may see no token at all.
TEST(Pipeline, StoresLearnedBooks) {
  const fs::path folder = scratch();
  const auto model = models::open_model(kSource / "tests/families/mixtral");
  std::ofstream(folder / "matrix.json")
      << R"({"scheme": "lut4-matrix-g16", "passes": ["any4", "gptq", "refine"]})";
  for (const std::string& name : {std::string("any4g16"), std::string("any4g16-gptq-refine"),
                                  (folder / "matrix.json").string()}) {
    const Recipe recipe = find_recipe(name);
    PipelineOptions options;
    options.calibration.samples = 1;
    options.calibration.seq_len = 4;
    options.threads = 2;
    const fs::path target = folder / recipe.name;
    quantize_model(*model, recipe, target, options, false, core::silent_progress());
    options.threads = 1;
    const auto in_memory =
        quantize_in_memory(*model, recipe, options, core::silent_progress()).model;
    const auto stored = models::open_model(target);
    const auto sets = models::linear_sets(std::as_const(stored->decoder.blocks[1]));
    const auto expected = models::linear_sets(std::as_const(in_memory->decoder.blocks[1]));
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
  fs::remove_all(folder);
}

// Two weights of every four are 0 in what the folder holds, whatever the number of threads.
TEST(Pipeline, StoresPrunedWeights) {
  const fs::path folder = scratch();
  std::ofstream(folder / "after.json")
      << R"({"scheme": "lut4-nf4-g16", "passes": ["gptq", )"
         R"({"pass": "wanda", "pattern": "2:4", "after_rounding": true}, "refine"]})";
  PipelineOptions options;
  options.calibration.samples = 2;
  options.calibration.seq_len = 16;
  options.threads = 1;
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
      EXPECT_EQ(contents(folder / "threads"), contents(target)) << recipe.name;
      fs::remove_all(folder / "threads");
      const auto stored = models::open_model(target);
      for (const auto& [layer, scheme] : layer_schemes(stored->decoder, recipe)) {
        expect_two_zeros_of_four(stored->decoder, layer);
      }
    }
  }
  fs::remove_all(folder);
}

// The share of weights of the second block that decode to the same values.
double agreement(const models::Decoder& a, const models::Decoder& b) {
  double same = 0;
  double all = 0;
  const auto sets = models::linear_sets(a.blocks[1]);
  const auto others = models::linear_sets(b.blocks[1]);
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
  const fs::path folder = scratch();
  const auto model = models::open_model(kSource / "tests/families/llama");
  PipelineOptions options;
  options.calibration.texts = {kSource / "models/demo/texts/calibration.txt"};
  options.calibration.samples = 4;
  options.calibration.seq_len = 32;
  options.threads = 1;
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
    EXPECT_GT(agreement(turned->decoder, plain->decoder), 0.9) << scheme;
  }
  fs::remove_all(folder);
}

TEST(Pipeline, CompressedModelsAreNotCompressedAgain) {
  const fs::path folder = scratch();
  const auto model = models::open_model(kSource / "tests/families/llama");
  quantize_model(*model, find_recipe("rtn-w4g16"), folder / "once", {}, false,
                 core::silent_progress());
  const auto once = models::open_model(folder / "once");
  EXPECT_THROW(quantize_model(*once, find_recipe("rtn-w4g16"), folder / "twice", {}, false,
                              core::silent_progress()),
               core::Error);
  fs::remove_all(folder);
}

TEST(Calibration, TakesTheFirstWindowsOfEachTextInTurn) {
  const auto model = models::open_model(kSource / "models/demo");
  CalibrationOptions options;
  options.texts = {kSource / "models/demo/texts/calibration.txt",
                   kSource / "models/demo/texts/evaluation.txt"};
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
