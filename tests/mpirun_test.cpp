// Several processes that run one model, as users start them: by mpirun, or by the variables that
// torchrun sets. tests/divided_model_test.cpp compares logits, this one what the program writes.
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli_for_tests.h"
#include "serve/raw_client_for_tests.h"

namespace nibble {
namespace {

using Words = std::vector<std::string>;
using Seconds = std::chrono::duration<double>;

constexpr auto kEndsWithin = std::chrono::seconds(10);

Seconds since(std::chrono::steady_clock::time_point start) {
  return std::chrono::steady_clock::now() - start;
}

// A process with standard output and error in files.
class Process {
 public:
  Process(Words words, const fs::path& output) : output_(output) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_path().c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_addopen(&actions, 2, err_path().c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    EXPECT_EQ(posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return testing::read_file(out_path()); }
  std::string err() const { return testing::read_file(err_path()); }

  // -signal when a signal ended it; nothing when it has not ended by then.
  std::optional<int> end(std::chrono::steady_clock::duration within) {
    const auto start = std::chrono::steady_clock::now();
    while (since(start) < within) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return std::nullopt;
  }

 private:
  fs::path out_path() const { return output_.string() + ".out"; }
  fs::path err_path() const { return output_.string() + ".err"; }

  fs::path output_;
  pid_t pid_ = 0;
};

template <typename Condition>
bool comes_true(Condition condition, std::chrono::seconds within = std::chrono::seconds(60)) {
  const auto start = std::chrono::steady_clock::now();
  while (!condition()) {
    if (since(start) > within) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) {
    ++found;
  }
  return found;
}

class Mpirun : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    if (std::string(NIBBLE_MPIRUN).empty()) {
      const char* const ci = std::getenv("CI");
      ASSERT_FALSE(ci != nullptr && std::string(ci) == "true")
          << "there is no mpirun (tools/install_dependencies.sh installs it)";
      GTEST_SKIP() << "there is no mpirun (tools/install_dependencies.sh installs it)";
    }
  }

