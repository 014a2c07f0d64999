#include <set>

#include "cli_for_tests.h"

// `nibble quantize --for`: what other programs get is what this one computes with.
namespace nibble {
namespace {

class QuantizeForCommand : public Cli {
 protected:
  std::vector<std::string> words(const std::string& target, const std::string& output,
                                 const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"quantize", kDemo,       "-o",      path(output), "--for",
                                    target,     "-q",        "--calib", kText,        "--samples",
                                    "2",        "--seq-len", "64"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  double loss(const std::string& model) {
    return json({"eval", model, "--text", kText, "--seq-len", "64", "--max-tokens", "128",
                 "--activations", "float", "-q"})["nll"]
        .get<double>();
  }

  void expect_nothing_else(const std::string& output) {
    for (const auto& entry : fs::directory_iterator(path("."))) {
      EXPECT_EQ(entry.path().filename().string().find("." + output), std::string::npos)
          << entry.path();
    }
  }
};

TEST_F(QuantizeForCommand, WritesWhatTheRecipeMakes) {
  const std::string own = path("own");
  ASSERT_EQ(nibble({"quantize", kDemo, "-q", "-o", own, "--recipe", "rtn-w4g32-sym"}).exit_code, 0);
  const double expected = loss(own);
  for (const std::string target : {"vllm", "llama.cpp", "transformers", "mlx"}) {
    SCOPED_TRACE(target);
    const std::string output = target == "llama.cpp" ? "out.gguf" : "out-" + target;
    const Json made = json(words(target, output, {"--recipe", "rtn-w4g32-sym"}));
    EXPECT_EQ(made["for"], target);
    EXPECT_EQ(made["recipe"], "rtn-w4g32-sym");
    EXPECT_EQ(made["exact_layers"], made["layers"].size());
    EXPECT_EQ(made["relative_error"], 0.0);
    EXPECT_NE(made["run"].get<std::string>().find(path(output)), std::string::npos);
    EXPECT_NEAR(loss(path(output)), expected, 1e-6);
    expect_nothing_else(output);
  }
}

TEST_F(QuantizeForCommand, EachProgramHasARecipe) {
  const ProcessResult made = nibble(words("llama.cpp", "out.gguf"));
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_NE(made.out.find("q4_k-gptq-search"), std::string::npos) << made.out;
  EXPECT_NE(made.out.find("4.500 bits per weight"), std::string::npos) << made.out;
  EXPECT_NE(made.out.find("run it: llama-cli -m"), std::string::npos) << made.out;
  const Json mlx = json(words("mlx", "mlx"));
  EXPECT_EQ(mlx["recipe"], "gptq-w4g64");
  EXPECT_LT(mlx["relative_error"].get<double>(), 1e-3);  // biases in float16
}

TEST_F(QuantizeForCommand, MixesTheTypesOfLlamaCpp) {
  const Json made = json(words("llama.cpp", "mix.gguf", {"--target-bits", "6"}));
  const double bits = made["bits_per_weight"].get<double>();
  EXPECT_LE(bits, 6.0);
  EXPECT_GT(bits, 5.5);
  std::set<std::string> types;
  for (const Json& layer : made["layers"]) {
    types.insert(layer["to"].get<std::string>());
    EXPECT_EQ(layer["exact"], true);
  }
  EXPECT_GE(types.size(), 2u);
  EXPECT_TRUE(types.contains("Q5_K") || types.contains("Q6_K"));
  EXPECT_GT(loss(path("mix.gguf")), 0.0);
}

TEST_F(QuantizeForCommand, RefusesBeforeAnyWork) {
  fails(words("vllm", "x", {"--recipe", "nf4g64"}), 2, "rtn-w4g64-sym");
  fails(words("vllm", "x", {"--target-bits", "6"}), 2, "one scheme for all layers");
  fails(words("tensorrt", "x"), 2, "llama.cpp");
  EXPECT_FALSE(fs::exists(path("x")));
  fs::create_directory(path("x"));
  fails(words("vllm", "x"), 5, "exists already");
  EXPECT_TRUE(fs::is_empty(path("x")));
  expect_nothing_else("x");
}

// What was quantized stays where writing it for the program fails, and --resume goes on with it.
TEST_F(QuantizeForCommand, GoesOnWithWhatWasQuantized) {
  const std::vector<std::string> recipe = {"--recipe", "rtn-w4g32-sym"};
  std::ofstream(path(".x.partial")) << "in the way";
  EXPECT_EQ(nibble(words("vllm", "x", recipe)).exit_code, 5);
  fs::remove(path(".x.partial"));
  EXPECT_TRUE(fs::exists(path(".x.quantized")));
  fails(words("vllm", "x", recipe), 2, "--resume");
  fails(words("vllm", "x", {"--recipe", "rtn-w4g64-sym", "--resume"}), 6, "another model");
  const Json made = json(words("vllm", "x", {"--recipe", "rtn-w4g32-sym", "--resume"}));
  EXPECT_EQ(made["relative_error"], 0.0);
  expect_nothing_else("x");
}

}  // namespace
}  // namespace nibble
