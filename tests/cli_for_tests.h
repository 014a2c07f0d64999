#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/json.h"
#include "core/temporary_folder_for_tests.h"
#include "process.h"

namespace nibble {

namespace fs = std::filesystem;
using core::Json;
using testing::ProcessResult;

inline const std::string kSource = NIBBLE_SOURCE_DIR;
inline const std::string kDemo = kSource + "/models/demo";
inline const std::string kText = kDemo + "/texts/evaluation.txt";
inline const std::string kCalibration = kDemo + "/texts/calibration.txt";

/// Calls of the program in a folder of their own.
class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("CUDA_VISIBLE_DEVICES", "", 1);  // what is refused without a GPU is refused everywhere
  }

  ProcessResult nibble(std::vector<std::string> words, const std::string& input = "") {
    const std::vector<std::string> program = {NIBBLE_PROGRAM};
    words.insert(words.begin(), program.begin(), program.end());
    return testing::run_process(words, folder_, input);
  }

  // A call that must work; its standard output is one JSON object.
  Json json(std::vector<std::string> words) {
    words.emplace_back("--json");
    const ProcessResult result = nibble(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? core::parse_json(result.out, "output") : Json::object();
  }

  // A call that must fail with one line on standard error.
  void fails(const std::vector<std::string>& words, int code, const std::string& part) {
    const ProcessResult result = nibble(words);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }

  // The files of a folder in the test's own, by name.
  std::map<std::string, std::string> folder_contents(const std::string& name) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_ / name)) {
      files[entry.path().filename()] = testing::read_file(entry.path());
    }
    return files;
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  const core::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

}  // namespace nibble
