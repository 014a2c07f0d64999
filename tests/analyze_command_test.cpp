#include <cmath>

#include "cli_for_tests.h"
#include "report/balanced_tags_for_tests.h"

// `nibble analyze`: what it measures is compared with NumPy in src/eval/analysis/analysis_test.cpp.
namespace nibble {
namespace {

const std::string kFamilies = kSource + "/tests/families/";

class AnalyzeCommand : public Cli {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  std::string quantized(const std::string& model, const std::string& recipe) {
    const std::string folder = path(recipe);
    const ProcessResult result =
        nibble({"quantize", model, "-q", "-o", folder, "--recipe", recipe, "--calib", kCalibration,
                "--samples", "2", "--seq-len", "64"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return folder;
  }
};

TEST_F(AnalyzeCommand, AgreesWithEval) {
  const std::string small = quantized(kDemo, "rtn-w4g128-a4");
  const std::vector<std::string> window = {"--text",       kText, "--seq-len", "100",
                                           "--max-tokens", "550", "-q"};
  const auto with_window = [&](std::vector<std::string> words) {
    words.insert(words.end(), window.begin(), window.end());
    return words;
  };
  const Json result = json(with_window({"analyze", kDemo, small}));
  EXPECT_EQ(result["texts"], 5);
  EXPECT_EQ(result["tokens"], 500);
  EXPECT_EQ(result["recipe"], "rtn-w4g128-a4");
  const Json& loss = result["loss"];
  for (const auto& [model, name] : {std::pair(kDemo, "nll"), std::pair(small, "quantized_nll")}) {
    const Json eval = json(with_window({"eval", model, "--activations", "float"}));
    EXPECT_NEAR(loss[name].get<double>(), eval["nll"].get<double>(), 1e-6) << name;
    EXPECT_NEAR(loss[std::string(name) + "_standard_error"].get<double>(),
                eval["nll_window_standard_error"].get<double>(), 1e-6)
        << name;
  }
  EXPECT_EQ(loss["nll_by_position"].size(), 99u);
  EXPECT_EQ(loss["first_position"], 2);
  EXPECT_EQ(loss["positions"].back()["first"], 65);
  EXPECT_EQ(loss["positions"].back()["last"], 100);
  EXPECT_GT(loss["increase"].get<double>(), 0);
  const Json& stack = result["stacks"][0];
  EXPECT_EQ(stack["norms"], "pre");
  EXPECT_EQ(stack["ranges"][0]["block"], 0);
  EXPECT_EQ(stack["ranges"].back()["place"], "residual stream");
  const Json& noise = stack["signal_to_noise"].back();
  EXPECT_EQ(noise["place"], "residual stream");
  EXPECT_GT(noise["alone_decibels"].get<double>(), noise["decibels"].get<double>());
}

TEST_F(AnalyzeCommand, WritesTextAndAPage) {
  const std::string small = quantized(kDemo, "w8a8");
  const std::vector<std::string> call = {"analyze",   kDemo, small,          "--text", kText,
                                         "--seq-len", "64",  "--max-tokens", "200",    "-q"};
  const ProcessResult text = nibble(call);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"33-64", "each doubling of the position", "6 residual stream",
                           "signal-to-noise, dB", "block 6", "6 blocks, pre-norm"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
  }
  std::vector<std::string> with_page = call;
  with_page.insert(with_page.end(), {"--html", path("page.html")});
  EXPECT_EQ(nibble(with_page).out, "");
  const std::string page = testing::read_file(folder_ / "page.html");
  EXPECT_EQ(report::TagChecker::fault_of(page), "");
  for (const char* part : {"Perplexity by position", "Ranges in the decoder",
                           "Noise in the decoder", "<polyline", "Smallest and largest values"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST_F(AnalyzeCommand, ReadsAModelAlone) {
  const Json result =
      json({"analyze", kDemo, "--text", kText, "--seq-len", "64", "--max-tokens", "64", "-q"});
  EXPECT_FALSE(result.contains("quantized"));
  EXPECT_FALSE(result["loss"].contains("increase"));
  EXPECT_TRUE(result["loss"]["nll_standard_error"].is_null());  // of one window
  EXPECT_FALSE(result["stacks"][0].contains("signal_to_noise"));
}

TEST_F(AnalyzeCommand, SaysWhyThereIsNoNoise) {
  const std::string small = quantized(kDemo, "smoothquant-w8a8");
  const ProcessResult text = nibble(
      {"analyze", kDemo, small, "--text", kText, "--seq-len", "64", "--max-tokens", "64", "-q"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("no signal-to-noise: the recipe 'smoothquant-w8a8'"), std::string::npos);
  EXPECT_EQ(text.out.find("dB"), std::string::npos);
}

TEST_F(AnalyzeCommand, ReadsLinesForEncodersAndPairsForEncoderDecoders) {
  const std::string pairs = write("pairs.tsv", "t5 t6 t7\tt8 t9\nt10\tt11 t12 t13\n");
  const std::string bart = kFamilies + "bart";
  const Json both = json({"analyze", bart, bart, "--text", pairs, "-q"});
  EXPECT_EQ(both["texts"], 2);
  ASSERT_EQ(both["stacks"].size(), 2u);
  EXPECT_EQ(both["stacks"][0]["name"], "encoder");
  EXPECT_EQ(both["stacks"][1]["norms"], "post");
  EXPECT_EQ(both["loss"]["increase"], 0.0);
  EXPECT_EQ(both["loss"]["nll_by_position"].size(), 3u);
  const std::string bert = kFamilies + "bert-texts";
  const Json encoder = json({"analyze", bert, "--text", pairs, "-q"});
  EXPECT_FALSE(encoder.contains("loss"));
  ASSERT_EQ(encoder["stacks"].size(), 1u);
  fails({"analyze", bart, "--text", write("single.txt", "t5 t6\n"), "-q"}, 1, "line 1: no target");
}

TEST_F(AnalyzeCommand, RefusesWhatItCannotDo) {
  fails({"analyze", kDemo, kFamilies + "gpt2", "--text", kText, "-q"}, 2, "differ in their blocks");
  fails({"analyze", kDemo, "--text", kText, "--seq-len", "100000", "-q"}, 2, "--seq-len 100000");
  fails({"analyze", kDemo, "--text", kText, "--max-tokens", "10", "-q"}, 2,
        "fewer than one window");
  fails({"analyze", kDemo}, 2, "--text is required");
  fails({"analyze", kDemo, "--text", kText, "--device", "cuda"}, 2, "--device cpu");
}

}  // namespace
}  // namespace nibble
