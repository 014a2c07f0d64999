#include "core/byte_size.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::core {
namespace {

TEST(ByteSize, ReadsNumbersWithUnits) {
  EXPECT_EQ(parse_byte_size("1", "--memory"), 1);
  EXPECT_EQ(parse_byte_size("4096B", "--memory"), 4096);
  EXPECT_EQ(parse_byte_size("500MB", "--memory"), 500'000'000);
  EXPECT_EQ(parse_byte_size("64kB", "--memory"), 64'000);
  EXPECT_EQ(parse_byte_size("6GiB", "--memory"), 6'442'450'944);
  EXPECT_EQ(parse_byte_size("6G", "--memory"), 6'442'450'944);
  EXPECT_EQ(parse_byte_size("1.5GiB", "--memory"), 1'610'612'736);
  EXPECT_EQ(parse_byte_size("2T", "--memory"), 2'199'023'255'552);
  EXPECT_EQ(parse_byte_size("0.5K", "--memory"), 512);
}

TEST(ByteSize, RefusesEverythingElse) {
  for (const char* text :
       {"", "0", "0.1", "-1", "+1", "G", "6 GiB", "6gib", "6GIB", "6X", "1e9", "0x10", "nan", "inf",
        ".5G", "1G1", "9999999T", "1\nG", "99999999999999999999999999999999999999999"}) {
    try {
      parse_byte_size(text, "--memory");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("--memory"), std::string::npos);
    }
  }
}

TEST(ByteSize, WritesTheLargestUnit) {
  EXPECT_EQ(format_byte_size(0), "0 B");
  EXPECT_EQ(format_byte_size(1023), "1023 B");
  EXPECT_EQ(format_byte_size(1536), "1.5 KiB");
  EXPECT_EQ(format_byte_size(6'442'450'944), "6.0 GiB");
}

}  // namespace
}  // namespace nibble::core
