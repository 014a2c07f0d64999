#include "compress/export/export_target.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "compress/recipe/format_choices.h"
#include "core/error.h"
#include "formats/gguf_types.h"

namespace nibble::compress {
namespace {

const models::Model& demo() {
  static const auto model = models::open_model(NIBBLE_SOURCE_DIR "/models/demo");
  return *model;
}

std::string chosen(std::string_view target, Recipe recipe) {
  return choose_method(demo(), recipe, find_export_target(target));
}
std::string chosen(std::string_view target, std::string_view recipe) {
  return chosen(target, find_recipe(recipe));
}

std::string refusal(std::string_view target, const Recipe& recipe) {
  try {
    return "chosen: " + chosen(target, recipe);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    return error.what();
  }
}
std::string refusal(std::string_view target, std::string_view recipe) {
  return refusal(target, find_recipe(recipe));
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ExportTarget, TheirOwnRecipesAreTakenOver) {
  for (const ExportTarget& target : export_targets()) {
    EXPECT_EQ(chosen(target.name, target.recipe), target.methods.front()) << target.name;
    const std::vector<std::string> words = target.run("out");
    EXPECT_NE(std::find(words.begin(), words.end(), "out"), words.end()) << target.name;
  }
}

TEST(ExportTarget, FilesAreThoseThatHoldTheSchemeInTheFewestBits) {
  EXPECT_EQ(chosen("vllm", "gptq-w4g128"), "awq");  // has zero points
  EXPECT_EQ(chosen("vllm", "w8a8"), "compressed-tensors");
  EXPECT_EQ(chosen("vllm", "rtn-w3g128-sym"), "compressed-tensors");
  EXPECT_EQ(chosen("transformers", "rtn-w3g128-sym"), "gptq");
  EXPECT_EQ(chosen("transformers", "awq-w4g64"), "awq");
  EXPECT_EQ(chosen("llama.cpp", "rtn-w8row-sym"), "gguf");
  EXPECT_EQ(chosen("llama.cpp", "gptq-w4g32"), "gguf");  // Q4_1
  EXPECT_EQ(chosen("llama.cpp", "q6_k"), "gguf");
  EXPECT_EQ(chosen("llama.cpp", "q5_0-gptq"), "gguf");
  EXPECT_EQ(chosen("llama.cpp", "iq4_nl"), "gguf");
  EXPECT_EQ(chosen("llama.cpp", "mxfp4"), "gguf");
  EXPECT_EQ(chosen("mlx", "rtn-w3g64"), "mlx");
  EXPECT_EQ(chosen("mlx", "rtn-w8g32-sym"), "mlx");
}

TEST(ExportTarget, WhatIsNotHeldIsRefusedWithTheNearestRecipe) {
  expect_part(refusal("vllm", "gptq-w8g128"), "gptq-w8g128-sym");
  expect_part(refusal("vllm", "gptq-w4g100"), "gptq-w4g128");
  expect_part(refusal("vllm", "nf4g64"), "rtn-w4g64-sym");
  expect_part(refusal("vllm", "gptq-w3g128"), "awq");
  expect_part(refusal("llama.cpp", "awq-gptq-w4g48-sym"), "awq-gptq-w4g32-sym");
  expect_part(refusal("llama.cpp", "w8a8"), "rtn-w8g32-sym");
  expect_part(refusal("llama.cpp", "quarot-w4a4"), "gptq-w4g32-sym");
  expect_part(refusal("mlx", "gptq-w4g16"), "gptq-w4g32");
  expect_part(refusal("mlx", "best4"), "awq-gptq-w4g32");
  expect_part(refusal("vllm", "q4_k"), "rtn-w4g");
  expect_part(refusal("mlx", "f16"), "leaves all layers as they are");
  expect_part(refusal("transformers", "gptq-w4g1024-sym"), "divide");
  for (const char* target : {"vllm", "transformers", "mlx"}) {
    expect_part(refusal(target, "gqsa-f16s50"), "has no place for f16-g16-bsr");
    expect_part(refusal(target, "gqsa-any4s50"), "has no place for lut4-row-g16-bsr");
    expect_part(refusal(target, "sparsegpt-2of4-f16"), "has no place for f16-2of4");
  }
  EXPECT_EQ(chosen("llama.cpp", "gqsa-f16s50"), "gguf");  // with its zeros
}

TEST(ExportTarget, FoldersHaveOneSchemeForAllLayers) {
  Recipe recipe = find_recipe("rtn-w4g128-sym");
  recipe.layers.push_back({{"*.down_proj"}, formats::parse_scheme("int8-sym-g128")});
  expect_part(refusal("vllm", recipe), "one scheme for all layers");
  EXPECT_EQ(chosen("llama.cpp", recipe), "gguf");
  recipe.layers.front().scheme = formats::parse_scheme("bf16");
  EXPECT_EQ(chosen("vllm", recipe), "compressed-tensors");
  expect_part(refusal("vllm", with_output(recipe, formats::parse_scheme("int8-sym-g32"))),
              "output layer");
  EXPECT_EQ(chosen("llama.cpp", with_output(recipe, formats::parse_scheme("int8-sym-g32"))),
            "gguf");
}

TEST(ExportTarget, MixturesForLlamaCppAreOfItsTypes) {
  Recipe recipe = with_target(find_recipe("gptq-w4g32-sym"), {6.0, 0});
  expect_part(refusal("mlx", with_target(find_recipe("gptq-w4g64"), {6.0, 0})), "mixture");
  EXPECT_EQ(choose_method(demo(), recipe, find_export_target("llama.cpp")), "gguf");
  EXPECT_TRUE(recipe.target->in_gguf);
  std::vector<formats::Scheme> expected = format_choices(find_recipe("q4_k").scheme);
  EXPECT_EQ(expected.size(), formats::rounded_types().size());
  expected.push_back(formats::parse_scheme("bf16"));
  EXPECT_EQ(recipe.choices, expected);
  Recipe mine = with_target(find_recipe("gptq-w4g32-sym"), {6.0, 0});
  mine.choices = {formats::parse_scheme("int3-asym-g128"), formats::parse_scheme("int4-sym-g48")};
  expect_part(refusal("llama.cpp", mine), "int4-sym-g48");
}

TEST(ExportTarget, ModelsThatTheFilesHaveNoNameForAreRefused) {
  const std::string families = NIBBLE_SOURCE_DIR "/tests/families/";
  const auto refused = [&](const std::string& family, std::string_view target,
                           std::string_view recipe) {
    const auto model = models::open_model(families + family);
    Recipe wanted = find_recipe(recipe);
    EXPECT_THROW((void)choose_method(*model, wanted, find_export_target(target)), core::Error)
        << family << " for " << target;
  };
  refused("gpt2", "vllm", "rtn-w4g32-sym");
  refused("mixtral", "mlx", "rtn-w4g32");
  refused("opt", "llama.cpp", "rtn-w4g32-sym");
}

TEST(ExportTarget, NamesAreSuggested) {
  try {
    find_export_target("lama.cpp");
    FAIL();
  } catch (const core::Error& error) {
    expect_part(error.what(), "llama.cpp");
    expect_part(error.what(), "transformers");
  }
}

}  // namespace
}  // namespace nibble::compress
