#include <algorithm>

#include <gtest/gtest.h>

#include "core/temporary_folder_for_tests.h"
#include "process.h"

// The program between full disks, closed descriptors, readers that leave and memory that is short.
namespace nibble {
namespace {

namespace fs = std::filesystem;
using testing::ProcessResult;

const std::string kDemo = std::string(NIBBLE_SOURCE_DIR) + "/models/demo";

class Output : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory_symlink(kDemo, link_); }

  // A line for the shell, run in the folder of the test. NIBBLE is the program, model the demo
  // model.
  ProcessResult shell(std::string line) {
    for (std::size_t at = line.find("NIBBLE"); at != std::string::npos; at = line.find("NIBBLE")) {
      line.replace(at, 6, "\"$@\"");
    }
    std::vector<std::string> words = {"/bin/sh", "-c", "cd '" + folder_.string() + "' && " + line,
                                      "sh"};
    const std::vector<std::string> program = {NIBBLE_PROGRAM};
    words.insert(words.end(), program.begin(), program.end());
    return testing::run_process(words, folder_);
  }

  std::string content(const std::string& name) const { return testing::read_file(folder_ / name); }

  const core::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  const fs::path link_ = folder_ / "model";
};

const char* const kSay =
    "run model -p 'A nibble is' -n 2 --temp 0 --threads 1";  // and speaks on stderr

TEST_F(Output, NotesThatCannotBeWrittenAreLost) {
  const std::string call = std::string("NIBBLE ") + kSay;
  const std::string expected = shell(call).out;
  ASSERT_NE(expected, "");
  for (const char* lost : {" 2>/dev/full", " 2>&-", " 2>/dev/null <&-"}) {
    const ProcessResult result = shell(call + lost);
    EXPECT_EQ(result.exit_code, 0) << lost << result.err;
    EXPECT_EQ(result.out, expected) << lost;
  }
  EXPECT_EQ(shell("NIBBLE fly 2>/dev/full").exit_code, 2);
  EXPECT_EQ(shell("NIBBLE fly 2>&-").exit_code, 2);
  EXPECT_EQ(shell("{ sleep 0.3; NIBBLE fly 2>&1; echo $? >status; } | true").exit_code, 0);
  EXPECT_EQ(content("status"), "2\n");
}

TEST_F(Output, ResultsThatNobodyReadsEndTheProgramInSilence) {
  for (const char* call : {"inspect model", "inspect model --json", "--help", kSay}) {
    const ProcessResult result =
        shell(std::string("{ sleep 0.3; NIBBLE ") + call + " 2>notes; echo $? >status; } | true");
    EXPECT_EQ(content("notes"), "") << call;
    EXPECT_EQ(content("status"), "141\n") << call << ": as one that SIGPIPE ended";
  }
}

TEST_F(Output, ResultsThatCannotBeWrittenAreAnError) {
  const std::string text = " --text model/texts/evaluation.txt --max-tokens 64 --seq-len 32";
  const std::string data = " --data '" + std::string(NIBBLE_SOURCE_DIR) + "/tests/data/tasks'";
  const std::string small = " --pp 4 --tg 2";
  shell("NIBBLE quantize model -o w4 --recipe rtn-w4g128 -q");
  shell("echo Hello >said; echo '{{ messages[0].content }}' >t.jinja");
  const std::vector<std::string> calls = {
      "--version",
      "--help",
      "help run",
      "inspect --help",
      "inspect model",
      "inspect model --json",
      "inspect model model.norm.weight",
      kSay,
      kSay + std::string(" --json"),
      "chat model --template t.jinja -n 2 <said",
      "eval model" + text,
      "eval model --json" + text,
      "tasks model --task copa" + data,
      "tasks model --task copa --json" + data,
      "bench model" + small,
      "bench model --json" + small,
      "compare model --recipes rtn-w4g128" + small + text,
      "compare model --recipes rtn-w4g128 --json" + small + text,
      "quantize model -o out --recipe rtn-w4g128 -q",
      "quantize model -o out --recipe rtn-w4g128 -q --json",
      "pack w4",
      "serve model --port 0 -q",
      "serve model --print-config"};
  for (const std::string& call : calls) {
    for (const char* full : {" >/dev/full", " >&-"}) {
      const ProcessResult result = shell("rm -rf out; NIBBLE " + call + full);
      EXPECT_EQ(result.exit_code, 5) << call << full;
      EXPECT_NE(result.err.find("nibble: error: cannot write to standard output"),
                std::string::npos)
          << call << full << result.err;
      const std::string last = result.err.substr(result.err.rfind('\n', result.err.size() - 2) + 1);
      EXPECT_EQ(last.find("nibble: error: "), 0u) << call << result.err;
    }
  }
}

// A file must not become the standard output of a program that has none.
TEST_F(Output, ClosedDescriptorsStayClosedToFiles) {
  EXPECT_EQ(shell("NIBBLE inspect model --html page.html <&- >&- 2>&-").exit_code, 0);
  EXPECT_EQ(content("page.html").substr(0, 15), "<!doctype html>");
  EXPECT_EQ(shell("NIBBLE fly <&- >&- 2>&-").exit_code, 2);
}

