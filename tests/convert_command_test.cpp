#include <cmath>
#include <fstream>

#include "cli_for_tests.h"

// `nibble convert`: what it writes is opened again by this program. tests/exchange/check_exports.py
// opens it by the programs that it is for.
namespace nibble {
namespace {

const std::string kExchange = kSource + "/tests/exchange/";

class ConvertCommand : public Cli {
 protected:
  std::string quantized(const std::string& recipe) {
    const std::string folder = path(recipe);
    if (!fs::exists(folder)) {
      const ProcessResult result =
          nibble({"quantize", kDemo, "-q", "-o", folder, "--recipe", recipe});
      EXPECT_EQ(result.exit_code, 0) << result.err;
    }
    return folder;
  }

  Json convert(const std::string& model, const std::string& to, const std::string& output,
               const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"convert", model, "--to", to, "-o", path(output), "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return json(words);
  }

  double loss(const std::string& model) {
    return json({"eval", model, "--text", kText, "--seq-len", "64", "--max-tokens", "128",
                 "--activations", "float", "-q"})["nll"]
        .get<double>();
  }
};

TEST_F(ConvertCommand, ExactTargetsComputeWhatTheSourceComputes) {
  const std::string source = quantized("rtn-w4g128-sym");
  const double expected = loss(source);
  for (const std::string to : {"gptq", "awq", "compressed-tensors", "gguf", "mlx"}) {
    SCOPED_TRACE(to);
    const Json result = convert(source, to, to);
    EXPECT_EQ(result["exact_layers"], result["layers"].size());
    EXPECT_EQ(result["relative_error"], 0.0);
    EXPECT_NEAR(loss(path(to)), expected, 1e-6);
  }
  convert(source, "hf", "plain", {"--scheme", "f32"});
  EXPECT_NEAR(loss(path("plain")), expected, 1e-6);
  const Json config =
      core::parse_json(testing::read_file(path("plain") + "/config.json"), "config");
  EXPECT_FALSE(config.contains("quantization_config"));
  EXPECT_EQ(config["torch_dtype"], "float32");
}

// What is rounded to a type is in it; to another type it is decoded and rounded again.
TEST_F(ConvertCommand, RoundsToTheTypesOfGguf) {
  double last = 1;
  for (const std::string type : {"Q2_K", "MXFP4", "IQ4_NL", "Q5_1", "q6_k"}) {
    SCOPED_TRACE(type);
    const Json made = convert(kDemo, "gguf", type + ".gguf", {"--scheme", type});
    EXPECT_EQ(made["layers"][0]["to"], type == "q6_k" ? "Q6_K" : type);
    EXPECT_LT(made["relative_error"].get<double>(), 0.75 * last);
    last = made["relative_error"].get<double>();
    const Json again = convert(path(type + ".gguf"), "gguf", type + "-again.gguf");
    EXPECT_EQ(again["exact_layers"], again["layers"].size());
  }
  EXPECT_LT(last, 0.03);
  EXPECT_NEAR(loss(path("q6_k.gguf")), loss(kDemo), 0.05);
  const Json down = convert(path("q6_k.gguf"), "gguf", "down.gguf", {"--scheme", "IQ4_XS"});
  EXPECT_EQ(down["layers"][0]["to"], "IQ4_XS");
  EXPECT_GT(down["relative_error"].get<double>(), 0.03);
  const ProcessResult wrong =
      nibble({"convert", kDemo, "--to", "gguf", "-o", path("x.gguf"), "--scheme", "Q7_K"});
  EXPECT_EQ(wrong.exit_code, 2);
}

TEST_F(ConvertCommand, AnyFolderBecomesAnyOther) {
  for (const std::string from : {"gptq", "awq", "ct-pack", "bnb-nf4", "mlx"}) {
    for (const std::string to : {"gptq", "awq", "compressed-tensors", "mlx", "hf"}) {
      SCOPED_TRACE(from + " to " + to);
      const std::string name = from + "-" + to;
      const Json result = convert(kExchange + from, to, name);
      EXPECT_EQ(result["layers"].size(), from == "mlx" ? 15u : 14u);  // its output layer is too
      EXPECT_LT(result["relative_error"].get<double>(), 0.13);
      const Json read = json({"inspect", path(name)});
      EXPECT_GT(read["layers"].size(), 0u);
    }
  }
}

TEST_F(ConvertCommand, AddedErrorsAreSaid) {
  const std::string source = quantized("rtn-w4g128");
  const Json awq = convert(source, "awq", "awq");
  EXPECT_EQ(awq["relative_error"], 0.0);
  const Json gptq = convert(source, "gptq", "gptq");
  EXPECT_GT(gptq["relative_error"].get<double>(), 0.005);
  EXPECT_LT(gptq["relative_error"].get<double>(), 0.05);
  EXPECT_EQ(gptq["layers"][0]["to"], "int4-sym-g128");
  const Json gguf = convert(source, "gguf", "x.gguf");
  EXPECT_EQ(gguf["layers"][0]["to"], "Q4_1");
  EXPECT_GT(gguf["relative_error"].get<double>(), 1e-5);
  EXPECT_LT(gguf["relative_error"].get<double>(), 1e-3);
  const ProcessResult text = nibble({"convert", source, "--to", "gptq", "-o", path("again"), "-q"});
  EXPECT_NE(text.out.find("added error"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("worst"), std::string::npos) << text.out;
}

TEST_F(ConvertCommand, MlxRoundsTheBiasesOfZeroPoints) {
  const std::string source = quantized("rtn-w4g128");
  const Json result = convert(source, "mlx", "mlx");
  EXPECT_EQ(result["layers"][0]["to"], "int4-asym-g128");
  EXPECT_GT(result["relative_error"].get<double>(), 1e-5);
  EXPECT_LT(result["relative_error"].get<double>(), 1e-3);
  const Json config = core::parse_json(testing::read_file(path("mlx") + "/config.json"), "config");
  EXPECT_EQ(config["quantization"], (Json{{"group_size", 128}, {"bits", 4}}));
  EXPECT_EQ(config["quantization_config"], config["quantization"]);
  EXPECT_NEAR(loss(path("mlx")), loss(source), 1e-3);
}

// The output layer and the table of embeddings are compressed too.
TEST_F(ConvertCommand, MlxFoldersBecomePlain) {
  const Json result = convert(kExchange + "mlx", "gptq", "gptq");
  EXPECT_FALSE(core::parse_json(testing::read_file(path("gptq") + "/config.json"), "config")
                   .contains("quantization"));
  const Json stored = json({"inspect", kExchange + "mlx"});
  EXPECT_EQ(stored["linear_layers"][0]["scheme"], "int4-min-g32");
  EXPECT_NE(stored.dump().find("embed_tokens is decoded"), std::string::npos);
}

// Biases move to what has minima; to what has zero points the nearest of these.
TEST_F(ConvertCommand, BiasesOfMlxMoveOrBecomeZeroPoints) {
  const Json mlx = convert(kExchange + "mlx", "mlx", "mlx");
  EXPECT_EQ(mlx["exact_layers"].get<int>() + 1, static_cast<int>(mlx["layers"].size()));
  EXPECT_NEAR(loss(path("mlx")), loss(kExchange + "mlx"), 1e-3);  // the output layer is plain there
  convert(quantized("rtn-w4g128"), "mlx", "own-mlx");
  EXPECT_EQ(json({"inspect", path("own-mlx")})["linear_layers"][0]["scheme"], "int4-min-g128");
  const Json gguf = convert(path("own-mlx"), "gguf", "mlx.gguf");
  EXPECT_EQ(gguf["layers"][0]["to"], "Q4_1");
  EXPECT_EQ(gguf["relative_error"].get<double>(), 0);
  const Json awq = convert(kExchange + "mlx", "awq", "awq");
  EXPECT_EQ(awq["layers"][0]["to"], "int4-asym-g32");
  EXPECT_GT(awq["relative_error"].get<double>(), 0);
  EXPECT_LT(awq["relative_error"].get<double>(), 2e-3);
}

TEST_F(ConvertCommand, GgufKeepsFloatModelsAndTokenizers) {
  convert(kDemo, "gguf", "demo.gguf", {"--scheme", "f32"});
  EXPECT_NEAR(loss(path("demo.gguf")), loss(kDemo), 1e-6);
  convert(path("demo.gguf"), "gguf", "again.gguf");
  EXPECT_EQ(testing::read_file(path("again.gguf")).size(),
            testing::read_file(path("demo.gguf")).size());
}

TEST_F(ConvertCommand, GgufBlocksRunAsTheyAreAndMoveOn) {
  const std::string source = quantized("rtn-w4g32-sym");
  const std::string gguf = path("q4.gguf");
  convert(source, "gguf", "q4.gguf");
  const Json read = json({"inspect", gguf});
  EXPECT_EQ(read["recipe"], "gguf Q4_0");
  EXPECT_EQ(read["linear_layers"][0]["scheme"], "int4-sym-g32");
  EXPECT_TRUE(read["not_as_stored"].empty());
  EXPECT_NEAR(loss(gguf), loss(source), 1e-6);
  for (const std::string to : {"gptq", "awq", "compressed-tensors", "gguf"}) {
    SCOPED_TRACE(to);
    const Json result = convert(gguf, to, "from-" + to);
    EXPECT_EQ(result["exact_layers"], result["layers"].size());
    EXPECT_NEAR(loss(path("from-" + to)), loss(gguf), 1e-6);
  }
  EXPECT_EQ(json({"inspect", path("from-gguf")})["linear_layers"], read["linear_layers"]);
  fails({"pack", gguf}, 2, "--packed");
  json({"pack", gguf, "-o", path("tiles"), "-q"});
  json({"eval", gguf, "--text", kText, "--seq-len", "64", "--max-tokens", "64", "--packed",
        path("tiles"), "-q"});
  const ProcessResult again =
      nibble({"quantize", gguf, "-q", "-o", path("again"), "--recipe", "rtn-w4g128"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("in Q4_0 was decoded to float32"), std::string::npos) << again.err;
}

// Frequencies that config.json scales stand in the file as divisors.
TEST_F(ConvertCommand, GgufKeepsScaledFrequencies) {
  fs::copy(kDemo, path("scaled"));
  Json config = core::parse_json(testing::read_file(path("scaled") + "/config.json"), "config");
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  std::ofstream(path("scaled") + "/config.json") << config.dump();
  convert(path("scaled"), "gguf", "scaled.gguf", {"--scheme", "f32"});
  EXPECT_GT(std::abs(loss(path("scaled")) - loss(kDemo)), 1e-3);
  EXPECT_NEAR(loss(path("scaled.gguf")), loss(path("scaled")), 1e-6);
  fails({"convert", path("scaled.gguf"), "--to", "hf", "-o", path("x"), "-q"}, 3, "frequencies");
  EXPECT_FALSE(fs::exists(path("x")));
}

TEST_F(ConvertCommand, WhatCannotBeIsRefusedWithOneLine) {
  const auto words = [&](const std::string& model, const std::string& to,
                         const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"convert", model, "--to", to, "-o", path("x"), "-q"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::string families = kSource + "/tests/families/";
  fails(words(kDemo, "gptq"), 2, "quantize it first");
  fails(words(kDemo, "awq", {"--scheme", "int3-sym-g64"}), 2, "int4-asym-g64");
  fails(words(kDemo, "hf", {"--scheme", "int4-sym-g64"}), 2, "plain numbers");
  fails(words(kDemo, "gguf", {"--scheme", "int4-sym-g64"}), 2, "Q4_0");
  fails(words(families + "gpt2", "gptq", {"--scheme", "int4-sym-g32"}), 3, "Conv1D");
  fails(words(kDemo, "onnx"), 2, "onnx");
  fails(words(families + "opt", "gguf"), 3, "opt");
  fails(words(families + "bert", "gguf"), 3, "bert");
  fails(words(families + "bert", "gptq", {"--scheme", "int4-sym-g32"}), 3, "encoder");
  fails(words(families + "gpt2", "awq", {"--scheme", "int4-asym-g32"}), 3, "Conv1D");
  fails(words(families + "mixtral", "gptq", {"--scheme", "int4-sym-g32"}), 3, "experts");
  for (const char* family : {"qwen3-moe", "phi3", "gemma", "gemma2", "gemma3-text"}) {
    fails(words(families + family, "gguf", {}), 3, "are not written as gguf");
  }
  EXPECT_FALSE(fs::exists(path("x")));
  fs::create_directory(path("x"));
  fails(words(kDemo, "hf"), 5, "exists already");
  EXPECT_TRUE(fs::is_empty(path("x")));
}

}  // namespace
}  // namespace nibble
