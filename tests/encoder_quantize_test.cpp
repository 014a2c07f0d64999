#include <algorithm>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline.h"
#include "compress/recipe/part_words.h"
#include "engine/encoder.h"
#include "io/temporary_folder_for_tests.h"

// Encoders rounded to nearest: what is stored computes the same bits as what is made in memory.
namespace nibble {
namespace {

namespace fs = std::filesystem;

const fs::path kFamilies = fs::path(NIBBLE_SOURCE_DIR) / "tests" / "families";

const std::vector<std::int32_t> kIds = {5, 9, 33, 61, 17, 8, 8, 40, 21, 55, 12};

std::vector<float> logits_of(std::shared_ptr<const models::Model> model) {
  engine::RunnerOptions options;
  options.cpu.threads = 2;
  const engine::EncoderText text{kIds, {}};
  return engine::make_encoder(std::move(model), options)->classify({&text, 1}).values;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(squares / size);
}

class QuantizedEncoder : public testing::TestWithParam<const char*> {
 protected:
  std::vector<float> stored_logits(const std::string& recipe) {
    const fs::path target = folder_ / recipe;
    compress::quantize_model(*model_, compress::find_recipe(recipe), target, {}, false, silent_);
    return logits_of(models::open_model(target));
  }

  std::vector<float> logits_with_parts(const std::string& parts) {
    const compress::Recipe base = compress::find_recipe("i4-qall");
    const compress::Recipe recipe =
        compress::with_parts(base, compress::parse_part_schemes(parts, base));
    const fs::path target = folder_ / parts;
    compress::quantize_model(*model_, recipe, target, {}, false, silent_);
    return logits_of(models::open_model(target));
  }

  core::ProgressSink& silent_ = core::silent_progress();
  const io::TemporaryFolder folder_;
  std::shared_ptr<const models::Model> model_ = models::open_model(kFamilies / GetParam());
};

TEST_P(QuantizedEncoder, StoredAsInMemory) {
  const std::vector<float> plain = logits_of(model_);
  for (const auto& [recipe, most] : {std::pair("w8a8", 0.1), std::pair("rtn-w4g32", 0.6)}) {
    const compress::Quantized made =
        compress::quantize_in_memory(*model_, compress::find_recipe(recipe), {}, silent_);
    EXPECT_EQ(made.layers.size(), 12u) << recipe;  // six in each of two blocks, none of the head
    const std::vector<float> logits = stored_logits(recipe);
    EXPECT_EQ(logits, logits_of(made.model)) << recipe;
    const double difference = relative_difference(logits, plain);
    EXPECT_GT(difference, 1e-5) << recipe;
    EXPECT_LT(difference, most) << recipe;
  }
}

TEST_P(QuantizedEncoder, PartsThatAreOffComputeAsTheFloatModel) {
  const std::vector<float> plain = logits_of(model_);
  EXPECT_EQ(logits_with_parts("qkv=float,out=float,mlp-in=float,mlp-out=float"), plain);
  for (const char* part : {"qkv", "out", "mlp-in", "mlp-out"}) {
    const double four = relative_difference(logits_with_parts(part), plain);
    const double eight = relative_difference(logits_with_parts(std::string(part) + "=w8a8"), plain);
    EXPECT_GT(eight, 1e-6) << part;
    EXPECT_LT(eight, four) << part;
    EXPECT_LT(four, 1.0) << part;
  }
}

TEST_P(QuantizedEncoder, RefusesRotationsAndWhatMeasuresWithoutTexts) {
  for (const char* recipe : {"gptq-w4g32", "smoothquant-w8a8", "quarot-rtn-w4g32"}) {
    EXPECT_THROW(stored_logits(recipe), core::Error) << recipe;
    EXPECT_FALSE(fs::exists(folder_ / recipe)) << recipe;
  }
  const compress::Recipe output = compress::with_output(compress::find_recipe("rtn-w4g32"),
                                                        formats::parse_scheme("int8-sym-row"));
  EXPECT_THROW(compress::quantize_in_memory(*model_, output, {}, silent_), core::Error);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedEncoder,
                         testing::Values("bert-texts", "roberta-texts", "distilbert-texts"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// How a folder of sentence-transformers pools goes along.
TEST(QuantizedEncoderFolder, KeepsItsPooling) {
  const io::TemporaryFolder folder;
  fs::create_directories(folder / "plain/1_Pooling");
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    fs::copy_file(kFamilies / "bert" / file, folder / "plain" / file);
  }
  folder.write("plain/modules.json",
               R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                   {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  folder.write("plain/1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  core::ProgressSink& silent = core::silent_progress();
  compress::quantize_model(*models::open_model(folder / "plain"), compress::find_recipe("w8a8"),
                           folder / "made", {}, false, silent);
  const auto made = models::open_model(folder / "made");
  ASSERT_TRUE(made->network.pooling.has_value());
  EXPECT_EQ(made->network.pooling->mode, models::PoolingMode::kMax);
}

}  // namespace
}  // namespace nibble
