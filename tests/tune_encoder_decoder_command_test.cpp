#include "cli_for_tests.h"

// nibble tune --stage qat of an encoder-decoder, from pairs of texts to a model that writes.
namespace nibble {
namespace {

const std::string kBart = kSource + "/tests/families/bart";

class TuneEncoderDecoder : public Cli {
 protected:
  // A folder of pairs to learn from and to be judged by, the same: what is written depends on the
  // last word alone.
  std::string data() const {
    fs::create_directories(path("pairs"));
    std::string text;
    for (int i = 0; i < 24; ++i) {
      text += "t" + std::to_string(10 + i) + " t3 t" + std::to_string(20 + i % 6) + "\tt" +
              std::to_string(40 + i % 3) + " t" + std::to_string(44 + i % 2) + "\tt9\n";
    }
    for (const char* name : {"train.tsv", "dev.tsv"}) {
      std::ofstream(path("pairs") + "/" + name, std::ios::binary) << text;
    }
    return path("pairs");
  }

  std::vector<std::string> call(const std::string& output,
                                const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"tune", kBart,    "-o",   output,      "--stage",
                                      "qat",  "--data", data(), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  double accuracy(const std::string& model) {
    return json({"tasks", model, "--seq2seq", data() + "/dev.tsv"})["tasks"][0]["word_accuracy"]
        .get<double>();
  }
};

TEST_F(TuneEncoderDecoder, LearnsToWrite) {
  const std::string made = path("made");
  const ProcessResult result =
      nibble(call(made, {"--recipe", "w4a4", "--kd", "labels=1", "--epochs", "40", "--batch", "8",
                         "--lr", "5e-3"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("qat-w4a4"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("before training: 24 of "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("word_acc 1.0000, per 0.0000"), std::string::npos) << result.err;
  EXPECT_LT(accuracy(kBart), 0.1);
  EXPECT_EQ(accuracy(made), 1.0);
  const Json config = core::parse_json(testing::read_file(made + "/config.json"), "config");
  EXPECT_EQ(config["quantization_config"]["layers"].size(), 2U * 6 + 3 * 10);
}

TEST_F(TuneEncoderDecoder, LearnsFromTheTeacherAndReadsOneFile) {
  const std::string made = path("made");
  const ProcessResult result =
      nibble({"tune", kBart, "-o", made, "--stage", "qat", "--data", data() + "/train.tsv",
              "--limit", "10", "--batch", "4", "--csv", path("loss.csv"), "--html",
              path("loss.html"), "--max-length", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("10 texts, 3 steps of 4 texts"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("10 of 10 texts"), std::string::npos) << result.err;  // were cut
  EXPECT_EQ(result.err.find("before training"), std::string::npos) << result.err;
  const std::string curve = testing::read_file(path("loss.csv"));
  EXPECT_EQ(std::count(curve.begin(), curve.end(), '\n'), 1 + 3);
  const std::string page = testing::read_file(path("loss.html"));
  EXPECT_NE(page.find("Training of qat-w4a4"), std::string::npos) << page;
  EXPECT_NE(page.find("<polyline"), std::string::npos) << page;
}

// The result is a model that other commands read.
TEST_F(TuneEncoderDecoder, LeavesLayersOut) {
  const std::string made = path("made");
  const ProcessResult result =
      nibble(call(made, {"--encoder-layers", "1", "--decoder-layers", "2", "--recipe", "w4a8"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("qat-layers1-2-w4a8"), std::string::npos) << result.out;
  const Json config = core::parse_json(testing::read_file(made + "/config.json"), "config");
  EXPECT_EQ(config["encoder_layers"], 1);
  EXPECT_EQ(config["decoder_layers"], 2);
  EXPECT_EQ(config["quantization_config"]["layers"].size(), 1U * 6 + 2 * 10);
  EXPECT_EQ(nibble({"run", made, "-p", "t5 t6"}).exit_code, 0);
  EXPECT_EQ(nibble({"inspect", made}).exit_code, 0);
  EXPECT_GE(accuracy(made), 0.0);
}

TEST_F(TuneEncoderDecoder, RefusesWhatItDoesNotServe) {
  const std::string made = path("made");
  fails(call(made, {"--decoder-layers", "4"}), 2, "--decoder-layers 4: the model has 3");
  fails(call(made, {"--html", path("loss.html")}), 2, "--csv");
  fails(call(made, {"--csv", path("loss.csv"), "--html", kBart + "/config.json"}), 2,
        "config.json");
  fails(call(made, {"--layers", "1"}), 2, "--encoder-layers and --decoder-layers in place of");
  fails({"tune", kDemo, "-o", made, "--stage", "qat", "--data", data(), "--encoder-layers", "1"}, 2,
        "is no encoder-decoder");
  fails({"tune", kDemo, "-o", made, "--decoder-layers", "1"}, 2,
        "--decoder-layers is not for --stage both");
  fails({"tune", kBart, "-o", made, "--stage", "qat"}, 2, "pairs of texts");
  fails(call(made, {"--task", "sst2"}), 2, "--task is for encoders");
  fails({"tune", kBart, "-o", made, "--stage", "qat", "--data", path("no.tsv")}, 5, "no.tsv");
  std::ofstream(path("bad.tsv")) << "t1 t2\n";
  fails({"tune", kBart, "-o", made, "--stage", "qat", "--data", path("bad.tsv")}, 3, "line 1");
  EXPECT_FALSE(fs::exists(made));
}

}  // namespace
}  // namespace nibble
