// Models of which two of each four weights are stored.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "core/json.h"
#include "io/temporary_folder_for_tests.h"
#include "models/model.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = NIBBLE_SOURCE_DIR;

std::vector<const formats::PackedWeight*> weights_of(const models::Model& model) {
  std::vector<const formats::PackedWeight*> weights;
  for (const models::Block* block : models::all_blocks(model.network)) {
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      for (const ops::Linear& layer : set->parts) {
        weights.push_back(&layer.weight);
      }
    }
  }
  return weights;
}

std::vector<float> row_of(const formats::PackedWeight& weight, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(weight.k));
  formats::decode_row(weight, row, values);
  return values;
}

TEST(TwoOfFourPipeline, StoresWhatTheSameRecipeGivesWithItsZeros) {
  const io::TemporaryFolder folder;
  const PipelineOptions options = small_job(2, 16, 2);
  for (const char* family : {"llama", "gpt2", "mixtral"}) {
    const auto model = models::open_model(kSource / "tests/families" / family);
    for (const char* name : {"sparsegpt-2of4-w4g32", "wanda-2of4-rtn-w4g32-sym-refine",
                             "sparsegpt-2of4-w8a8", "wanda-2of4-f16"}) {
      SCOPED_TRACE(fmt::format("{} {}", family, name));
      const fs::path target = folder / fmt::format("{}-{}", family, name);
      Recipe recipe = find_recipe(name);
      quantize_model(*model, recipe, target, options, false, core::silent_progress());
      const auto stored = models::open_model(target);
      recipe.scheme.sparsity = formats::Sparsity::kNone;
      const auto full = quantize_in_memory(*model, recipe, options, core::silent_progress()).model;
      const auto kept = weights_of(*stored);
      const auto all = weights_of(*full);
      ASSERT_EQ(kept.size(), all.size());
      std::int64_t smaller = 0;
      for (std::size_t i = 0; i < kept.size(); ++i) {
        smaller += formats::keeps_two_of_four(kept[i]->scheme) ? 1 : 0;
        EXPECT_LE(formats::stored_bytes(*kept[i]), formats::stored_bytes(*all[i]));
        for (std::int64_t row = 0; row < kept[i]->n; ++row) {
          ASSERT_EQ(row_of(*kept[i], row), row_of(*all[i], row)) << "layer " << i;
        }
      }
      EXPECT_GE(smaller, 8);
    }
  }
}

TEST(TwoOfFourPipeline, RefusesWeightsThatNothingPruned) {
  const auto model = models::open_model(kSource / "tests/families/llama");
  for (const char* pass : {"rtn", "gptq"}) {
    Recipe recipe = find_recipe("wanda-2of4-w4g32");
    recipe.steps = {{pass, core::Json::object()}};
    try {
      quantize_in_memory(*model, recipe, small_job(2, 16, 1), core::silent_progress());
      ADD_FAILURE() << pass;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
      EXPECT_NE(std::string(error.what()).find("prune the weight first"), std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("q_proj"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace nibble::compress
