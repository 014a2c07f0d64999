#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/json.h"
#include "core/temporary_folder_for_tests.h"
#include "process.h"

// Where the options of `nibble serve` come from. Rows of docs/server.md: call, environment, file,
// default.
namespace nibble {
namespace {

namespace fs = std::filesystem;
using core::Json;
using testing::ProcessResult;

class ServeSettings : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& name : variables_) {
      unsetenv(name.c_str());
    }
  }

  void set_variable(const std::string& name, const std::string& value) {
    variables_.push_back(name);
    setenv(name.c_str(), value.c_str(), 1);
  }
  std::string write(const std::string& text) const {
    const fs::path file = folder_ / "serve.toml";
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
  ProcessResult serve(const std::vector<std::string>& options) const {
    std::vector<std::string> words = {NIBBLE_PROGRAM, "serve"};
    words.insert(words.end(), options.begin(), options.end());
    return testing::run_process(words, folder_);
  }
  /// What --print-config says.
  Json print(std::vector<std::string> options) const {
    options.emplace_back("--print-config");
    const ProcessResult result = serve(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? core::parse_json(result.out, "stdout") : Json::object();
  }
  /// That a call is refused in one line that holds all of `parts`.
  void is_refused(const std::vector<std::string>& options,
                  const std::vector<std::string>& parts) const {
    const ProcessResult result = serve(options);
    EXPECT_EQ(result.exit_code, 2) << parts[0] << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts) {
      EXPECT_NE(result.err.find(part), std::string::npos) << part << ": " << result.err;
    }
  }

  const core::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  std::vector<std::string> variables_;
};

TEST_F(ServeSettings, CallBeforeEnvironmentBeforeFileBeforeDefault) {
  const std::string file = write(
      "# of this machine\n"
      "model = 'my model' # a comment\n"
      "port = 1111\nmax-batch = 1_2\nmax-queue=13\r\n"
      "kv-type = \"int8 # \\\"\"\n"
      "\n  no-prefix-cache = true\nquiet = false\n"
      "alias = [\n  \"one\", # the first\n  'two, and more',\n]\n"
      "lora = \"adapter\"\n");
  set_variable("NIBBLE_SERVE_MAX_BATCH", "22");
  set_variable("NIBBLE_SERVE_MAX_QUEUE", "23");
  set_variable("NIBBLE_SERVE_LOG_JSON", "true");
  set_variable("NIBBLE_SERVE_CONTEXT", "");
  is_refused({"--config", file}, {file, "line 6", "kv-type", "int8 # \""});
  const Json json =
      print({"--config", file, "--max-queue", "33", "--lora-scale", "2", "--kv-type", "int8"});
  EXPECT_EQ(json.at("model"), "my model");
  EXPECT_EQ(json.at("port"), 1111);
  EXPECT_EQ(json.at("max-batch"), 22);
  EXPECT_EQ(json.at("max-queue"), 33);
  EXPECT_EQ(json.at("kv-type"), "int8");
  EXPECT_EQ(json.at("no-prefix-cache"), true);
  EXPECT_EQ(json.at("quiet"), false);
  EXPECT_EQ(json.at("log-json"), true);
  EXPECT_EQ(json.at("served-model-name"), Json::array({"one", "two, and more"}));
  EXPECT_EQ(json.at("lora-scale"), 2.0);
  EXPECT_EQ(json.at("host"), "127.0.0.1") << "the default";
  EXPECT_TRUE(json.at("context").is_null()) << "an empty variable says nothing";
  EXPECT_FALSE(json.contains("config"));
}

TEST_F(ServeSettings, FilesAreToml) {
  const Json json = print({"m", "--config",
                           write("\xef\xbb\xbf\"port\" = 0x10\nhost = \"a\\u0041\"\n"
                                 "memory = \"\"\"1MiB\"\"\"\nlora-scale = 1_0.5e1\nlora = 'x'\n"
                                 "insecure = true\n")});
  EXPECT_EQ(json.at("port"), 16);
  EXPECT_EQ(json.at("host"), "aA");
  EXPECT_EQ(json.at("memory"), "1MiB");
  EXPECT_EQ(json.at("lora-scale"), 105.0);
}

TEST_F(ServeSettings, TheEnvironmentNamesTheFileToo) {
  set_variable("NIBBLE_SERVE_CONFIG", write("port = 1111\n"));
  set_variable("NIBBLE_SERVE_MODEL", "m");
  EXPECT_EQ(print({}).at("port"), 1111);
  const fs::path other = folder_ / "other.toml";
  std::ofstream(other) << "port = 2222";
  EXPECT_EQ(print({"--config", other.string()}).at("port"), 2222);
  EXPECT_EQ(serve({"--config", (folder_ / "none").string()}).exit_code, 5);
  EXPECT_EQ(serve({"--help"}).exit_code, 0);
}

TEST_F(ServeSettings, WhatIsWrongInAFileIsNamed) {
  const auto refused = [&](const std::string& text, const std::string& line,
                           const std::string& part) {
    const std::string file = write(text);
    is_refused({"m", "--config", file, "--print-config"}, {file + ", line " + line, part});
  };
  refused("port = 1\nprot = 2\n", "2", "'prot' is no option");
  refused("config = 'x'", "1", "'config'");
  refused("print-config = true", "1", "'print-config'");
  refused("help = true", "1", "'help'");
  refused("port = 70000", "1", "70000");
  refused("\nport = -1", "2", "-1");
  refused("port = 'x'", "1", "x");
  refused("port = [1, 2]", "1", "port");
  refused("memory = '1x'", "1", "1x");
  refused("device = 'tpu'", "1", "tpu");
  refused("quiet = 'perhaps'", "1", "perhaps");
  refused("quiet = 2", "1", "true or false");
  refused("port = 1\nport = 2", "2", "port");
  refused("alias = 'a'\nserved-model-name = 'b'", "2", "twice");
  for (const char* text : {"port",
                           "port =",
                           "port = 08",
                           "port = 1 2",
                           "port 1",
                           "= 1",
                           "[serve]",
                           "host = 127.0.0.1",
                           "host = \"a",
                           "host = 'a''b'",
                           "alias = ['a'",
                           "alias = ['a' 'b']",
                           "alias = [['a']]",
                           "a.b = 1",
                           "port = 1979-05-27",
                           "port = 1__0",
                           "port = inf",
                           "host = \"a\nb\"",
                           "port = 1\xff",
                           "port = {a = 1}"}) {
    refused(text, "1", "");
  }
}

TEST_F(ServeSettings, WhatIsWrongInTheEnvironmentIsNamed) {
  set_variable("NIBBLE_SERVE_PORT", "tcp://10.0.0.1:8080");
  is_refused({"m"}, {"NIBBLE_SERVE_PORT", "tcp://10.0.0.1:8080"});
  EXPECT_EQ(print({"m", "--port", "5"}).at("port"), 5) << "what is overruled does not count";
  EXPECT_EQ(testing::run_process({NIBBLE_PROGRAM, "inspect", "none"}, folder_).exit_code, 5)
      << "other commands have no such variables";
}

TEST_F(ServeSettings, NoKeyIsPrinted) {
  set_variable("NIBBLE_API_KEY", "first-secret");
  const ProcessResult result = serve({"m", "--config", write("api-key = ['other-secret']\n"),
                                      "--host", "0.0.0.0", "--print-config"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(core::parse_json(result.out, "stdout").at("api-key"), Json::array({"***"}));
  EXPECT_EQ((result.out + result.err).find("secret"), std::string::npos);
}

}  // namespace
}  // namespace nibble
