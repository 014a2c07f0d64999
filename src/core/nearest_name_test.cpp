#include "core/nearest_name.h"

#include <gtest/gtest.h>

namespace nibble::core {
namespace {

const std::vector<std::string> kNames = {"quantize", "eval", "run", "bench", "bench-serve", "chat"};

TEST(NearestName, FindsWhatWasMeant) {
  EXPECT_EQ(nearest_name("quantise", kNames), "quantize");   // replaced
  EXPECT_EQ(nearest_name("quatize", kNames), "quantize");    // left out
  EXPECT_EQ(nearest_name("quanttize", kNames), "quantize");  // too many
  EXPECT_EQ(nearest_name("qauntize", kNames), "quantize");   // swapped
  EXPECT_EQ(nearest_name("rnu", kNames), "run");             // a swap is one edit
  EXPECT_EQ(nearest_name("BENCH_SERVE", kNames), "bench-serve");
  EXPECT_EQ(nearest_name("run", kNames), "run");
}

TEST(NearestName, FindsLongerAndShorterForms) {
  EXPECT_EQ(nearest_name("evaluate", kNames), "eval");
  EXPECT_EQ(nearest_name("benchmark", kNames), "bench");
  EXPECT_EQ(nearest_name("quant", kNames), "quantize");
}

TEST(NearestName, GivesNothingForOtherWords) {
  for (const char* name : {"", "fly", "train", "ev", "r", "xyzzy"}) {
    EXPECT_EQ(nearest_name(name, kNames), "") << name;
  }
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'a'), kNames), "");
  EXPECT_EQ(nearest_name("run", {}), "");
}

TEST(NearestName, MakesAPhrase) {
  EXPECT_EQ(suggestion("chst", kNames), "; did you mean 'chat'?");
  EXPECT_EQ(suggestion("fly", kNames), "");
}

}  // namespace
}  // namespace nibble::core
