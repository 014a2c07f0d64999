#include "cli_for_tests.h"

// Types for the parts of layers: chosen by hand, or measured, stored and read back.
namespace nibble {
namespace {

const std::string kBert = kSource + "/tests/families/bert-texts";

Json schemes_in(const fs::path& folder) {
  return core::parse_json(testing::read_file(folder / "config.json"),
                          "config.json")["quantization_config"]["layers"];
}

TEST_F(Cli, PartsAreQuantizedAsTheCallSays) {
  json({"quantize", kBert, "-o", path("made"), "--quantize-parts",
        "qkv=w8a8,out=float,mlp-in=w4a8,mlp-out=w4a4-asym"});
  std::map<std::string, int> counts;
  const Json made = schemes_in(folder_ / "made");
  for (const auto& [layer, scheme] : made.items()) {
    ++counts[scheme.get<std::string>()];
  }
  const std::map<std::string, int> expected = {
      {"int8-sym-row-a8", 6}, {"int4-sym-row-a8", 2}, {"int4-asym-row-a4-asym", 2}};
  EXPECT_EQ(counts, expected);
  fails({"quantize", kBert, "-o", path("x"), "--quantize-parts", "qkv"}, 2, "needs a type");
  fails({"quantize", kBert, "-o", path("x"), "--quantize-parts", "mlp=w8a8"}, 2, "mlp-in");
  fails({"quantize", kBert, "-o", path("x")}, 2, "--quantize-parts");
  fails({"quantize", kBert, "-o", path("x"), "--recipe", "w8a8", "--seq", "8"}, 2, "qbest");
  EXPECT_FALSE(fs::exists(path("x")));
}

class StrategyCommands : public Cli {
 protected:
  // The float model with --strategy is the stored one; both say what they were tuned for.
  void expect_runs_alike(const std::string& file, const Json& tuned) {
    std::ofstream(folder_ / "texts.txt") << "t1 t2 t3\nt9 t8\n";
    const std::vector<std::string> strategy = {"--strategy", "2x16",      "--strategies",
                                               file,         "--threads", "1"};
    const auto with = [&](std::vector<std::string> call) {
      call.insert(call.end(), strategy.begin(), strategy.end());
      return call;
    };
    const Json stored =
        json({"classify", path("best"), "--texts", path("texts.txt"), "--threads", "1"});
    EXPECT_EQ(json(with({"classify", kBert, "--texts", path("texts.txt")})), stored);
    const Json expected = {{"device", tuned["device"]},
                           {"batch", 2},
                           {"seq", 16},
                           {"loss", tuned["loss"]},
                           {"measure", tuned["measure"]}};
    EXPECT_EQ(json(with({"explain", kBert}))["tuned"], expected);
    EXPECT_EQ(json({"explain", path("best"), "--threads", "1"})["tuned"], expected);
    EXPECT_TRUE(json({"explain", kBert})["tuned"].is_null());
    fails({"classify", kBert, "--texts", path("texts.txt"), "--strategy", "2x16"}, 2,
          "no strategy of this model");
    json({"quantize", kBert, "-o", path("whole"), "--recipe", "w8a8"});
    fails(with({"embed", path("whole"), "--texts", path("texts.txt")}), 2, "compressed already");
    fails({"explain", kBert, "--strategy", "2"}, 2, "TEXTSxTOKENS");
  }

