#include <filesystem>

#include <gtest/gtest.h>

#include "compress/pipeline/logits_for_tests.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "core/float16.h"
#include "core/json.h"
#include "io/temporary_folder_for_tests.h"

// Norms that checkpoints hold less 1 (Gemma), through the folders that jobs write.
namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

const fs::path kFamilies = fs::path(NIBBLE_SOURCE_DIR) / "tests" / "families";

struct Case {
  const char* family;
  const char* recipe;
  bool float_weights;  // what comes out is the original but for float32's rounding
};

class StoredNorms : public testing::TestWithParam<Case> {};

// A model that was read again computes what it computed in memory; norms whose channels were scaled
// or folded into other layers are among its tensors.
TEST_P(StoredNorms, MeanTheSameWhenRead) {
  const io::TemporaryFolder folder;
  const auto model = models::open_model(kFamilies / GetParam().family);
  const std::string passes = GetParam().recipe;
  const Recipe recipe = find_recipe(folder.write("recipe.json", passes).string());
  const PipelineOptions options = small_job(2, 32, 2);
  quantize_model(*model, recipe, folder / "out", options, false, core::silent_progress());
  const auto stored = models::open_model(folder / "out");
  const auto in_memory = quantize_in_memory(*model, recipe, options, core::silent_progress()).model;
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kFloat});
  const ops::Norm& before = model->network.decoder.blocks[1].attention_norm;
  const ops::Norm& after = stored->network.decoder.blocks[1].attention_norm;
  EXPECT_NE(after.weight, before.weight) << "nothing was scaled";
  EXPECT_EQ(after.stored_less, 1.0f);
  EXPECT_EQ(logits(stored->network, ops), logits(in_memory->network, ops));
  if (GetParam().float_weights) {
    const std::vector<float> expected = logits(model->network, ops);
    const std::vector<float> got = logits(stored->network, ops);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 2e-4) << i;
    }
  }
}

constexpr const char* kAwq = R"({"scheme": "int4-asym-g16", "passes": ["awq", "rtn"]})";
constexpr const char* kSmooth =
    R"({"scheme": "int8-sym-row-a8", "passes": ["smoothquant", "rtn"]})";
constexpr const char* kRotate = R"({"scheme": "f32", "passes": ["rotate", "rtn"]})";

INSTANTIATE_TEST_SUITE_P(Gemma, StoredNorms,
                         testing::Values(Case{"gemma", kAwq, false}, Case{"gemma", kRotate, true},
                                         Case{"gemma2", kAwq, false},
                                         Case{"gemma2", kSmooth, false},
                                         Case{"gemma3", kAwq, false},
                                         Case{"gemma3-text", kSmooth, false}));

// The scale of the embedding is that of the type that the model was made in, also where the turned
// embedding is stored in another.
TEST(ScaledEmbedding, IsThatOfTheTypeOfTheModel) {
  const auto model = models::open_model(kFamilies / "gemma");
  EXPECT_FLOAT_EQ(model->network.embeddings.scale, 5.656854f);
  const io::TemporaryFolder folder;
  fs::copy(kFamilies / "gemma", folder / "half");
  core::Json config = *model->config_json;
  config["dtype"] = "bfloat16";
  folder.write("half/config.json", config.dump());
  EXPECT_EQ(models::open_model(folder / "half")->network.embeddings.scale,
            core::to_float(core::to_bf16(5.656854f)));
}

}  // namespace
}  // namespace nibble::compress
