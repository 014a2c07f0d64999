#include <algorithm>
#include <clocale>
#include <cwchar>
#include <map>

#include <gtest/gtest.h>

#include "core/temporary_folder_for_tests.h"
#include "process.h"
#include "pseudo_terminal.h"

// What the program shows on terminals of all widths, and what it says when it is interrupted.
namespace nibble {
namespace {

namespace fs = std::filesystem;
using testing::ProcessResult;
using testing::PseudoTerminal;

const std::string kDemo = std::string(NIBBLE_SOURCE_DIR) + "/models/demo";
const std::string kText = kDemo + "/texts/evaluation.txt";
const std::string kCalibration = kDemo + "/texts/calibration.txt";
const std::string kClearLine = "\r\x1B[K";

using Words = std::vector<std::string>;

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// By the C library, not by the tables of the program.
std::size_t columns_of(const std::string& text) {
  const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  const locale_t before = uselocale(utf8);
  std::size_t columns = 0;
  std::mbstate_t state = {};
  for (std::size_t at = 0; at < text.size();) {
    wchar_t c = 0;
    const std::size_t bytes = std::mbrtowc(&c, text.data() + at, text.size() - at, &state);
    EXPECT_LT(bytes, std::size_t(-2)) << "no UTF-8: " << text;
    EXPECT_GE(wcwidth(c), 0) << "a control character in: " << text;
    columns += static_cast<std::size_t>(std::max(0, wcwidth(c)));
    at += std::clamp<std::size_t>(bytes, 1, 4);
  }
  uselocale(before);
  freelocale(utf8);
  return columns;
}

Words parts_of(const std::string& text, const std::string& separator) {
  Words parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return parts;
}

// The bars in what a terminal was shown: each begins by clearing the line and ends no line.
Words bars_of(const std::string& shown) {
  Words bars = parts_of(shown, kClearLine);
  bars.erase(bars.begin());
  bars.erase(std::remove_if(bars.begin(), bars.end(),
                            [](const std::string& part) {
                              return part.empty() || part.find('\n') != std::string::npos;
                            }),
             bars.end());
  return bars;
}

void expect_narrower(const Words& bars, std::size_t columns) {
  EXPECT_GE(bars.size(), 3u);
  for (const std::string& bar : bars) {
    EXPECT_LT(columns_of(bar), columns) << bar;
  }
}

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename()] = testing::read_file(entry.path());
  }
  return files;
}

