#include <sstream>

#include "cli_for_tests.h"

// nibble tune --stage qat, from a file of texts to a model that other commands run.
namespace nibble {
namespace {

const std::string kBert = kSource + "/tests/families/bert-texts";

class TuneEncoder : public Cli {
 protected:
  // A task of three classes: what the second text begins with.
  std::string data() const {
    const char* const classes[] = {"entailment", "neutral", "contradiction"};
    std::ostringstream text;
    text << "sentence1\tsentence2\tgold_label\n";
    for (int i = 0; i < 24; ++i) {
      text << "t" << 10 + i << " t3\tt" << 40 + i % 3 << " t" << 20 + i % 5 << "\t"
           << classes[i % 3] << "\n";
    }
    const std::string file = path("train.tsv");
    std::ofstream(file, std::ios::binary) << text.str();
    return file;
  }

  std::vector<std::string> call(const std::string& output,
                                const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"tune",   kBert,  "-o",     output, "--stage",   "qat",
                                      "--task", "mnli", "--data", data(), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(TuneEncoder, LearnsATask) {
  const std::string before = path("before");
  EXPECT_EQ(nibble({"quantize", kBert, "-o", before, "--recipe", "w4a4"}).exit_code, 0);
  const std::string made = path("made");
  const ProcessResult result = nibble(call(made, {"--kd", "labels=1", "--epochs", "60", "--batch",
                                                  "8", "--lr", "5e-3", "--csv", path("loss.csv")}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("qat-w4a4"), std::string::npos) << result.out;
  const auto accuracy = [&](const std::string& model) {
    return json({"tasks", model, "--task", "mnli", "--data", data()})["tasks"][0]["acc"]
        .get<double>();
  };
  EXPECT_LT(accuracy(before), 0.6);
  EXPECT_GT(accuracy(made), 0.9);
  const std::string curve = testing::read_file(path("loss.csv"));
  EXPECT_EQ(std::count(curve.begin(), curve.end(), '\n'), 1 + 60 * 3);
}

TEST_F(TuneEncoder, TrainsPartsAndPairs) {
  const std::string made = path("made");
  const ProcessResult result =
      nibble(call(made, {"--recipe", "w4a8", "--quantize-parts", "qkv,mlp-in=w8a8", "--prune",
                         "2:4", "--prune-by", "movement", "--prune-rounded", "--batch", "8"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json config = core::parse_json(testing::read_file(made + "/config.json"), "config");
  std::string schemes;
  for (const auto& [name, scheme] : config["quantization_config"]["layers"].items()) {
    schemes += scheme.get<std::string>() + " ";
  }
  EXPECT_NE(schemes.find("int4-sym-row-a8"), std::string::npos) << schemes;
  EXPECT_NE(schemes.find("int8-sym-row-a8"), std::string::npos) << schemes;
  EXPECT_EQ(config["quantization_config"]["layers"].size(), 8U) << schemes;
  EXPECT_EQ(config["quantization_config"]["recipe"].get<std::string>().rfind(
                "qat-2of4-movement-rounded-w4a8", 0),
            0U)
      << config["quantization_config"]["recipe"];
  const ProcessResult wrong = nibble(call(path("wrong"), {"--prune", "4:2"}));
  EXPECT_EQ(wrong.exit_code, 2) << wrong.err;
  EXPECT_NE(wrong.err.find("4:2"), std::string::npos) << wrong.err;
  EXPECT_EQ(nibble(call(path("wrong"), {"--prune-by", "movement"})).exit_code, 2);
}

TEST_F(TuneEncoder, LeavesLayersOut) {
  const std::string made = path("made");
  const ProcessResult result =
      nibble(call(made, {"--layers", "1", "--recipe", "f16", "--batch", "2", "--accumulate", "4",
                         "--csv", path("loss.csv")}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("3 steps of 8 texts"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("qat-layers1-f16"), std::string::npos) << result.out;
  const Json config = core::parse_json(testing::read_file(made + "/config.json"), "config");
  EXPECT_EQ(config["num_hidden_layers"], 1);
  EXPECT_EQ(nibble({"tasks", made, "--task", "mnli", "--data", data()}).exit_code, 0);
  const std::string curve = testing::read_file(path("loss.csv"));
  EXPECT_EQ(std::count(curve.begin(), curve.end(), '\n'), 1 + 3);
  fails(call(path("more"), {"--layers", "9"}), 2, "--layers 9: the model has 2; take 1 to 2");
}

TEST_F(TuneEncoder, RefusesWhatItDoesNotServe) {
  const std::string made = path("made");
  fails({"tune", kBert, "-o", made, "--stage", "qat"}, 2, "--task");
  fails(call(made, {"--kd", "logits=1,states=1"}), 2, "'states=1' is no term of the loss");
  fails(call(made, {"--kd", "logits=0"}), 2, "nothing is to be learned");
  fails(call(made, {"--recipe", "gptq-w4g128"}), 2, "round to nearest");
  fails({"tune", kBert, "-o", made, "--stage", "qat", "--task", "sst3", "--data", data()}, 2,
        "no task of GLUE");
  fails({"tune", kBert, "-o", made, "--stage", "qat", "--task", "stsb", "--data", data()}, 2,
        "classes");
  fails({"tune", kBert, "-o", made, "--stage", "qat", "--task", "mnli", "--data", path("no.tsv")},
        5, "no.tsv");
  fails(call(made, {"--calib", kCalibration}), 2, "--calib is for decoders");
  std::ofstream(path("bad.tsv")) << "sentence1\tsentence2\tgold_label\nt1\tt2\tperhaps\n";
  fails({"tune", kBert, "-o", made, "--stage", "qat", "--task", "mnli", "--data", path("bad.tsv")},
        3, "line 2");
  fails(call(made, {"--device", "cuda"}), 2, "on a GPU qat trains decoders; leave --device out");
  fails(call(made, {"--teacher", kDemo}), 2, "--teacher is not for --stage qat");
  fails({"tune", kDemo, "-o", made, "--task", "sst2"}, 2, "--task is not for --stage both");
  EXPECT_FALSE(fs::exists(made));
}

}  // namespace
}  // namespace nibble
