#include <algorithm>
#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "core/cpu_topology.h"
#include "core/json.h"
#include "core/other_work.h"
#include "core/temporary_folder_for_tests.h"
#include "process.h"

// What measurements of speed say of themselves.
namespace nibble {
namespace {

namespace fs = std::filesystem;
using core::Json;
using testing::ProcessResult;

const std::string kSource = NIBBLE_SOURCE_DIR;

// Processes that do nothing but compute.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t pid = fork();
      if (pid == 0) {
        while (true) {
          asm volatile("");  // a loop without effects may be left out
        }
      }
      pids_.push_back(pid);
    }
  }
  ~BusyProcesses() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> pids_;
};

class Measuring : public ::testing::Test {
 protected:
  ProcessResult nibble(std::vector<std::string> words) const {
    const std::vector<std::string> program = {NIBBLE_PROGRAM};
    words.insert(words.begin(), program.begin(), program.end());
    ProcessResult result = testing::run_process(words, folder_);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  }

  const core::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Measuring, WhatStaysInTheCacheIsNotLimitedByTheMemory) {
  const std::vector<std::string> call = {
      "bench", kSource + "/tests/families/llama", "--pp", "8", "--tg", "4"};
  std::vector<std::string> with_json = call;
  with_json.emplace_back("--json");
  const Json result = core::parse_json(nibble(with_json).out, "output");
  const bool known = result["cache_bytes"].get<std::int64_t>() > 0;
  const Json& decode = result["rows"][1];
  EXPECT_EQ(decode["fits_cache"].get<bool>(), known);
  if (known) {
    EXPECT_EQ(decode["limited_by"], "arithmetic");
    EXPECT_LT(decode["share_of_limit"].get<double>(), 1.0);
    const std::string text = nibble(call).out;
    EXPECT_NE(text.find("the memory's limit does not apply"), std::string::npos) << text;
  }
}

TEST_F(Measuring, OtherWorkIsSaid) {
  const std::vector<int> cpus = core::allowed_cpus();
  if (!core::read_cpu_counters(cpus).busy) {
    GTEST_SKIP() << "/proc/stat does not tell of the CPUs";
  }
  const BusyProcesses others(static_cast<int>(cpus.size()));
  const ProcessResult result =
      nibble({"bench", kSource + "/models/demo", "--pp", "0", "--tg", "32", "--json"});
  EXPECT_NE(result.err.find("other work ran beside this"), std::string::npos) << result.err;
  const Json rows = core::parse_json(result.out, "output")["rows"];
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const Json& row) {
    return (row["other_busy_cpus"].is_number() &&
            row["other_busy_cpus"].get<double>() >= core::kBusyCpus) ||
           (row["waited_share"].is_number() &&
            row["waited_share"].get<double>() >= core::kWaitedShare);
  })) << result.out;
}

TEST_F(Measuring, ComparedSpeedsHaveQuartilesOrAreNull) {
  const Json result = core::parse_json(
      nibble({"compare", kSource + "/tests/families/llama", "--recipes", "rtn-w4g16", "--text",
              kSource + "/models/demo/texts/evaluation.txt", "--max-tokens", "256", "--seq-len",
              "32", "--pp", "16", "--tg", "8", "--json"})
          .out,
      "output");
  for (const Json& row : result["rows"]) {
    for (const std::string name : {"prefill_tokens_per_s", "decode_tokens_per_s"}) {
      ASSERT_TRUE(row.contains(name));
      const Json& quartiles = row[name + "_quartiles"];
      ASSERT_EQ(row[name].is_null(), quartiles.is_null()) << name;
      if (!row[name].is_null()) {
        EXPECT_LE(quartiles[0], row[name]);
        EXPECT_GE(quartiles[1], row[name]);
      }
    }
  }
}

}  // namespace
}  // namespace nibble