  std::string warnings_of(const std::vector<std::string>& call) {
    const ProcessResult result = nibble(call);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  }
};

// A model that says it was tuned elsewhere.
TEST_F(StrategyCommands, OtherMachinesAndStepsAreSaid) {
  json({"quantize", kBert, "-o", path("made"), "--recipe", "w8a8"});
  Json config = core::parse_json(testing::read_file(folder_ / "made/config.json"), "config");
  const Json tuned = {
      {"device", "another CPU"}, {"batch", 2}, {"seq", 8}, {"loss", 0.25}, {"measure", "sst2 acc"}};
  const auto write = [&](const Json& value) {
    config["quantization_config"]["tuned"] = value;
    std::ofstream(folder_ / "made/config.json") << config.dump();
  };
  write(tuned);
  std::ofstream(folder_ / "texts.txt") << "t1 t2 t3\n";
  const std::string other = "were tuned on another CPU; on ";
  const std::vector<std::string> classify = {"classify", path("made"), "--texts",
                                             path("texts.txt")};
  EXPECT_NE(warnings_of(classify).find(other), std::string::npos);
  const std::string steps = "which is not measured here";
  const auto bench = [&](const char* shape) {
    return warnings_of({"bench", path("made"), "--shapes", shape, "--repeats", "1"});
  };
  EXPECT_NE(bench("1x4,4x8").find(steps), std::string::npos);
  EXPECT_EQ(bench("1x4,2x7").find(steps), std::string::npos);
  const Json json_bench = json({"bench", path("made"), "--shapes", "2x8", "--repeats", "1", "-q"});
  EXPECT_EQ(json_bench["tuned"], tuned);
  const ProcessResult shown = nibble({"explain", path("made")});
  EXPECT_NE(shown.out.find("tuned for 2 texts of 8 tokens on another CPU; loss 0.25000 (sst2 acc)"),
            std::string::npos)
      << shown.out;
  Json wrong = tuned;
  wrong["batch"] = 0;
  write(wrong);
  fails(classify, 3, "batch");
  wrong = tuned;
  wrong.erase("loss");
  write(wrong);
  fails(classify, 3, "loss");
}

TEST_F(StrategyCommands, EncoderDecodersAreTuned) {
  setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
  const std::string bart = kSource + "/tests/families/bart";
  std::ofstream(folder_ / "pairs.tsv") << "t5 t9\tt8 t7\nt3\tt2 t1\n";
  const Json tuned =
      json({"tune-strategy", bart, "--batch", "1", "--seq", "4", "--threads", "1", "--candidates",
            "w8a8", "--max-loss", "10", "--text", path("pairs.tsv")});
  EXPECT_EQ(tuned["measure"], "nats for each token of a target");
  EXPECT_EQ(tuned["rows"].size(), 8u);
  const Json written = json({"run", bart, "-p", "t5", "--strategy", "1x4", "--threads", "1"});
  EXPECT_GT(written["completion_tokens"], 0);
  fails({"tune-strategy", kBert, "--text", path("pairs.tsv")}, 2, "--task");
}

TEST_F(StrategyCommands, TunedStrategiesAreStoredAndTaken) {
  setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);  // where times of kernels go
  const std::string file = path("strategies.json");
  const Json tuned = json({"tune-strategy", kBert, "--batch", "2", "--seq", "16", "--threads", "1",
                           "--candidates", "w8a8,w4a4", "--max-loss", "0.5", "-o", file});
  ASSERT_EQ(tuned["rows"].size(), 12u);
  EXPECT_EQ(tuned["batch"], 2);
  EXPECT_EQ(tuned["output"], file);
  int chosen = 0;
  for (const Json& row : tuned["rows"]) {
    EXPECT_GT(row["microseconds"].get<double>(), 0.0);
    EXPECT_EQ(row["loss"].get<double>() == 0.0, row["type"] == "float") << row.dump();
    if (row["chosen"] == true) {
      ++chosen;
      EXPECT_EQ(tuned["chosen"][row["part"].get<std::string>()], row["type"]);
    }
  }
  EXPECT_EQ(chosen, 4);
  json({"quantize", kBert, "-o", path("best"), "--recipe", "qbest", "--batch", "2", "--seq", "16",
        "--threads", "1", "--strategies", file});
  const Json schemes = schemes_in(folder_ / "best");
  for (int block = 0; block < 2; ++block) {
    const std::string prefix = "bert.encoder.layer." + std::to_string(block) + ".";
    for (const auto& [layer, part] :
         std::map<std::string, std::string>{{"attention.self.query", "qkv"},
                                            {"attention.output.dense", "out"},
                                            {"intermediate.dense", "mlp-in"},
                                            {"output.dense", "mlp-out"}}) {
      EXPECT_EQ(schemes.value(prefix + layer, "float"), tuned["chosen"][part]) << layer;
    }
  }
  expect_runs_alike(file, tuned);
  fails({"quantize", kBert, "-o", path("x"), "--recipe", "qbest", "--batch", "4", "--seq", "16",
         "--threads", "1", "--strategies", file},
        2, "tune-strategy");
  json({"quantize", kBert, "-o", path("made"), "--recipe", "w8a8"});
  fails({"tune-strategy", path("made"), "-o", file}, 2, "compressed already");
  std::ofstream(folder_ / "bad.json") << "{}";
  fails({"tune-strategy", kBert, "-o", path("bad.json")}, 3, "bad.json");
}

}  // namespace
}  // namespace nibble
