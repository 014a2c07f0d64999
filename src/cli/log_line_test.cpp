#include "cli/log_line.h"

#include <gtest/gtest.h>

#include "core/json.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kTime = "2026-01-02T03:04:05Z";

serve::LogRecord request(const std::string& method, const std::string& path) {
  return {serve::LogLevel::kWarning,
          "request",
          {{"request", "req-0123456789abcdef"},
           {"remote", "2001:0db8:85a3:0000:0000:8a2e:0370:7334"},
           {"method", method},
           {"path", path},
           {"status", "404"},
           {"seconds", "0.001"},
           {"disconnected", "false"}}};
}

TEST(LogLine, HasAllOfAnOrdinaryRecord) {
  EXPECT_EQ(log_line(request("POST", "/v1/chat/completions"), kTime, false),
            "2026-01-02T03:04:05Z warning request request=req-0123456789abcdef "
            "remote=2001:0db8:85a3:0000:0000:8a2e:0370:7334 method=POST path=/v1/chat/completions "
            "status=404 seconds=0.001 disconnected=false\n");
  EXPECT_EQ(
      log_line({serve::LogLevel::kError, "a request failed", {{"reason", "no 'x'"}}}, kTime, true),
      R"({"time":"2026-01-02T03:04:05Z","level":"error","message":"a request failed",)"
      "\"reason\":\"no 'x'\"}\n");
}

TEST(LogLine, IsShortWhateverStandsInTheRecord) {
  for (const char* unit : {"x", "\"", "\\", "\n", "\x01", "\xff", "漢"}) {
    std::string text;
    while (text.size() < 8000) {
      text += unit;
    }
    for (const auto& record : {request(text, text),
                               request("POST", text),
                               {serve::LogLevel::kError, text, {{"reason", text}}}}) {
      for (const bool json : {false, true}) {
        const std::string line = log_line(record, kTime, json);
        EXPECT_LE(line.size(), kMaxLogBytes) << line;
        EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
        if (json) {
          EXPECT_EQ(core::parse_json(line, "line")["time"], kTime);
        } else {
          EXPECT_EQ(line.substr(0, kTime.size()), kTime);
        }
      }
    }
    EXPECT_NE(log_line(request("POST", text), kTime, false).find(" status=404 "), std::string::npos)
        << "what follows a long value is still there";
  }
}

}  // namespace
}  // namespace nibble::cli
