#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/json.h"
#include "core/temporary_folder_for_tests.h"
#include "process.h"
#include "serve/raw_client_for_tests.h"

// `nibble serve` as a process. The server's own tests are in src/serve.
namespace nibble {
namespace {

namespace fs = std::filesystem;
using serve::RawClient;
using testing::ProcessResult;

const std::string kDemo = std::string(NIBBLE_SOURCE_DIR) + "/models/demo";

class ServeProgram : public ::testing::Test {
 protected:
  void TearDown() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  std::vector<std::string> words_of(const std::vector<std::string>& options) const {
    std::vector<std::string> words = {NIBBLE_PROGRAM};
    for (const char* word : {"serve", model_.c_str(), "--threads", "1"}) {
      words.push_back(word);
    }
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }

  /// A call that ends by itself.
  ProcessResult ends(const std::vector<std::string>& options) {
    return testing::run_process(words_of(options), folder_);
  }

  /// Starts a server on a port of its choice.
  void start(std::vector<std::string> options) {
    options.insert(options.end(), {"--port", "0"});
    std::vector<std::string> words = words_of(options);
    int ends_of_pipe[2];
    ASSERT_EQ(pipe(ends_of_pipe), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends_of_pipe[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends_of_pipe[0]);
    posix_spawn_file_actions_addopen(&actions, 2, log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    ASSERT_EQ(posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends_of_pipe[1]);
    std::string line;
    for (char c = 0; read(ends_of_pipe[0], &c, 1) == 1 && c != '\n';) {
      line += c;
    }
    close(ends_of_pipe[0]);
    ASSERT_EQ(line.substr(0, 27), "Listening on http://127.0.0") << read_log();
    port_ = std::atoi(line.substr(line.rfind(':') + 1).c_str());
    ASSERT_GT(port_, 0);
  }

  int wait_for_end() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string read_log() const { return testing::read_file(log_); }

  std::string model_ = kDemo;
  const core::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  fs::path log_ = folder_ / "log";
  pid_t pid_ = 0;
  int port_ = 0;
};

const char* const kEndless =
    R"({"prompt":"Once","max_tokens":1000,"ignore_eos":true,"stream":true})";

RawClient stream(int port) {
  RawClient client(port);
  const std::string body = kEndless;
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  client.read_until("data: ");
  return client;
}

// More lines than a pipe holds.
void expect_answers(int port) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(serve::ask(port, "GET", "/nothing").status, 404) << "request " << i;
  }
}

TEST_F(ServeProgram, ALogThatCannotBeWrittenIsLost) {
  log_ = "/dev/full";
  start({});
  expect_answers(port_);
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
}

TEST_F(ServeProgram, TheReaderOfTheLogMayStopReadingAndEnd) {
  ASSERT_EQ(mkfifo(log_.c_str(), 0600), 0);
  const int reader = open(log_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(fcntl(reader, F_SETPIPE_SZ, 4096), 0);
  start({});
  expect_answers(port_);  // nobody reads
  close(reader);
  expect_answers(port_);  // nobody can
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
}

// Row 48.
TEST_F(ServeProgram, ASecondServerOnThePortSaysSo) {
  start({});
  EXPECT_EQ(serve::ask(port_, "GET", "/health").status, 200);
  const ProcessResult second = ends({"--port", std::to_string(port_)});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_NE(second.err.find("port " + std::to_string(port_) + ": the address is in use"),
            std::string::npos)
      << second.err;
  EXPECT_EQ(second.out, "");
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
}

// Row 45.
TEST_F(ServeProgram, ASignalLetsAnswersEnd) {
  start({});
  RawClient client = stream(port_);
  kill(pid_, SIGTERM);
  const std::string rest = client.read_all();
  EXPECT_NE(rest.find("\"finish_reason\":\"length\""), std::string::npos);
  EXPECT_NE(rest.find("data: [DONE]"), std::string::npos);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_NE(read_log().find("shutting down"), std::string::npos);
}

TEST_F(ServeProgram, ASecondSignalDoesNotWait) {
  start({"--log-json"});
  RawClient client = stream(port_);
  kill(pid_, SIGINT);
  client.read_until("data: ");
  for (int i = 0; i < 1000 && read_log().find("shutting down") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(pid_, SIGINT);
  const int code = wait_for_end();
  EXPECT_TRUE(code == 130 || code == 0) << code;  // 0: the answer was faster than the signal
  EXPECT_EQ(read_log().substr(0, 9), "{\"time\":\"");
}

// A file that is cut off under a server: nobody is told where it lies, and /health says that it
// happened. After three failures the server ends.
TEST_F(ServeProgram, LostWeightsAreSaidByHealth) {
  model_ = (folder_ / "model").string();
  fs::copy(kDemo, model_);
  start({});
  const std::string body = R"({"prompt":"Once","input":"Once","max_tokens":2})";
  EXPECT_EQ(serve::ask(port_, "POST", "/v1/completions", body).status, 200);
  EXPECT_EQ(serve::ask(port_, "GET", "/health").status, 200);
  fs::resize_file(fs::path(model_) / "model.safetensors", 1 << 16);
  for (const char* path : {"/v1/completions", "/v1/embeddings"}) {
    const auto answer = serve::ask(port_, "POST", path, body);
    EXPECT_EQ(answer.status, 500) << answer.body;
    EXPECT_EQ(answer.body.find(folder_.string()), std::string::npos) << answer.body;
    const auto health = serve::ask(port_, "GET", "/health");
    EXPECT_EQ(health.status, 503);
    EXPECT_NE(health.body.find("the model's files were changed"), std::string::npos) << health.body;
    EXPECT_EQ(health.body.find(folder_.string()), std::string::npos) << health.body;
  }
  EXPECT_NE(read_log().find(folder_.string()), std::string::npos) << read_log();
  serve::ask(port_, "POST", "/v1/completions", body);
  EXPECT_EQ(wait_for_end(), 1);
}

// Row 23: everybody on the network, and keys.
TEST_F(ServeProgram, OtherMachinesNeedAKey) {
  const ProcessResult open = ends({"--host", "0.0.0.0", "--port", "0"});
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_NE(open.err.find("--insecure"), std::string::npos);
  const fs::path keys = folder_ / "keys";
  std::ofstream(keys) << "# none\n";
  EXPECT_EQ(ends({"--api-key-file", keys.string(), "--port", "0"}).exit_code, 2);
  std::ofstream(keys) << "# one\nfile-key\n";
  setenv("NIBBLE_API_KEY", "environment-key", 1);
  start({"--api-key-file", keys.string(), "--api-key", "word-key"});
  unsetenv("NIBBLE_API_KEY");
  EXPECT_EQ(serve::ask(port_, "GET", "/v1/models").status, 401);
  for (const char* key : {"file-key", "word-key", "environment-key"}) {
    EXPECT_EQ(serve::ask(port_, "GET", "/v1/models", "",
                         std::string("Authorization: Bearer ") + key + "\r\n")
                  .status,
              200);
  }
  EXPECT_EQ(read_log().find("-key "), std::string::npos) << "no key in the log";
}

// libfaketime, which tells a program another time of day.
fs::path clock_library() {
  std::error_code error;
  for (const fs::directory_entry& folder : fs::directory_iterator("/usr/lib", error)) {
    const fs::path library = folder.path() / "faketime" / "libfaketimeMT.so.1";
    if (fs::exists(library, error)) {
      return library;
    }
  }
  return {};
}

void set_clock(const fs::path& file, const std::string& offset) {
  std::ofstream(file.string() + ".next") << offset << "\n";
  fs::rename(file.string() + ".next", file);
}

std::int64_t created(int port) {
  const auto answer = serve::ask(port, "POST", "/v1/completions", R"({"prompt":"a"})");
  return core::parse_json(answer.body, "answer").at("created");
}

// Row 47: the clock of the machine goes back, and ahead, while a text is written.
TEST_F(ServeProgram, TimesAreRightWhenTheClockJumps) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer must be loaded before all else";
#endif
  const fs::path library = clock_library();
  if (library.empty()) {
    const char* checks = std::getenv("CI");  // where everything is installed
    ASSERT_NE(std::string_view(checks == nullptr ? "" : checks), "true") << "no libfaketime";
    GTEST_SKIP() << "there is no libfaketime (Debian's package libfaketime)";
  }
  const fs::path clock = folder_ / "clock";
  set_clock(clock, "+0");
  const std::vector<std::pair<std::string, std::string>> variables = {
      {"LD_PRELOAD", library.string()},
      {"FAKETIME_TIMESTAMP_FILE", clock.string()},
      {"FAKETIME_NO_CACHE", "1"},
      {"FAKETIME_DONT_FAKE_MONOTONIC", "1"}};
  for (const auto& [name, value] : variables) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  const auto began = std::chrono::steady_clock::now();
  start({"--log-json"});
  for (const auto& [name, value] : variables) {
    unsetenv(name.c_str());
  }
  const std::int64_t before = created(port_);
  constexpr std::int64_t kJump = 1'000'000;  // seconds
  for (const std::int64_t jump : {-kJump, kJump}) {
    RawClient client = stream(port_);
    set_clock(clock, fmt::format("{:+}", jump));
    EXPECT_NE(client.read_until("[DONE]").find("[DONE]"), std::string::npos);
    const std::int64_t after = created(port_);
    EXPECT_TRUE(jump < 0 ? after < before - kJump / 2 : after > before + kJump / 2) << after;
  }
  const std::string metrics = serve::ask(port_, "GET", "/metrics").body;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
  int sums = 0;
  for (std::size_t at = metrics.find("_seconds_sum{"); at != std::string::npos;
       at = metrics.find("_seconds_sum{", at + 1)) {
    const double sum = std::stod(metrics.substr(metrics.find(' ', at)));
    EXPECT_GE(sum, 0) << metrics.substr(at - 40, 100);
    EXPECT_LE(sum, 5 * passed.count()) << metrics.substr(at - 40, 100);
    ++sums;
  }
  EXPECT_EQ(sums, 6);
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_EQ(read_log().find("\"seconds\":\"-"), std::string::npos) << read_log();
}

TEST_F(ServeProgram, WrongWordsAreRefused) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--port", "70000"},
                                             {"--max-batch", "0"},
                                             {"--context", "99999"},
                                             {"--memory", "1x"},
                                             {"--memory", "1B"},
                                             {"--kv-type", "int5"},
                                             {"--kv-type", "fp8-int8"}}) {
    EXPECT_EQ(ends(words).exit_code, 2) << words[0];
  }
}

}  // namespace
}  // namespace nibble
