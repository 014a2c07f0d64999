#include "engine/step_size.h"

#include <gtest/gtest.h>

namespace nibble::engine {
namespace {

TEST(StepSize, IsAtMostAnEighthMore) {
  std::int64_t sizes = 0;
  std::int64_t last = 0;
  for (std::int64_t tokens = 1; tokens <= 16384; ++tokens) {
    const std::int64_t padded = padded_tokens(tokens);
    ASSERT_GE(padded, tokens);
    ASSERT_GE(padded, last);
    ASSERT_LT(padded - tokens, std::max<std::int64_t>(8, tokens / 8 + 1)) << tokens;
    ASSERT_EQ(padded_tokens(padded), padded);
    sizes += padded != last ? 1 : 0;
    last = padded;
  }
  EXPECT_EQ(last, 16384);
  EXPECT_EQ(sizes, 8 + 8 * 8) << "up to 64, and in each of eight doublings";
  EXPECT_EQ(padded_texts(1), 1);
  EXPECT_EQ(padded_texts(5), 8);
  EXPECT_EQ(padded_texts(64), 64);
}

}  // namespace
}  // namespace nibble::engine