  static Words launched(int ranks, const Words& words) {
    Words all = {NIBBLE_MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                 "-n",          std::to_string(ranks), NIBBLE_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  ProcessResult ranks(int count, const Words& words) {
    return testing::run_process(launched(count, words), folder_);
  }

  Json json_of_ranks(int count, Words words) {
    words.insert(words.end(), {"--json", "--threads", "1"});
    const ProcessResult result = count == 1 ? nibble(words) : ranks(count, words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? core::parse_json(result.out, "output") : Json::object();
  }

  void expect_the_tokens_of_one_rank(const std::string& model, const std::vector<int>& counts) {
    const Words words = {"run", model,    "-p", "The the a of and in", "-n",
                         "24",  "--temp", "0",  "--ignore-eos"};
    const Json alone = json_of_ranks(1, words);
    ASSERT_EQ(alone["token_ids"].size(), 24u) << model;
    for (const int count : counts) {
      const Json together = json_of_ranks(count, words);
      EXPECT_EQ(together["token_ids"], alone["token_ids"]) << model << " on " << count;
      EXPECT_EQ(together["text"], alone["text"]);
    }
  }

  std::string quantized(const std::string& model, const std::string& recipe) {
    const std::string target = path(fs::path(model).filename().string() + "-" + recipe);
    const ProcessResult made = nibble({"quantize", model, "-o", target, "--recipe", recipe, "-q"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return target;
  }
};

TEST_F(Mpirun, GivesTheTokensOfOneRank) {
  expect_the_tokens_of_one_rank(kDemo, {2, 4});
  for (const char* recipe : {"rtn-w4g128", "w8a8"}) {
    expect_the_tokens_of_one_rank(quantized(kDemo, recipe), {2, 4});
  }
  for (const char* family : {"mixtral", "gpt2", "qwen3"}) {
    expect_the_tokens_of_one_rank(kSource + "/tests/families/" + family, {2});
  }
}

TEST_F(Mpirun, GivesTheSamplesOfOneRank) {
  const Words words = {"run",    kDemo, "-p",     "Once", "-n",       "16",
                       "--temp", "1",   "--seed", "3",    "--copies", "2"};
  EXPECT_EQ(json_of_ranks(2, words)["choices"], json_of_ranks(1, words)["choices"]);
}

TEST_F(Mpirun, MeasuresThePerplexityOfOneRank) {
  const Words words = {"eval", kDemo, "--text", kText, "--max-tokens", "600", "--seq-len", "128"};
  const Json alone = json_of_ranks(1, words);
  const Json together = json_of_ranks(2, words);
  ASSERT_TRUE(alone.contains("perplexity"));
  EXPECT_EQ(together["perplexity"], alone["perplexity"]);
  EXPECT_EQ(together["tokens"], alone["tokens"]);
}

TEST_F(Mpirun, MeasuresSpeed) {
  const Json rows = json_of_ranks(
      2, {"bench", kDemo, "--pp", "16", "--tg", "4", "--batch", "1,2", "--repeats", "1"});
  ASSERT_EQ(rows["rows"].size(), 3u) << rows.dump();
  EXPECT_GT(rows["rows"][0]["tokens_per_s"], 0);
}

TEST_F(Mpirun, OneRankSaysWhatIsRefused) {
  const auto refused = [&](const Words& words, int code, const std::string& part) {
    const ProcessResult result = ranks(2, words);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_EQ(count(result.err, "nibble: error: "), 1u) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  };
  const std::string families = kSource + "/tests/families/";
  // By number no rank has a GPU; and most machines have none.
  refused({"run", kDemo, "-p", "a", "--device", "cuda:1"}, 2, "use --device cpu");
  refused({"run", kDemo, "-p", "a", "--packed", "x"}, 2, "--packed, --lora and --strategy");
  refused({"inspect", kDemo}, 2, "this command does not");
  refused({"run", kDemo, "-p", "a", "--no-such-option"}, 2, "unknown option");
  refused({"run", families + "bert", "-p", "a"}, 2, "models with an encoder");
  refused({"run", path("nothing"), "-p", "a"}, 5, "there is no model");
  refused({"run", kDemo, "-p", ""}, 2, "the prompt is empty");
  const ProcessResult three = ranks(3, {"run", families + "llama", "-p", "a"});
  EXPECT_EQ(three.exit_code, 2);
  EXPECT_NE(three.err.find("cannot be divided among 3 ranks"), std::string::npos) << three.err;
}

// Ranks as torchrun starts them, without anybody who ends the others.
class RanksByVariables : public Cli {
 protected:
  std::vector<std::unique_ptr<Process>> start(int count, const Words& words) {
    std::vector<std::unique_ptr<Process>> all;
    for (int rank = 0; rank < count; ++rank) {
      Words call = {"env", fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", count),
                    NIBBLE_PROGRAM};
      call.insert(call.end(), words.begin(), words.end());
      all.push_back(std::make_unique<Process>(call, folder_ / fmt::format("rank-{}", rank)));
    }
    return all;
  }

  // Kills a rank. All others must end in time and not with 0, and `speaker` alone must say why.
  static void expect_end_of_all(std::vector<std::unique_ptr<Process>>& all, std::size_t killed,
                                std::size_t speaker) {
    kill(all[killed]->pid(), SIGKILL);
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto code =
          all[rank]->end(kEndsWithin - since(start) > Seconds(0)
                             ? std::chrono::duration_cast<std::chrono::seconds>(kEndsWithin)
                             : std::chrono::seconds(0));
      ASSERT_TRUE(code.has_value()) << "rank " << rank << " goes on";
      EXPECT_EQ(*code, rank == killed ? -SIGKILL : 1) << "rank " << rank;
      const std::string said = all[rank]->err();
      EXPECT_EQ(count(said, "has died, or its host is gone\n"), rank == speaker ? 1u : 0u)
          << "rank " << rank << ": " << said;
    }
    EXPECT_LT(since(start), kEndsWithin);
  }
};

const Words kLong = {"run", kDemo, "-p", "Once", "-n", "1000", "--ignore-eos", "--threads", "1"};

TEST_F(RanksByVariables, RunTogether) {
  auto all = start(2, {"run", kDemo, "-p", "Once", "-n", "8", "--temp", "0", "-q"});
  for (auto& process : all) {
    EXPECT_EQ(process->end(std::chrono::seconds(60)), 0) << process->err();
    EXPECT_EQ(process->err(), "");
  }
  EXPECT_EQ(all[0]->out(),
            nibble({"run", kDemo, "-p", "Once", "-n", "8", "--temp", "0", "-q"}).out);
  EXPECT_EQ(all[1]->out(), "");
}

TEST_F(RanksByVariables, EndWithTheFirst) {
  auto all = start(2, {"run", kDemo, "-p", ""});
  EXPECT_EQ(all[0]->end(std::chrono::seconds(60)), 2);
  EXPECT_EQ(all[1]->end(std::chrono::seconds(60)), 0) << "it has not failed";
  EXPECT_EQ(all[1]->err(), "");
}

TEST_F(RanksByVariables, SayWhatFailedElsewhere) {
  const std::string missing = path("missing");
  Process first({"env", "RANK=0", "WORLD_SIZE=2", NIBBLE_PROGRAM, "run", kDemo, "-p", "Once"},
                folder_ / "first");
  Process second({"env", "RANK=1", "WORLD_SIZE=2", NIBBLE_PROGRAM, "run", missing},
                 folder_ / "second");
  EXPECT_EQ(first.end(std::chrono::seconds(60)), 5);
  EXPECT_EQ(second.end(std::chrono::seconds(60)), 5);
  EXPECT_EQ(first.err(), "nibble: error: rank 1: there is no model at " + missing + "\n");
  EXPECT_EQ(second.err(), "");
}

TEST_F(RanksByVariables, AKilledFollowerEndsAll) {
  auto all = start(3 - 1, kLong);
  ASSERT_TRUE(comes_true([&] { return all[0]->out().size() > 20; }));
  expect_end_of_all(all, 1, 0);
}

TEST_F(RanksByVariables, AKilledLeaderEndsAll) {
  auto all = start(2, kLong);
  ASSERT_TRUE(comes_true([&] { return all[0]->out().size() > 20; }));
  expect_end_of_all(all, 0, 1);
}

TEST_F(RanksByVariables, OneOfFourEndsAll) {
  auto all = start(4, kLong);
  ASSERT_TRUE(comes_true([&] { return all[0]->out().size() > 20; }));
  expect_end_of_all(all, 2, 0);
}

class RanksServe : public RanksByVariables {
 protected:
  std::vector<std::unique_ptr<Process>> serve(int count) {
    auto all = start(count, {"serve", kDemo, "--port", "0", "--threads", "1"});
    EXPECT_TRUE(comes_true([&] { return all[0]->out().find('\n') != std::string::npos; }))
        << all[0]->err();
    const std::string line = all[0]->out();
    port_ = std::atoi(line.substr(line.rfind(':') + 1).c_str());
    return all;
  }

  Json complete() const {
    const serve::RawClient::Answer answer =
        serve::ask(port_, "POST", "/v1/completions",
                   R"({"prompt":"Once upon","max_tokens":12,"temperature":0,"ignore_eos":true})");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return core::parse_json(answer.body, "answer");
  }

  int port_ = 0;
};

TEST_F(RanksServe, AnswersAsOneRank) {
  std::vector<Json> texts;
  for (const int count : {1, 2}) {
    auto all = serve(count);
    texts.push_back(complete()["choices"][0]["text"]);
    for (auto& process : all) {
      kill(process->pid(), SIGTERM);  // as mpirun does: the leader ends them
    }
    for (auto& process : all) {
      EXPECT_EQ(process->end(std::chrono::seconds(30)), 0) << process->err();
    }
    EXPECT_EQ(count == 1 ? "" : all[1]->out() + all[1]->err(), "");
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST_F(RanksServe, AKilledFollowerEndsAServerThatWaits) {
  auto all = serve(2);
  complete();
  expect_end_of_all(all, 1, 0);
}

TEST_F(RanksServe, AKilledLeaderEndsItsFollower) {
  auto all = serve(2);
  expect_end_of_all(all, 0, 1);
}

}  // namespace
}  // namespace nibble
