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

TEST_F(Cli, TunedStrategiesAreStoredAndTaken) {
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
