#include <gtest/gtest.h>

#include "core/json.h"
#include "process.h"

// The program on the demo model against transformers, which computed tests/data/demo_golden.json in
// float32 (tools/make_demo_golden.py). Needs nothing outside of the repository.
namespace nibble {
namespace {

const std::filesystem::path kRoot = NIBBLE_SOURCE_DIR;

core::Json golden() {
  return core::parse_json(testing::read_file(kRoot / "tests/data/demo_golden.json"),
                          "demo_golden.json");
}

// Standard output of a call with --json that must work.
core::Json json_of(std::vector<std::string> words) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("nibble_demo_golden_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::vector<std::string> program = {NIBBLE_PROGRAM};
  words.insert(words.begin(), program.begin(), program.end());
  words.emplace_back("--json");
  const testing::ProcessResult result = testing::run_process(words, folder);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? core::parse_json(result.out, "output") : core::Json::object();
}

std::string demo() {
  return (kRoot / "models/demo").string();
}

TEST(DemoGolden, PerplexityOfTheEvaluationText) {
  const core::Json expected = golden()["text"];
  const core::Json result =
      json_of({"eval", demo(), "--text", (kRoot / expected["file"].get<std::string>()).string(),
               "--seq-len", std::to_string(expected["seq_len"].get<int>())});
  EXPECT_EQ(result["text_tokens"], expected["tokens"]);
  EXPECT_EQ(result["tokens"], expected["predictions"]);
  const auto perplexity = expected["perplexity"].get<double>();
  EXPECT_NEAR(result["perplexity"].get<double>(), perplexity, 1e-4 * perplexity);
}

TEST(DemoGolden, GreedyTokens) {
  const core::Json expected = golden()["prompt"];
  const core::Json result = json_of({"run", demo(), "-p", expected["text"], "--temp", "0", "-n",
                                     std::to_string(expected["greedy_ids"].size())});
  EXPECT_EQ(result["prompt_tokens"], expected["ids"].size());
  EXPECT_EQ(result["token_ids"], expected["greedy_ids"]);
  EXPECT_EQ(result["text"], expected["greedy_text"]);
}

}  // namespace
}  // namespace nibble