// Names whose letters are escaped, cut in their middle, or neither.
TEST_F(Output, ErrorsAreShortLines) {
  for (const char* letter : {"x", "\x01", "\xff", "漢"}) {
    std::string name;
    for (int i = 0; i < 1000; ++i) {
      name += letter;
    }
    for (const std::string& call :
         {"NIBBLE '" + name + "'", "NIBBLE inspect '" + name + "'",
          "NIBBLE inspect model '" + name + "'", "NIBBLE inspect model '--" + name + "'",
          "NIBBLE run model -p x --regex '" + name + "('"}) {
      const ProcessResult result = shell(call);
      EXPECT_NE(result.exit_code, 0);
      EXPECT_LE(result.err.size(), 400u) << result.err;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
  }
}

TEST_F(Output, APageReplacesNothingButPages) {
  fs::copy(kDemo, folder_ / "own", fs::copy_options::recursive);
  const std::string config = content("own/config.json");
  for (const char* place : {"own/config.json", "link.html", "hard.html"}) {
    fs::remove(folder_ / "link.html");
    fs::remove(folder_ / "hard.html");
    fs::create_symlink("own/config.json", folder_ / "link.html");
    fs::create_hard_link(folder_ / "own/config.json", folder_ / "hard.html");
    const ProcessResult result = shell(std::string("NIBBLE inspect own --html ") + place);
    EXPECT_EQ(result.exit_code, 2) << place << result.err;
    EXPECT_NE(result.err.find("is there and is no page"), std::string::npos) << result.err;
    EXPECT_EQ(content("own/config.json"), config) << place;
  }
  EXPECT_EQ(shell("NIBBLE inspect own --html page.html").exit_code, 0);
  EXPECT_EQ(shell("NIBBLE inspect own --html page.html").exit_code, 0) << "a page may be replaced";
  EXPECT_EQ(shell("NIBBLE inspect own --html missing/page.html").exit_code, 5);
}

TEST_F(Output, APageGoesThroughAPipe) {
  fs::create_symlink("/proc/self/fd/1", folder_ / "stdout.html");  // as /dev/stdout
  const ProcessResult result = shell("NIBBLE inspect model --html stdout.html | cat");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out.substr(0, 15), "<!doctype html>");
  EXPECT_NE(result.out.find("</html>"), std::string::npos);
}

// Whether the program takes few enough addresses to be limited in them: sanitizers take them all.
bool can_be_limited() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return std::vector<std::string>{NIBBLE_PROGRAM}.size() == 1;  // not behind an emulator
#endif
}

std::string within(int mib, const std::string& call) {
  return "(ulimit -v " + std::to_string(mib * 1024) +
         "; exec timeout --foreground -s KILL 30 NIBBLE " + call + ")";
}

TEST_F(Output, TellsItsVersionInLittleMemory) {
  if (!can_be_limited()) {
    GTEST_SKIP() << "a sanitizer or an emulator takes all addresses";
  }
  const std::string program = std::vector<std::string>{NIBBLE_PROGRAM}.back();
  EXPECT_EQ(
      shell(within(static_cast<int>(fs::file_size(program) >> 20) + 150, "--version")).exit_code,
      0);
}

// What a call needs to end by itself: a server is stopped once it listens.
std::string ended(const std::string& call, const std::string& limited) {
  return call.rfind("serve", 0) != 0
             ? limited
             : limited +
                   " >said & for i in $(seq 600); do "
                   "if grep -q Listening said; then kill $!; break; fi; "
                   "kill -0 $! 2>/dev/null || break; sleep 0.05; done; wait $!";
}

TEST_F(Output, LackOfMemoryIsSaidAtOnce) {
  if (!can_be_limited()) {
    GTEST_SKIP() << "a sanitizer or an emulator takes all addresses";
  }
  const std::string quantize =
      "quantize model -o out --recipe gptq-w4g128 --calib "
      "model/texts/calibration.txt --samples 2 --seq-len 32 --threads 2 -q";
  for (const std::string& call :
       {std::string(kSay), quantize, std::string("serve model --port 0 --threads 2 -q")}) {
    int refused = 0;
    int done = 0;
    for (int mib = 32; done == 0 && mib < 4000; mib += mib / 16) {
      if (refused == 0 && shell(within(mib, "--version")).exit_code != 0) {
        continue;  // there is no memory for the program itself
      }
      const ProcessResult result =
          shell("rm -rf out .out.partial; " + ended(call, within(mib, call)));
      done += result.exit_code == 0 ? 1 : 0;
      refused += result.exit_code == 4 ? 1 : 0;
      EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 4)
          << call << " in " << mib << " MiB: " << result.exit_code << ' ' << result.err;
      EXPECT_EQ(result.err.find("JSON"), std::string::npos) << result.err;
    }
    EXPECT_EQ(done, 1) << call;
    EXPECT_GT(refused, 0) << call;
  }
}

}  // namespace
}  // namespace nibble
