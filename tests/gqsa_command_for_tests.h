#pragma once

#include <string>
#include <vector>

#include "cli_for_tests.h"

namespace nibble {

inline const std::string kTiny = kSource + "/tests/families/llama";

/// Calls that prune groups of models and measure what is left of them.
class GqsaCommand : public Cli {
 protected:
  // A folder of the model, pruned after a small calibration.
  std::string pruned(const std::string& recipe, const std::string& model = kDemo) {
    const std::string folder = path(recipe);
    const std::string windows = model == kDemo ? "256" : "16";
    const ProcessResult result =
        nibble({"quantize", model, "-o", folder, "--recipe", recipe, "--calib", kCalibration,
                "--samples", "8", "--seq-len", windows});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    notes_ = result.err;
    return folder;
  }

  Json measured(const std::string& model, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"eval",      model, "--text",       kText, "-q",
                                      "--seq-len", "256", "--max-tokens", "4096"};
    words.insert(words.end(), more.begin(), more.end());
    return json(words);
  }

  std::vector<std::string> tune(const std::string& model, const std::string& output) const {
    return {"tune",    model,        "-o",        output, "--teacher", kTiny,
            "--calib", kCalibration, "--samples", "4",    "--seq-len", "16"};
  }
  std::vector<std::string> quantize(const std::string& recipe, const std::string& output) const {
    return {"quantize", kTiny, "-o", output, "--recipe", recipe, "-q"};
  }
  std::vector<std::string> quantize_for(const std::string& target, const std::string& recipe,
                                        const std::string& output) const {
    return {"quantize", kTiny,        "-o",        output, "--for",     target, "--recipe", recipe,
            "--calib",  kCalibration, "--samples", "4",    "--seq-len", "16",   "-q"};
  }

  std::string notes_;  // of what pruned last
};

}  // namespace nibble