class Terminal : public ::testing::Test {
 protected:
  Words quantize(const std::string& output, const std::string& samples = "6") const {
    return {NIBBLE_PROGRAM, "quantize",    kDemo,     "-o",         path(output),
            "--recipe",     "gptq-w4g128", "--calib", kCalibration, "--samples",
            samples,        "--seq-len",   "256"};
  }
  static Words compare(const std::string& recipes) {
    return {NIBBLE_PROGRAM, "compare",      kDemo,        "--recipes", recipes, "--text",
            kText,          "--calib",      kCalibration, "--samples", "4",     "--calib-seq-len",
            "128",          "--max-tokens", "2048",       "--seq-len", "256",   "--pp",
            "32",           "--tg",         "8"};
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  const core::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Terminal, BarsAreNarrowerThanIt) {
  for (const unsigned short columns : {10, 50, 80}) {
    const std::string output = std::to_string(columns);
    PseudoTerminal terminal(quantize(output), columns);
    EXPECT_EQ(terminal.wait_for_end(), 0) << terminal.shown();
    expect_narrower(bars_of(terminal.shown()), columns);
  }
}

TEST_F(Terminal, BarsFollowItsWidth) {
  PseudoTerminal terminal(quantize("resized"), 150);
  ASSERT_TRUE(terminal.wait_for(" left")) << terminal.shown();
  terminal.resize(30);
  const std::size_t before = terminal.shown().size();
  EXPECT_EQ(terminal.wait_for_end(), 0);
  Words bars = bars_of(terminal.shown().substr(before));
  ASSERT_GE(bars.size(), 3u);
  bars.erase(bars.begin(), bars.begin() + 2);  // begun before
  EXPECT_GE(bars.size(), 1u);
  for (const std::string& bar : bars) {
    EXPECT_LT(columns_of(bar), 30u) << bar;
  }
}

TEST_F(Terminal, ComparisonsSayWhichOfHowManyRecipes) {
  std::ofstream(folder_ / "模型的量化.json")
      << R"({"scheme": "int4-asym-g128", "passes": ["gptq"]})";
  const std::string recipes = "rtn-w4g128," + path("模型的量化.json");
  for (const unsigned short columns : {45, 100}) {
    PseudoTerminal terminal(compare(recipes), columns);
    EXPECT_EQ(terminal.wait_for_end(), 0) << terminal.shown();
    const std::string& shown = terminal.shown();
    expect_narrower(bars_of(shown), columns);
    EXPECT_NE(shown.find("1 of 2"), std::string::npos) << shown;
    EXPECT_NE(shown.find("2 of 2"), std::string::npos) << shown;
    EXPECT_NE(shown.find(" left"), std::string::npos) << shown;
    for (const std::string& line : parts_of(shown.substr(shown.find("recipe  ")), "\r\n")) {
      if (line.find('\r') == std::string::npos && line.find("nibble:") == std::string::npos) {
        EXPECT_LE(columns_of(line), columns) << line;
      }
    }
  }
}

TEST_F(Terminal, TablesFitAPageWhereThereIsNone) {
  const ProcessResult page = testing::run_process(compare("rtn-w4g128,gptq-w4g128"), folder_);
  ASSERT_EQ(page.exit_code, 0) << page.err;
  for (const std::string& line : parts_of(page.out, "\n")) {
    EXPECT_LE(columns_of(line), 100u) << line;
  }
  EXPECT_EQ(page.out.find("KL median"), std::string::npos);
  EXPECT_NE(page.err.find("do not fit: KL median, "), std::string::npos) << page.err;
  EXPECT_NE(page.err.find("; --wide shows all"), std::string::npos) << page.err;
  const ProcessResult wide =
      testing::run_process(joined(compare("rtn-w4g128"), {"--wide"}), folder_);
  ASSERT_EQ(wide.exit_code, 0) << wide.err;
  for (const char* column : {"KL median", "KL 99.9 %", "weights MB", "peak MB", "quantize s"}) {
    EXPECT_NE(wide.out.find(column), std::string::npos) << column;
  }
  EXPECT_EQ(wide.err.find("--wide"), std::string::npos) << wide.err;
}

TEST_F(Terminal, AnInterruptedJobSaysHowToGoOn) {
  const std::string samples = "24";  // long enough for a key to be pressed before its end
  ASSERT_EQ(testing::run_process(quantize("whole", samples), folder_).exit_code, 0);
  PseudoTerminal terminal(quantize("it's interrupted", samples), 150);
  ASSERT_TRUE(terminal.wait_for("block 2 of 6")) << terminal.shown();
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait_for_end(), -SIGINT);
  const std::string begin = "nibble: interrupted; go on with: ";
  const std::size_t said = terminal.shown().find(begin);
  ASSERT_NE(said, std::string::npos) << terminal.shown();
  const std::size_t command = said + begin.size();
  const std::size_t end = terminal.shown().find("\r\n", command);
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(terminal.shown().find_first_not_of("\r\n", end), std::string::npos) << "and no more";
  if (const Words program = {NIBBLE_PROGRAM}; program.size() > 1) {
    GTEST_SKIP() << "an emulator runs the program: a shell can't";
  }
  const ProcessResult resumed =
      testing::run_process({"sh", "-c", terminal.shown().substr(command, end - command)}, folder_);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(contents(folder_ / "it's interrupted"), contents(folder_ / "whole"));
}

TEST_F(Terminal, QuietJobsShowNoBar) {
  PseudoTerminal terminal(joined(quantize("quiet"), {"-q"}), 80);
  EXPECT_EQ(terminal.wait_for_end(), 0);
  EXPECT_EQ(terminal.shown().find('\x1B'), std::string::npos) << terminal.shown();
}

}  // namespace
}  // namespace nibble
