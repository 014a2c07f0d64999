#include "gqsa_command_for_tests.h"

// Models of which groups of float16 are pruned (gqsa-f16s50), from quantizing to refusals.
namespace nibble {
namespace {

using GqsaFloatsCommand = GqsaCommand;

TEST_F(GqsaFloatsCommand, LosesMoreTheMoreIsPruned) {
  double last = measured(kDemo)["perplexity"].get<double>();
  double bits = 16;
  for (const char* recipe : {"gqsa-f16s20", "gqsa-f16s40", "gqsa-f16s60"}) {
    const Json result = measured(pruned(recipe));
    EXPECT_GT(result["perplexity"].get<double>(), 1.02 * last) << recipe;
    EXPECT_LT(result["bits_per_weight"].get<double>(), bits - 2) << recipe;
    last = result["perplexity"].get<double>();
    bits = result["bits_per_weight"].get<double>();
    EXPECT_EQ(notes_.find("nibble tune"), std::string::npos) << notes_;  // which does not take it
  }
  EXPECT_NEAR(bits, 0.4 * (16 + 0.5) + 32.0 / 256, 0.5);
}

TEST_F(GqsaFloatsCommand, RunAsTheirPlainFolderRuns) {
  const std::string model = pruned("gqsa-f16s50");
  const Json explained = json({"explain", model, "--tokens", "1,512"});
  for (const Json& run : explained["layers"][0]["runs"]) {
    EXPECT_EQ(run["kernel"], "sparse-f16") << explained.dump();
  }
  const Json layer = json({"inspect", model, "--layer", "model.layers.2.mlp.down_proj"});
  EXPECT_EQ(layer["scheme"], "f16-g16-bsr");
  const std::vector<std::string> words = {"convert",     model, "--to",     "hf", "-o",
                                          path("plain"), "-q",  "--scheme", "f16"};
  const Json converted = json(words);
  EXPECT_EQ(converted["relative_error"], 0.0) << converted.dump();
  for (const char* activations : {"float", "int8"}) {  // the plain folder rounds its embedding
    EXPECT_NEAR(measured(model, {"--activations", activations})["nll"].get<double>(),
                measured(path("plain"), {"--activations", activations})["nll"].get<double>(), 1e-6)
        << activations;
  }
  const auto text = [&](const std::string& from) {
    return json({"run", from, "-p", "The", "-n", "8", "--temp", "0"})["token_ids"];
  };
  EXPECT_EQ(text(model), text(path("plain")));
}

TEST_F(GqsaFloatsCommand, SayWhatIsNotBuiltForThem) {
  const std::string model = pruned("gqsa-f16s50", kTiny);
  const std::string output = path("x");
  fails(tune(model, output), 2,
        "layers in f16-g16-bsr have no scales and zero points, which e2e-oqp trains; take --stage "
        "bqpo");
  for (const char* stage : {"e2e-oqp", "qat"}) {
    std::vector<std::string> words = tune(model, output);
    words.insert(words.end(), {"--stage", stage});
    EXPECT_EQ(nibble(words).exit_code, 2) << stage;
  }
  for (const char* target : {"gptq", "awq", "compressed-tensors", "mlx"}) {
    fails({"convert", model, "--to", target, "-o", output, "-q"}, 2,
          std::string(target) + " has no place for the f16-g16-bsr of layer model.layers.0.");
  }
  for (const char* target : {"vllm", "transformers", "mlx"}) {
    fails(quantize_for(target, "gqsa-f16s50", output), 2, "has no place for f16-g16-bsr");
  }
  fails(quantize("gqsa-f16a8s50", output), 2, "recipe 'gqsa-f16a8s50': f16-g16-bsr-a8: ");
  fails(quantize("gqsa-f16s50-t16", output), 2, "recipe 'gqsa-f16s50-t16': f16-g16-bsr-t16: ");
  fails(quantize("gqsa-f16s50-refine", output), 2,
        "pass 'refine' needs a scheme with fewer than 16 bits");
  fails({"run", model, "-p", "A", "--device", "cuda"}, 2, "use --device cpu");
  EXPECT_FALSE(fs::exists(output));
}

}  // namespace
}  // namespace nibble
