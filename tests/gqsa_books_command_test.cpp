#include "gqsa_command_for_tests.h"

// Models of which groups are pruned and the others have codes of learned books (gqsa-any4s50), from
// quantizing to refusals.
namespace nibble {
namespace {

using GqsaBooksCommand = GqsaCommand;

TEST_F(GqsaBooksCommand, LosesLittleMoreThanItsIntegers) {
  const double integers = measured(pruned("gqsa-w4s50"))["perplexity"].get<double>();
  EXPECT_NE(notes_.find("nibble tune"), std::string::npos) << notes_;
  const Json books = measured(pruned("gqsa-any4s50"));
  EXPECT_EQ(notes_.find("nibble tune"), std::string::npos) << notes_;  // which does not take it
  EXPECT_LT(books["perplexity"].get<double>(), 1.03 * integers);
  const Json fewer = measured(pruned("gqsa-any2s50"));
  EXPECT_GT(fewer["perplexity"].get<double>(), 1.2 * books["perplexity"].get<double>());
  EXPECT_NEAR(books["bits_per_weight"].get<double>() - fewer["bits_per_weight"].get<double>(),
              0.5 * 2 + 12 * 16 / 300.0, 0.2);
  EXPECT_GT(measured(pruned("gqsa-any4s80"))["perplexity"].get<double>(),
            2 * books["perplexity"].get<double>());
}

TEST_F(GqsaBooksCommand, RunOnTheKernelsOfBlockSparseRows) {
  const std::string model = pruned("gqsa-any4s50");
  const Json explained = json({"explain", model, "--tokens", "1,512"});
  for (const Json& run : explained["layers"][0]["runs"]) {
    EXPECT_EQ(run["kernel"].get<std::string>().find("sparse-"), 0u) << explained.dump();
  }
  const Json layer = json({"inspect", model, "--layer", "model.layers.2.mlp.down_proj"});
  EXPECT_EQ(layer["scheme"], "lut4-row-g16-bsr");
  const double exact = measured(model, {"--activations", "float"})["nll"].get<double>();
  EXPECT_NEAR(measured(model, {"--activations", "int8"})["nll"].get<double>(), exact, 0.01);
  EXPECT_NEAR(measured(model, {"--activations", "int16"})["nll"].get<double>(), exact, 0.01);
  // Their zeros are those of the plain folder.
  const Json converted =
      json({"convert", model, "--to", "hf", "-o", path("plain"), "-q", "--scheme", "f32"});
  EXPECT_EQ(converted["relative_error"], 0.0) << converted.dump();
  EXPECT_NEAR(measured(path("plain"), {"--activations", "float"})["nll"].get<double>(), exact,
              1e-5);
}

TEST_F(GqsaBooksCommand, SayWhatIsNotBuiltForThem) {
  const std::string model = pruned("gqsa-any4s50", kTiny);
  const std::string output = path("x");
  fails(tune(model, output), 2, "layers in lut4-row-g16-bsr are not tuned");
  for (const char* target : {"vllm", "transformers", "mlx", "llama.cpp"}) {
    fails(quantize_for(target, "gqsa-any4s50", output), 2, "has no place for lut4-row-g16-bsr");
  }
  fails(quantize("gqsa-any4s50-t16", output), 2, "each row groups of its own");
  fails(quantize("gqsa-any4s50-s7", output), 2, "scales of 16 bits");
  fails(quantize("gqsa-any5s50", output), 2, "recipe 'gqsa-any5s50' is not known");
  fails({"run", model, "-p", "A", "--device", "cuda"}, 2, "use --device cpu");
  EXPECT_FALSE(fs::exists(output));
}

// A book of another size, or one that is missing, is one line and no crash.
TEST_F(GqsaBooksCommand, RefuseDamagedFiles) {
  const std::string model = pruned("gqsa-any4s50", kTiny);
  const auto run = [&] { return nibble({"run", model, "-p", "A", "-n", "1"}); };
  EXPECT_EQ(run().exit_code, 0);
  int damaged = 0;
  for (const auto& entry : fs::directory_iterator(model)) {
    if (entry.path().extension() != ".safetensors") {
      continue;
    }
    const std::string whole = testing::read_file(entry.path());
    const std::string name = "q_proj.book\"";
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{name, "q_proj.bxxk\""}, {"16]", "61]"}}) {
      std::string bad = whole;
      const std::size_t book = bad.find(name);
      const std::size_t at = book == std::string::npos ? book : bad.find(from, book);
      if (at == std::string::npos) {
        continue;
      }
      bad.replace(at, from.size(), to);
      std::ofstream(entry.path(), std::ios::binary) << bad;
      const ProcessResult result = run();
      EXPECT_EQ(result.exit_code, 3) << result.err;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      ++damaged;
    }
    std::ofstream(entry.path(), std::ios::binary) << whole;
  }
  EXPECT_GE(damaged, 2);
}

}  // namespace
}  // namespace nibble
