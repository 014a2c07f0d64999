#include <filesystem>

#include <gtest/gtest.h>

#include "compress/pipeline/logits_for_tests.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "compress/recipe/layer_schemes.h"
#include "compress/recipe/part_words.h"
#include "core/error.h"
#include "core/json.h"
#include "io/temporary_folder_for_tests.h"

// Each of the four parts of a layer with a scheme of its own.
namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<models::Model> family(const std::string& name) {
  return models::open_model(fs::path(NIBBLE_SOURCE_DIR) / "tests/families" / name);
}

Recipe parts(const std::string& text, const char* recipe = "i8-qall") {
  const Recipe base = find_recipe(recipe);
  return with_parts(base, parse_part_schemes(text, base));
}

std::vector<float> prepared_logits(const models::Network& network) {
  ops::cpu::CpuOps ops({2, ops::ActivationPrecision::kInt8});
  for (const ops::LinearSet* set : models::linear_sets(network)) {
    ops.prepare(*set);
  }
  return logits(network, ops);
}

std::string words(const std::string& text, const char* recipe = "i8-qall") {
  return models::to_string(*parts(text, recipe).parts);
}

std::string refusal(const std::string& text, const char* recipe = "i8-qall") {
  try {
    (void)parts(text, recipe);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(PartSchemes, WordsOfTypesAreSchemes) {
  const auto scheme = [](std::string_view text) {
    const auto found = parse_weights_and_activations(text);
    return found ? formats::to_string(*found) : "";
  };
  EXPECT_EQ(scheme("w8a8"), "int8-sym-row-a8");
  EXPECT_EQ(scheme("w4a8"), "int4-sym-row-a8");
  EXPECT_EQ(scheme("w4a4"), "int4-sym-row-a4");
  EXPECT_EQ(scheme("w4a4-asym"), "int4-asym-row-a4-asym");
  EXPECT_EQ(scheme("w4a8g128"), "int4-sym-g128-a8");
  EXPECT_EQ(scheme("w8a8g64-asym"), "int8-asym-g64-a8-asym");
  for (const char* wrong : {"", "w4", "a4", "w5a8", "w4a5", "w4a4g0", "w4a4x", "w4a4-sym", "wa"}) {
    EXPECT_EQ(scheme(wrong), "") << wrong;
  }
}

TEST(PartSchemes, EachPartHasItsTypeOrThatOfTheRecipe) {
  EXPECT_EQ(words("qkv=w8a8,out=float,mlp-in=w4a8,mlp-out=int4-sym-g128-a4"),
            "qkv=int8-sym-row-a8,out=float,mlp-in=int4-sym-row-a8,mlp-out=int4-sym-g128-a4");
  EXPECT_EQ(words("mlp-in,qkv", "i4-qallg32"),
            "qkv=int4-sym-g32-a4,out=float,mlp-in=int4-sym-g32-a4,mlp-out=float");
  EXPECT_EQ(parts("qkv").name,
            "i8-qall (qkv=int8-sym-row-a8,out=float,mlp-in=float,mlp-out=float)");
  EXPECT_TRUE(every_part_has_type("qkv=w8a8,out=float"));
  EXPECT_FALSE(every_part_has_type("qkv=w8a8,out"));
}

TEST(PartSchemes, WhatIsNoPartOrTypeIsRefused) {
  for (const char* wrong : {"", "mlp", "qkv=", "qkv=w5a8", "qkv=f16", "qkv,qkv=w8a8", "qkv,,out"}) {
    EXPECT_NE(refusal(wrong), "") << wrong;
  }
  EXPECT_NE(refusal("mlp=w8a8").find("parts are qkv, out, mlp-in and mlp-out"), std::string::npos);
  EXPECT_NE(refusal("qkv", "quarot-rtn-w4g32").find("'rotate'"), std::string::npos);
  EXPECT_EQ(refusal("qkv,out,mlp-in,mlp-out", "quarot-rtn-w4g32"), "");
  EXPECT_NE(refusal("qkv", "rtn-w4g32@3.5").find("target"), std::string::npos);
  EXPECT_THROW((void)find_recipe("qbest"), core::Error);
}

TEST(PartSchemes, RecipeFilesNameThemToo) {
  const io::TemporaryFolder folder;
  const Recipe recipe =
      find_recipe(folder
                      .write("parts.json", R"({"scheme": "int4-sym-row-a4", "passes": ["rtn"],
                                   "parts": {"qkv": "w8a8", "mlp-in": "int4-sym-g128-a8"}})")
                      .string());
  ASSERT_TRUE(recipe.parts.has_value());
  EXPECT_EQ(models::to_string(*recipe.parts),
            "qkv=int8-sym-row-a8,out=float,mlp-in=int4-sym-g128-a8,mlp-out=float");
  EXPECT_EQ(to_json(recipe)["parts"], models::to_string(*recipe.parts));
}

// By their place in the block: names of families differ. What each part holds, in each family.
class PartsOfFamilies : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<models::Model> model_ = family(GetParam());
};

