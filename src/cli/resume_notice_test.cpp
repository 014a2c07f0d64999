#include "cli/resume_notice.h"

#include <csignal>

#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

TEST(ResumeNotice, CommandsAreWhatAShellReads) {
  const auto command = [](std::vector<std::string> words) { return resume_command(words); };
  EXPECT_EQ(command({"nibble", "quantize", "models/demo", "-o", "demo-w4"}),
            "nibble quantize models/demo -o demo-w4 --resume");
  EXPECT_EQ(command({"nibble", "--resume", "x"}), "nibble --resume x");
  EXPECT_EQ(command({"nibble", "my model", "it's", "", "$HOME", "a\nb"}),
            "nibble 'my model' 'it'\\''s' '' '$HOME' 'a\nb' --resume");
}

TEST(ResumeNotice, SignalsEndTheProgramWithALine) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          const ResumeNotice notice;
          std::raise(signal);
        },
        ::testing::KilledBySignal(signal), "^nibble: interrupted; go on with: .* --resume\n$");
  }
}

TEST(ResumeNotice, IgnoredSignalsStayIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_IGN);
        const ResumeNotice notice;
        std::raise(SIGINT);
        _exit(0);
      },
      ::testing::ExitedWithCode(0), "^$");
}

TEST(ResumeNotice, IsOverWhenItEnds) {
  EXPECT_EXIT(
      {
        { const ResumeNotice notice; }
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "^$");
}

}  // namespace
}  // namespace nibble::cli
