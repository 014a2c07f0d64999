#include "cli_for_tests.h"

// nibble tune --stage qat of a decoder, from windows of text to a model of 4 bits that others read.
namespace nibble {
namespace {

class TuneStudentDecoder : public Cli {
 protected:
  std::vector<std::string> call(const std::string& output,
                                const std::vector<std::string>& more = {}, int samples = 12) const {
    std::vector<std::string> words = {
        "tune",      kDemo,     "-o",         output,      "--stage",
        "qat",       "--calib", kCalibration, "--samples", std::to_string(samples),
        "--seq-len", "64",      "--lr",       "3e-4",      "--threads",
        "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // The perplexity that a message of the call ends with.
  static double perplexity(const std::string& text, const std::string& when) {
    const std::size_t at = text.find(when + ": perplexity ");
    return at == std::string::npos ? 0 : std::stod(text.substr(at + when.size() + 13));
  }
};

TEST_F(TuneStudentDecoder, LearnsToRunWithFourBits) {
  const std::string made = path("made");
  // Three windows are held out: what one says changes with the last bits of the training.
  const ProcessResult result = nibble(call(made, {"--recipe", "w4a4"}, 48));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("qat-w4a4"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("45 texts, 12 steps of 4 texts"), std::string::npos) << result.err;
  const double before = perplexity(result.err, "before training");
  const double behind = perplexity(result.err, "epoch 1");
  EXPECT_GT(behind, 1.0) << result.err;
  EXPECT_LT(behind, 0.8 * before) << result.err;
  EXPECT_EQ(nibble({"run", made, "-p", "A library is", "-n", "4"}).exit_code, 0);
}

TEST_F(TuneStudentDecoder, LeavesLayersOut) {
  const std::string made = path("made");
  const ProcessResult result = nibble(call(made, {"--layers", "2", "--recipe", "f16", "--kd",
                                                  "logits=1,hidden=1", "--csv", path("loss.csv")}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("qat-layers2-f16"), std::string::npos) << result.out;
  const Json config = core::parse_json(testing::read_file(made + "/config.json"), "config");
  EXPECT_EQ(config["num_hidden_layers"], 2);
  EXPECT_LT(perplexity(result.err, "epoch 1"), perplexity(result.err, "before training"));
  EXPECT_EQ(nibble({"run", made, "-p", "A library is", "-n", "4"}).exit_code, 0);
}

// Whether or not there is a GPU, or kernels for one, the default of --kd is not what is refused.
TEST_F(TuneStudentDecoder, AsksAGpuForNoTermsThatItLacks) {
  const ProcessResult result = nibble(call(path("made"), {"--device", "cuda"}));
  EXPECT_EQ(result.err.find("no attention"), std::string::npos) << result.err;
}

TEST_F(TuneStudentDecoder, RefusesWhatItDoesNotServe) {
  const std::string made = path("made");
  fails({"tune", kDemo, "-o", made, "--stage", "qat"}, 2, "needs --calib");
  fails(call(made, {"--task", "mnli", "--data", "x"}), 2, "is a decoder, which learns windows");
  fails(call(made, {"--limit", "3"}), 2, "is a decoder, which learns windows");
  fails(call(made, {"--layers", "9"}), 2, "--layers 9: the model has");
  fails({"tune", kDemo, "-o", made, "--stage", "qat", "--samples", "3"}, 2, "--calib");
  fails({"tune", kDemo, "-o", made, "--stage", "qat", "--calib", kCalibration, "--samples", "1"}, 2,
        "two windows of text");
  EXPECT_FALSE(fs::exists(made));
}

}  // namespace
}  // namespace nibble
