#include "core/text_hash.h"

#include <string>

#include <gtest/gtest.h>

namespace nibble::core {
namespace {

// Expected: hash() of bytes in CPython 3.11, which is SipHash-1-3; PYTHONHASHSEED 0 means the key
// 0, 7 the other one.
TEST(TextHash, IsSipHash13) {
  struct Case {
    std::string_view text;
    std::uint64_t under_zero;
    std::uint64_t under_key;
  };
  for (const Case& each :
       {Case{"a", 0x407448d2b89b1813, 0x58fddb5aae8c3c14},
        Case{"ab\xff"
             "cdefg",
             0x656ff3a8dd528dd1, 0x3832d1d551f7679f},
        Case{"abcdefgh", 0x3f7b849c0b8e35ea, 0x6c0dd92b5f82dc9e},
        Case{"The quick brown fox jumps", 0x9e719c78716a132b, 0xed1c3f50bea4ef26}}) {
    EXPECT_EQ(siphash13(each.text, 0, 0), each.under_zero) << each.text;
    EXPECT_EQ(siphash13(each.text, 0x12c874a1806f0e3d, 0x470a89d2f9d2784f), each.under_key);
  }
}

TEST(TextHash, IsTheSameWithinAProcess) {
  EXPECT_EQ(TextHash()("word"), TextHash()(std::string("word")));
  EXPECT_NE(TextHash()("word"), TextHash()("ward"));
}

}  // namespace
}  // namespace nibble::core
