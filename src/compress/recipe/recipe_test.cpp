#include "compress/recipe/recipe.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.h"
#include "core/json.h"
#include "formats/gguf_types.h"

namespace nibble::compress {
namespace {

std::string steps_of(const std::string& name) {
  std::string text;
  for (const RecipeStep& step : find_recipe(name).steps) {
    text += text.empty() ? step.pass : " " + step.pass;
  }
  return text;
}

// The message of the refusal, or "" when the recipe is taken.
std::string refusal(const std::string& json) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("nibble_recipe_" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << json;
  std::string message;
  try {
    (void)find_recipe(path.string());
  } catch (const core::Error& error) {
    message = error.what();
  }
  std::filesystem::remove(path);
  return message;
}

std::string refusal(const std::string& scheme, const std::string& passes) {
  return refusal(R"({"scheme": ")" + scheme + R"(", "passes": [)" + passes + "]}");
}

TEST(Recipes, PresetsReadAsTheirNamesSay) {
  const auto scheme = [](const char* name) { return formats::to_string(find_recipe(name).scheme); };
  EXPECT_EQ(scheme("rtn-w4g128"), "int4-asym-g128");
  EXPECT_EQ(scheme("rtn-w4"), "int4-asym-g128");
  EXPECT_EQ(scheme("gptq-w3g32-sym"), "int3-sym-g32");
  EXPECT_EQ(scheme("rtn-w8tensor"), "int8-sym-tensor");
  EXPECT_EQ(scheme("rtn-w4tensor-sym-a8"), "int4-sym-tensor-a8");
  EXPECT_EQ(scheme("rtn-w8row"), "int8-asym-row");
  EXPECT_EQ(scheme("w8a8"), "int8-sym-row-a8");
  EXPECT_EQ(scheme("nf4g64"), "lut4-nf4-g64");
  EXPECT_EQ(scheme("fp4g128"), "lut4-fp4-g128");
  EXPECT_EQ(scheme("mxfp4"), "mxfp4");
  EXPECT_EQ(scheme("nvfp4"), "nvfp4");
  EXPECT_EQ(scheme("f16"), "f16");
  EXPECT_EQ(scheme("awq-w4g64-sym"), "int4-sym-g64");
  EXPECT_EQ(find_recipe("awq-gptq-w4").steps.back().pass, "gptq");
  EXPECT_EQ(scheme("best4"), "lut4-matrix-g32-s7");
  EXPECT_EQ(scheme("best4g64"), "lut4-matrix-g64-s7");
  EXPECT_EQ(steps_of("best4"), "awq asymmetric any4 gptq refine");
  EXPECT_TRUE(find_recipe("best4").true_sequential);
  EXPECT_EQ(scheme("smoothquant-w8a8"), "int8-sym-row-a8");
  EXPECT_EQ(scheme("fp8"), "fp8-row");
  EXPECT_EQ(scheme("fp8-w8a8"), "fp8-row-afp8");
  EXPECT_EQ(scheme("fp8-tensor-w8a8-gptq"), "fp8-tensor-afp8");
  EXPECT_EQ(steps_of("fp8"), "rtn");
  EXPECT_EQ(steps_of("fp8-gptq"), "gptq");
  EXPECT_EQ(steps_of("smoothquant-fp8-w8a8"), "smoothquant rtn");
  EXPECT_EQ(scheme("rtn-w4g128-sym-a4"), "int4-sym-g128-a4");
  EXPECT_EQ(scheme("gptq-w4g64-a4g32c0.9-asym-search"), "int4-asym-g64-a4g32c0.9-asym");
  for (const std::string& name : recipe_names()) {
    EXPECT_EQ(find_recipe(name).name, name);
  }
  for (const char* wrong :
       {"", "best4x", "best4row", "quarot-best4", "awq-w5", "rtn-w5g128", "rtn-w4g0", "rtn-w4g128x",
        "nf4x", "gptq-w4g-1", "rtn-w4g128-a5", "rtn-"}) {
    EXPECT_THROW((void)find_recipe(wrong), core::Error) << wrong;
  }
}

TEST(Recipes, AHadamardNeedsItsPassAndThePassAHadamard) {
  EXPECT_EQ(steps_of("gptq-w4g128-sym-a4-h128-search"), "hadamard search gptq");
  EXPECT_EQ(formats::to_string(find_recipe("rtn-w4g64-hrow").scheme), "int4-asym-g64-hrow");
  EXPECT_NE(refusal("int4-sym-g32-h32", R"("rtn")").find("add the pass 'hadamard'"),
            std::string::npos);
  EXPECT_NE(refusal("int4-sym-g32", R"("hadamard", "rtn")").find("has none"), std::string::npos);
  EXPECT_NE(refusal("int4-sym-g32-a4-h32", R"("hadamard", "smoothquant", "rtn")")
                .find("must come before 'hadamard'"),
            std::string::npos);
  EXPECT_EQ(refusal("int4-sym-g32-a4-h32", R"("smoothquant", "hadamard", "rtn")"), "");
  EXPECT_NE(refusal("int4-sym-g32-h32", R"("awq", "hadamard", "rtn")"), "");
}

TEST(Recipes, PassesThatFitScalesServeNoE4m3Numbers) {
  EXPECT_EQ(refusal("fp8-row", R"("rtn")"), "");
  EXPECT_EQ(refusal("fp8-tensor-afp8", R"("gptq")"), "");
  for (const char* passes : {R"("search", "rtn")", R"("rtn", "refine")"}) {
    EXPECT_NE(refusal("fp8-row", passes).find("gains nothing for the E4M3 numbers"),
              std::string::npos)
        << passes;
  }
}

TEST(Recipes, BlocksOfGgufAreRoundedToByPassesThatKnowTheirScales) {
  for (const std::string scheme :
       {"int4-min-g32", "int4-min-g32-s8", "int6-sym-g16-s8", "lut4-iq4-g32-s8"}) {
    EXPECT_EQ(refusal(scheme, R"("awq", "search", "gptq")"), "");
    for (const std::string passes : {R"("rtn", "refine")", R"("wanda", "rtn")"}) {
      const std::string message = refusal(scheme, passes);
      EXPECT_NE(message.find("is not built for " + scheme), std::string::npos) << message;
    }
  }
  EXPECT_NE(refusal("lut4-iq4-g32-s8", R"("any4", "rtn")"), "");
  for (const std::string scheme : {"int5-sym-g32", "lut4-iq4-g32"}) {
    EXPECT_EQ(refusal(scheme, R"("awq", "search", "gptq", "refine")"), "") << scheme;
  }
  EXPECT_EQ(formats::to_string(find_recipe("q4_k-gptq-search").scheme), "int4-min-g32-s8");
  EXPECT_EQ(steps_of("q4_k-gptq-search"), "search gptq");
  EXPECT_EQ(steps_of("q6_k"), "rtn");
  for (const formats::RoundedType& type : formats::rounded_types()) {
    EXPECT_EQ(find_recipe(type.word).scheme, type.scheme) << type.word;
    EXPECT_EQ(steps_of(type.word + "-gptq-search"), "search gptq") << type.word;
  }
}

TEST(Recipes, ATailNeedsAnOrderAndPassesThatServeIt) {
  EXPECT_EQ(steps_of("atom-w4a4"), "atom-reorder search gptq");
  EXPECT_EQ(steps_of("atom-fp4"), "atom-reorder search gptq");
  EXPECT_EQ(steps_of("atom-rot-fp4"), "atom-reorder hadamard search gptq");
  EXPECT_EQ(steps_of("atom-rot-w4a4"), "atom-reorder hadamard search gptq");
  EXPECT_EQ(formats::to_string(find_recipe("atom-w3a3").scheme), "int3-sym-g128-a3g128c0.9");
  EXPECT_EQ(formats::to_string(find_recipe("atom-fp4").scheme), "lut4-fp4-g128-afp4g128");
  EXPECT_NE(refusal("int4-sym-g32-a4-tail16", R"("gptq")").find("add the pass 'atom-reorder'"),
            std::string::npos);
  EXPECT_NE(refusal("int4-sym-g32", R"("atom-reorder", "gptq")").find("rounded, all of them"),
            std::string::npos);
  EXPECT_NE(refusal("lut4-row-g64-a4", R"("atom-reorder", "any4", "gptq")"), "");
  EXPECT_NE(refusal("int4-sym-g32-a4", R"("atom-reorder", "gptq", "refine")")
                .find("'refine' cannot serve"),
            std::string::npos);
  EXPECT_NE(refusal("int4-sym-g32-a4", R"("atom-reorder", "smoothquant", "rtn")")
                .find("must come before 'atom-reorder'"),
            std::string::npos);
  EXPECT_NE(refusal("int4-sym-g32-a4-h32", R"("hadamard", "atom-reorder", "rtn")"), "");
  EXPECT_EQ(refusal("int4-sym-g32-a4", R"("smoothquant", "atom-reorder", "rtn")"), "");
}

TEST(Recipes, SuffixesAddPasses) {
  EXPECT_EQ(steps_of("rtn-w4g128"), "rtn");
  EXPECT_EQ(steps_of("rtn-w4g128-search"), "search rtn");
  EXPECT_EQ(steps_of("rtn-w4g128-sym-search-refine"), "search rtn refine");
  EXPECT_EQ(steps_of("gptq-w3-search-refine"), "search gptq refine");
  EXPECT_EQ(steps_of("nf4g64-search"), "search rtn");
  EXPECT_EQ(steps_of("mxfp4-gptq-search-refine"), "search gptq refine");
  EXPECT_EQ(steps_of("nvfp4-gptq"), "gptq");
  EXPECT_EQ(steps_of("any4"), "any4 rtn");
  EXPECT_EQ(steps_of("any4g64-gptq-refine"), "any4 gptq refine");
  EXPECT_EQ(formats::to_string(find_recipe("any4").scheme), "lut4-row-g128");
  EXPECT_EQ(formats::to_string(find_recipe("any4row-gptq").scheme), "lut4-row-row");
  EXPECT_EQ(formats::to_string(find_recipe("any3").scheme), "lut3-row-g128");
  EXPECT_EQ(formats::to_string(find_recipe("any2g64").scheme), "lut2-row-g64");
  EXPECT_EQ(steps_of("any3g64-gptq-refine"), "any4 gptq refine");
  EXPECT_EQ(steps_of("wanda24"), "wanda rtn");
  EXPECT_EQ(formats::to_string(find_recipe("wanda24").scheme), "f16");
  EXPECT_EQ(steps_of("wanda24-bf16"), "wanda rtn");
  EXPECT_EQ(steps_of("sparsegpt24-gptq-w4g64-sym-search-refine"), "sparsegpt search gptq refine");
  EXPECT_EQ(steps_of("sparsegpt24-nf4g64-gptq"), "sparsegpt gptq");
  EXPECT_EQ(steps_of("wanda24-awq-w4g128"), "awq wanda rtn");
  EXPECT_EQ(formats::to_string(find_recipe("sparsegpt24-gptq-w4g64-sym").scheme), "int4-sym-g64");
  EXPECT_EQ(find_recipe("sparsegpt24").steps.front().options->at("pattern"), "2:4");
  EXPECT_EQ(steps_of("sparsegpt-2of4-w4g128"), "sparsegpt gptq");
  EXPECT_EQ(steps_of("wanda-2of4-rtn-w4g32-sym"), "wanda rtn");
  EXPECT_EQ(steps_of("wanda-2of4-f16"), "wanda rtn");
  EXPECT_EQ(steps_of("sparsegpt-2of4-w8a8-refine"), "sparsegpt gptq refine");
  EXPECT_EQ(find_recipe("wanda-2of4-bf16").steps.front().options->at("pattern"), "2:4");
  for (const auto& [name, scheme] : {std::pair("sparsegpt-2of4-f16", "f16-2of4"),
                                     std::pair("wanda-2of4-w4g128", "int4-asym-g128-2of4"),
                                     std::pair("wanda-2of4-rtn-w4g32-sym", "int4-sym-g32-2of4"),
                                     std::pair("sparsegpt-2of4-w8a8", "int8-sym-row-2of4-a8"),
                                     std::pair("wanda-2of4-w4row-a8", "int4-asym-row-2of4-a8")}) {
    EXPECT_EQ(formats::to_string(find_recipe(name).scheme), scheme) << name;
  }
  for (const char* wrong :
       {"wanda-2of4", "wanda-2of4-", "gptq-2of4-w4g128", "wanda-2of4-w3g128", "wanda-2of4-w4g16",
        "wanda-2of4-nf4", "wanda-2of4-f16-refine", "wanda-2of4-rtn-f16", "wanda-2of4-f32",
        "sparsegpt-2of4-quarot-w4g128"}) {
    EXPECT_THROW(find_recipe(wrong), core::Error) << wrong;
  }
  EXPECT_EQ(find_recipe("magnitude14").steps.front().options->at("pattern"), "1:4");
  EXPECT_EQ(find_recipe("wanda816-nf4g64").steps.front().options->at("pattern"), "8:16");
  EXPECT_EQ(find_recipe("wanda-s30").steps.front().options->at("sparsity"), 0.3);
  EXPECT_EQ(steps_of("magnitude-s50-gptq-w4g128"), "magnitude gptq");
  EXPECT_EQ(steps_of("wanda24-any4g128-gptq-refine"), "wanda any4 gptq refine");
  EXPECT_EQ(steps_of("sparsegpt48-best4"), "awq asymmetric sparsegpt any4 gptq refine");
  EXPECT_TRUE(find_recipe("sparsegpt48-best4").true_sequential);
  EXPECT_EQ(steps_of("gqsa-w4s50"), "gqsa gptq");
  EXPECT_EQ(steps_of("gqsa-w8s30-refine"), "gqsa gptq refine");
  EXPECT_EQ(formats::to_string(find_recipe("gqsa-w4s20").scheme), "int4-asym-g16-bsr");
  EXPECT_EQ(formats::to_string(find_recipe("gqsa-w8a8g32s40").scheme), "int8-asym-g32-bsr-a8");
  EXPECT_EQ(find_recipe("gqsa-w4s20").steps.front().options->at("sparsity"), 0.2);
  EXPECT_FALSE(find_recipe("gqsa-w4s20").steps.front().options->contains("balance"));
  EXPECT_EQ(find_recipe("gqsa-w4s20-matrix").steps.front().options->at("balance"), "matrix");
  EXPECT_EQ(formats::to_string(find_recipe("gqsa-w4s20-t16").scheme), "int4-asym-g16-bsr-t16");
  EXPECT_EQ(formats::to_string(find_recipe("gqsa-w4a8g32s50-t16-matrix-refine").scheme),
            "int4-asym-g32-bsr-t16-a8");
  EXPECT_EQ(steps_of("gqsa-w4s50-s7"), "gqsa gptq");
  EXPECT_EQ(formats::to_string(find_recipe("gqsa-w4s50-s7").scheme), "int4-asym-g16-s7-bsr");
  EXPECT_EQ(formats::to_string(find_recipe("gqsa-w4s50-s7-t16").scheme),
            "int4-asym-g16-s7-bsr-t16");
  EXPECT_EQ(steps_of("gqsa-f16s30"), "gqsa rtn");
  EXPECT_EQ(find_recipe("gqsa-f16s30").steps.front().options->at("sparsity"), 0.3);
  EXPECT_EQ(formats::to_string(find_recipe("gqsa-f16s30").scheme), "f16-g16-bsr");
  EXPECT_EQ(formats::to_string(find_recipe("gqsa-f16g8s30-matrix").scheme), "f16-g8-bsr");
  EXPECT_EQ(find_recipe("gqsa-f16s30-matrix").steps.front().options->at("balance"), "matrix");
  EXPECT_EQ(steps_of("gqsa-any4s50"), "gqsa any4 gptq");
  EXPECT_EQ(steps_of("gqsa-any3s20-refine"), "gqsa any4 gptq refine");
  EXPECT_EQ(formats::to_string(find_recipe("gqsa-any4s50").scheme), "lut4-row-g16-bsr");
  EXPECT_EQ(formats::to_string(find_recipe("gqsa-any2a8g32s40").scheme), "lut2-row-g32-bsr-a8");
  EXPECT_EQ(find_recipe("gqsa-any4s20-matrix").steps.front().options->at("balance"), "matrix");
  for (const char* wrong : {"gqsa",
                            "gqsa-w4",
                            "gqsa-w4s",
                            "gqsa-w4s0",
                            "gqsa-w4s96",
                            "gqsa-w4s50x",
                            "gqsa-w5s50",
                            "gqsa-w4g128s50",
                            "gqsa-w4s50-refine-matrix",
                            "gqsa-w4s50-matrix-t16",
                            "gqsa-w4s50-t8",
                            "gqsa-w4s50-t16-s7",
                            "gqsa-any4s50-t16",
                            "gqsa-any4s50-s7",
                            "gqsa-any4g7s50",
                            "gqsa-any5s50",
                            "gqsa-anys50",
                            "gqsa-any4",
                            "gqsa-f16s50-s7",
                            "gqsa-f16",
                            "gqsa-f16s0",
                            "gqsa-f16s96",
                            "gqsa-f32s50",
                            "gqsa-bf16s50",
                            "gqsa-f16g128s50",
                            "gqsa-f16s50-matrix-refine",
                            "quarot-gqsa-f16s50",
                            "quarot-gqsa-w4s50"}) {
    EXPECT_THROW((void)find_recipe(wrong), core::Error) << wrong;
  }
  EXPECT_EQ(steps_of("shortgpt2"), "shortgpt rtn");
  EXPECT_EQ(find_recipe("shortgpt12-best4").steps.front().options->at("blocks"), 12);
  EXPECT_EQ(steps_of("shortgpt1-quarot-wanda24-gptq-w4g128"), "shortgpt rotate wanda gptq");
  EXPECT_EQ(steps_of("shortgpt1-gqsa-w4s20"), "shortgpt gqsa gptq");
  for (const char* wrong : {"shortgpt", "shortgpt-", "shortgpt2-", "shortgpt0", "shortgptx",
                            "shortgpt2x", "shortgpt1-shortgpt1", "quarot-shortgpt1-f16"}) {
    EXPECT_THROW((void)find_recipe(wrong), core::Error) << wrong;
  }
  EXPECT_EQ(steps_of("quarot-rtn-w4g128"), "rotate rtn");
  EXPECT_EQ(steps_of("quarot-awq-gptq-w3g64-sym-search"), "rotate awq search gptq");
  EXPECT_EQ(steps_of("quarot-wanda24-nf4g64"), "rotate wanda rtn");
  EXPECT_EQ(formats::to_string(find_recipe("quarot-gptq-w4g64-sym").scheme), "int4-sym-g64");
  EXPECT_EQ(steps_of("quarot-rtn-w4g128-sym-a4-h128"), "rotate hadamard rtn");
  EXPECT_EQ(steps_of("quarot-atom-w4a4"), "rotate atom-reorder search gptq");
  EXPECT_EQ(steps_of("quarot-w4a4"), "rotate hadamard search gptq");
  for (const char* wrong : {"quarot", "quarot-", "quarot-quarot-f16", "wanda24-quarot-f16"}) {
    EXPECT_THROW((void)find_recipe(wrong), core::Error) << wrong;
  }
  for (const char* wrong :
       {"wanda", "wanda24-", "wanda24x", "wanda24-wanda24", "wanda42", "wanda35", "wanda-24",
        "wandas50", "wanda-s0", "wanda-s100", "wanda-s50x", "magnitude", "wanda24-gqsa-w4s50",
        "wanda24-trellis4", "wanda24-atom-w4a4", "sparsegpt24-refine", "wanda24-f16-search"}) {
    EXPECT_THROW((void)find_recipe(wrong), core::Error) << wrong;
  }
  for (const char* wrong :
       {"any4-search", "f16-search", "bf16-refine", "gptq-w4-gptq", "rtn-w4-refine-search", "any4x",
        "any5", "any3-search", "search", "-search", "-gptq"}) {
    EXPECT_THROW((void)find_recipe(wrong), core::Error) << wrong;
  }
}

TEST(Recipes, CombinationsWithoutSenseAreRefusedWithTheReason) {
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  expect(refusal("int4-asym-g128", R"("search")"), "no pass that rounds");
  expect(refusal("int4-asym-g128", R"("refine")"), "exactly one pass that rounds");
  expect(refusal("int4-asym-g128", R"("rtn", "gptq")"), "exactly one pass that rounds");
  expect(refusal("int4-asym-g128", R"("gptq", "search")"), "comes too late");
  expect(refusal("int4-asym-g128", R"("gptq", "refine", "rtn")"), "comes too late");
  expect(refusal("int4-asym-g128", R"("search", "search", "rtn")"), "throw away");
  expect(refusal("int4-asym-g128", R"("any4", "rtn")"), "stores none");
  expect(refusal("lut4-row-g128", R"("rtn")"), "begin with the pass any4");
  expect(refusal("lut4-row-g128", R"("search", "rtn")"), "any4");
  expect(refusal("int4-asym-g128", R"("rotate", "rotate", "rtn")"), "already turned");
  expect(refusal("int4-asym-g128", R"("awq", "rotate", "rtn")"), "comes too late");
  expect(refusal("int4-asym-g128", R"("rotate", "shortgpt", "rtn")"), "comes too late");
  expect(refusal("int4-asym-g128", R"("shortgpt", "shortgpt", "rtn")"), "removes all blocks");
  expect(refusal("f16", R"("rtn", "refine")"), "fewer than 16 bits");
  expect(refusal("int4-asym-g128", R"({"pass": "search", "steps": 1.5}, "rtn")"), "whole number");
  expect(refusal("lut4-row-g128", R"({"pass": "any4", "weights": "other"}, "rtn")"),
         "must be one of exact, root");
  expect(refusal("lut4-row-g128", R"("any4", "rtn", {"pass": "wanda", "after_rounding": true})"),
         "no exact 0");
  EXPECT_EQ(refusal("lut4-row-g128", R"("wanda", "any4", "rtn")"), "");
  expect(refusal("int4-asym-g128", R"("wanda", "sparsegpt", "rtn")"), "already pruned");
  expect(refusal("int4-asym-g128", R"("rtn", "wanda")"), "comes too late");
  expect(refusal("int4-asym-g128", R"("wanda", "awq", "rtn")"), "comes too late");
  expect(refusal("int4-asym-g128", R"({"pass": "wanda", "after_rounding": true}, "rtn")"),
         "exactly one pass that rounds");
  expect(refusal("f16", R"("rtn", {"pass": "wanda", "after_rounding": true})"),
         "fewer than 16 bits");
  expect(refusal("f16", R"("wanda", "gptq")"), "fewer than 16 bits");
  expect(refusal("f16", R"("wanda")"), "no pass that rounds");
  for (const char* pattern : {"3:2", "2:2", "0:4", "2:6", "2:32", "2-4", "2:4:8", "half", ":4"}) {
    expect(refusal("f16", fmt::format(R"({{"pass": "wanda", "pattern": "{}"}}, "rtn")", pattern)),
           "is not built");
  }
  expect(refusal("f16", R"({"pass": "magnitude", "pattern": 2}, "rtn")"), "must be a text");
  expect(refusal("f16", R"({"pass": "wanda", "pattern": "2:4", "sparsity": 0.5}, "rtn")"),
         "leave out the option 'sparsity'");
  EXPECT_EQ(refusal("f32", R"({"pass": "sparsegpt", "sparsity": 0.6}, "rtn")"), "");
  EXPECT_EQ(
      refusal("int4-asym-g64", R"("gptq", {"pass": "wanda", "after_rounding": true}, "refine")"),
      "");
  EXPECT_EQ(refusal("lut4-matrix-g128",
                    R"({"pass": "any4", "weights": "root", "rounds": 1}, "gptq", "refine")"),
            "");
  EXPECT_EQ(refusal("int3-sym-g64", R"("search", "gptq", {"pass": "refine", "scales": false})"),
            "");
}

TEST(Recipes, RowsOfFloatsComeWithPruningAlone) {
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  EXPECT_EQ(refusal("f16-g16-bsr", R"("gqsa", "rtn")"), "");
  EXPECT_EQ(refusal("f16-g16-bsr", R"("magnitude", "rtn")"), "");
  expect(refusal("f16-g16-bsr", R"("gqsa", "gptq")"), "'gptq' needs a scheme with fewer than 16");
  expect(refusal("f16-g16-bsr", R"("gqsa", "rtn", "refine")"), "'refine' needs a scheme with");
  expect(refusal("f16-g16-bsr", R"("awq", "gqsa", "rtn")"), "'awq' needs a scheme with fewer");
  expect(refusal("f16", R"("gqsa", "rtn")"),
         "'gqsa' needs a scheme with fewer than 16 bits, or block-sparse rows");
  EXPECT_EQ(refusal(R"({"scheme": "f16", "passes": ["gqsa", "rtn"],
                        "layers": [{"match": "*.down_proj", "scheme": "f16-g16-bsr"}]})"),
            "");
  const auto why = [](const char* name) -> std::string {
    try {
      (void)find_recipe(name);
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
      return error.what();
    }
    return "";
  };
  expect(why("gqsa-f16a8s50"),
         "recipe 'gqsa-f16a8s50': f16-g16-bsr-a8: block-sparse rows of floats");
  expect(why("gqsa-f16s50-t16"), "each row with groups of its own");
  expect(why("gqsa-f16g128s50"), "groups of 8, 16, 32 or 64 inputs");
  expect(why("gqsa-f16s50-refine"), "pass 'refine' needs a scheme with fewer than 16 bits");
  expect(why("gqsa-f16s50@6"), "targets are not built for block-sparse rows");
}

TEST(Recipes, AwqScalesForBooksToComeButCannotClip) {
  EXPECT_EQ(refusal("lut4-row-g64", R"({"pass": "awq", "clip": false}, "any4", "rtn")"), "");
  EXPECT_EQ(refusal("lut3-row-g64", R"({"pass": "awq", "clip": false}, "any4", "rtn")"), "");
  EXPECT_NE(refusal("lut4-row-g64", R"("awq", "any4", "rtn")").find("\"clip\": false"),
            std::string::npos);
}

TEST(Recipes, TrueSequentialIsRead) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("nibble_sequential_" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << R"({"scheme": "int4-asym-g64", "true_sequential": true,
                             "passes": ["asymmetric", "gptq"]})";
  const Recipe recipe = find_recipe(path.string());
  std::filesystem::remove(path);
  EXPECT_TRUE(recipe.true_sequential);
  EXPECT_EQ(to_json(recipe)["true_sequential"], true);
  EXPECT_FALSE(to_json(find_recipe("gptq-w4")).contains("true_sequential"));
  EXPECT_NE(refusal(R"({"scheme": "int4-asym-g64", "true_sequential": 1, "passes": ["rtn"]})")
                .find("true or false"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"scheme": "int4-sym-g64-a4-h64", "true_sequential": true,
                        "passes": ["hadamard", "gptq"]})")
                .find("measured once"),
            std::string::npos);
  EXPECT_NE(
      refusal("int4-sym-g64-a4-h64", R"("hadamard", "asymmetric", "gptq")").find("measured once"),
      std::string::npos);
}

}  // namespace
}  // namespace nibble::compress