TEST_P(PartsOfFamilies, EveryLayerHasTheSchemeOfItsPart) {
  const auto schemes = layer_schemes(
      model_->network, parts("qkv=w8a8,out=w4a8,mlp-in=w4a4,mlp-out=int8-sym-g32-a8"));
  const auto expect = [&](const ops::LinearSet& set, const char* scheme) {
    for (const ops::Linear& part : set.parts) {
      EXPECT_EQ(formats::to_string(schemes.at(part.name)), scheme) << part.name;
    }
  };
  for (const models::Block* block : models::all_blocks(model_->network)) {
    expect(block->attention.qkv, "int8-sym-row-a8");
    expect(block->attention.out, "int4-sym-row-a8");
    if (block->cross) {
      expect(block->cross->q, "int8-sym-row-a8");
      expect(block->cross->kv, "int8-sym-row-a8");
      expect(block->cross->out, "int4-sym-row-a8");
    }
    std::vector<models::Mlp> mlps = block->experts;
    if (block->mlp) {
      mlps.push_back(*block->mlp);
    }
    ASSERT_FALSE(mlps.empty());
    for (const models::Mlp& mlp : mlps) {
      expect(mlp.up, "int4-sym-row-a4");
      expect(mlp.down, "int8-sym-g32-a8");
    }
    if (block->router) {
      EXPECT_FALSE(schemes.contains(block->router->parts.front().name));
    }
  }
}

TEST_P(PartsOfFamilies, PartsThatStayHoldTheVeryWeights) {
  const auto made =
      quantize_in_memory(*model_, parts("out=w4a4,mlp-out=w8a8"), {}, core::silent_progress())
          .model;
  const auto before = models::all_blocks(model_->network);
  const auto after = models::all_blocks(made->network);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto old_sets = models::linear_sets(*before[i]);
    const auto new_sets = models::linear_sets(*after[i]);
    for (std::size_t s = 0; s < old_sets.size(); ++s) {
      const auto part = models::part_of(*before[i], *old_sets[s]);
      const bool rounded = part == models::LayerPart::kOut || part == models::LayerPart::kMlpOut;
      EXPECT_EQ(formats::is_dense(new_sets[s]->parts[0].weight.scheme), !rounded);
      if (!rounded) {
        EXPECT_EQ(new_sets[s]->parts[0].weight.dense.raw(),
                  old_sets[s]->parts[0].weight.dense.raw());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PartsOfFamilies,
                         testing::Values("bert", "bart", "gpt2", "opt", "llama", "mixtral", "phi3"),
                         [](const auto& parameter) { return std::string(parameter.param); });

// Stored and opened again, all off is the float model, bit for bit; one part is not.
TEST(PartSchemes, AllOffIsTheFloatPath) {
  const io::TemporaryFolder scratch;
  for (const char* name : {"llama", "gpt2", "opt"}) {
    const auto model = family(name);
    const std::vector<float> plain = prepared_logits(model->network);
    for (const auto& [text, same] : {std::pair("qkv=float", true), std::pair("out=w8a8", false)}) {
      const fs::path folder = scratch / "out";
      quantize_model(*model, parts(text), folder, {}, false, core::silent_progress());
      const auto stored = models::open_model(folder);
      EXPECT_EQ(prepared_logits(stored->network) == plain, same) << name << " " << text;
      EXPECT_EQ(stored->compression.schemes.empty(), same);
      fs::remove_all(folder);
    }
  }
}

// Passes that scale inputs, or choose by measured ones, leave the parts that stay alone.
TEST(PartSchemes, OtherPassesLeaveThemToo) {
  const auto model = family("llama");
  const PipelineOptions options = small_job(2, 32, 1);
  for (const char* recipe : {"smoothquant-w8a8", "gptq-w4g32", "awq-w4g32"}) {
    const auto made =
        quantize_in_memory(*model, parts("qkv,mlp-in", recipe), options, core::silent_progress())
            .model;
    const models::Block& block = made->network.decoder.blocks[1];
    const models::Block& original = model->network.decoder.blocks[1];
    EXPECT_FALSE(formats::is_dense(block.attention.qkv.parts[0].weight.scheme));
    EXPECT_EQ(block.attention.out.parts[0].weight.dense.raw(),
              original.attention.out.parts[0].weight.dense.raw());
    EXPECT_EQ(block.mlp->down.parts[0].weight.dense.raw(),
              original.mlp->down.parts[0].weight.dense.raw());
  }
}

}  // namespace
}  // namespace nibble::compress
