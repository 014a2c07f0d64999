#include "cli_for_tests.h"

// nibble tune, on a model that is tiny.
namespace nibble {
namespace {

const std::string kTiny = kSource + "/tests/families/llama";

class TuneCommand : public Cli {
 protected:
  // A compressed folder of the tiny model.
  std::string quantized(const std::string& recipe) {
    const std::string folder = path(recipe);
    const ProcessResult result =
        nibble({"quantize", kTiny, "-o", folder, "--recipe", recipe, "--calib", kCalibration,
                "--samples", "2", "--seq-len", "16"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    notes_ = result.err;
    return folder;
  }

  static std::vector<std::string> tune(const std::string& model, const std::string& output,
                                       std::vector<std::string> more = {}) {
    std::vector<std::string> words = {
        "tune",       model,       "-o", output,      "--teacher", kTiny,     "--calib",
        kCalibration, "--samples", "4",  "--seq-len", "16",        "--batch", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::string notes_;
};

TEST_F(TuneCommand, WritesAModelAndItsLossCurve) {
  const std::string sparse = quantized("gqsa-w4s50");
  EXPECT_NE(notes_.find("nibble tune "), std::string::npos) << notes_;
  const std::string output = path("tuned");
  const ProcessResult result =
      nibble(tune(sparse, output, {"--csv", path("loss.csv"), "--e2e-epochs", "3"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("gqsa-w4s50-bqpo-e2e"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("memory: about"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("block 2 of 2"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("judging windows"), std::string::npos) << result.err;
  EXPECT_EQ(nibble({"run", output, "-p", "A", "-n", "2"}).exit_code, 0);
  std::ifstream file(folder_ / "loss.csv");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "stage,block,epoch,step,loss,learning_rate,gradient_norm");
  fails(tune(sparse, output), 5, "exists already");
}

TEST_F(TuneCommand, SaysWhatItCannotDo) {
  const std::string sparse = quantized("gqsa-w4s50");
  const std::string output = path("tuned");
  fails({"tune", sparse, "-o", output, "--calib", kCalibration}, 2, "needs --teacher");
  fails(tune(kTiny, output), 2, "no compressed layers");
  fails(tune(quantized("nf4g64"), output), 2, "are not tuned");
  fails(tune(sparse, output, {"--stage", "qlora"}), 2, "--stage");
  fails(tune(sparse, output, {"--lr", "0"}), 2, "--lr");
  for (const char* option : {"--epochs", "--lr", "--patience", "--scale-lr"}) {
    fails(tune(sparse, output, {"--stage", "e2e-oqp", option, "1"}), 2,
          std::string(option) + " is not for --stage e2e-oqp, but for bqpo, both");
  }
  for (const char* option : {"--e2e-epochs", "--e2e-lr", "--checkpoint"}) {
    fails(tune(sparse, output, {"--stage", "bqpo", option, "1"}), 2,
          std::string(option) + " is not for --stage bqpo, but for e2e-oqp, both");
  }
  fails(tune(sparse, output, {"--stage", "bqpo", "--loss", "logits"}), 2, "--loss is not for");
  fails(tune(sparse, output, {"--device", "gpu"}), 2, "--device");
  fails(tune(sparse, output, {"--device", "cuda", "--precision", "fp8"}), 2,
        "take bf16, tf32 or float32");
  fails(tune(sparse, output, {"--precision", "bf16"}), 2, "--precision is for --device cuda");
  fails({"tune", sparse, "-o", output, "--calib", kCalibration, "--teacher", kTiny, "--samples",
         "1", "--seq-len", "16"},
        2, "two windows");
  fails({"tune", sparse, "-o", output, "--calib", kCalibration, "--teacher", kTiny, "--samples",
         "4", "--seq-len", "1"},
        2, "windows of two tokens");
  fails({"tune", sparse, "-o", output, "--calib", kCalibration, "--teacher", kDemo}, 2,
        "its shape is another");
  fails(tune(sparse, output, {"--csv", sparse + "/config.json"}), 2, "is no loss curve");
  fails(tune(sparse, output, {"--csv", path("none/loss.csv")}), 5, "none/loss.csv");
  EXPECT_FALSE(fs::exists(output));
  EXPECT_FALSE(fs::exists(path(".tuned.partial")));
}

}  // namespace
}  // namespace nibble
