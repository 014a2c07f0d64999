#include <gtest/gtest.h>

#include "characters/case_mapping.h"
#include "characters/properties.h"
#include "characters/utf8.h"
#include "core/error.h"

namespace nibble::characters {
namespace {

const std::string kFffd = "\xef\xbf\xbd";

// Expected values: Python's bytes.decode("utf-8", errors="replace"), which follows the same rule.
TEST(Utf8, InvalidBytesBecomeOneReplacementPerMaximalPart) {
  EXPECT_EQ(to_valid_utf8("a\xff"), "a" + kFffd);
  EXPECT_EQ(to_valid_utf8("\xe2\x82"), kFffd);
  EXPECT_EQ(to_valid_utf8("\xe2\x82z"), kFffd + "z");
  EXPECT_EQ(to_valid_utf8("\xf0\x9f\x99\xf0\x9f\x99\x82"), kFffd + "\xf0\x9f\x99\x82");
  EXPECT_EQ(to_valid_utf8("\xed\xa0\x80"), kFffd + kFffd + kFffd);              // a surrogate
  EXPECT_EQ(to_valid_utf8("\xc0\xaf"), kFffd + kFffd);                          // overlong
  EXPECT_EQ(to_valid_utf8("\xf4\x90\x80\x80"), kFffd + kFffd + kFffd + kFffd);  // above U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xe0\x80\x80"), kFffd + kFffd + kFffd);
}

TEST(Utf8, ValidityAndRepairAgreeOnAllPairsOfBytes) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second), 'x'};
      const std::string repaired = to_valid_utf8(text);
      EXPECT_TRUE(is_valid_utf8(repaired));
      EXPECT_EQ(is_valid_utf8(text), repaired == text);
    }
  }
}

TEST(Utf8, ARefusalNamesThePlace) {
  EXPECT_EQ(valid_utf8_bytes("ab\xc3\xa9"), 4u);
  EXPECT_EQ(valid_utf8_bytes("ab\xc3\xa9 caf\xe9 x\xff"), 8u);
  EXPECT_EQ(valid_utf8_bytes("ab\xe2\x82"), 2u) << "cut off";
  require_utf8("ab\n\xc3\xa9", "t.txt");
  try {
    require_utf8("ab\nd\xc3\xa9j\xe0 vu", "'t.txt'");
    ADD_FAILURE();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
    EXPECT_STREQ(error.what(),
                 "'t.txt' is not UTF-8: line 2 has the byte 0xe0 at offset 7; convert it, for "
                 "example with iconv");
  }
}

TEST(Utf8, RepairDoesNotDependOnHowBytesAreCut) {
  const std::string bytes = "x\xe2\x82\xac\xe2\x82\xff\xf0\x9f\x99\x82\xf0\x9f\x99 \xc3\xa9\xc3";
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      Utf8Repair repair;
      std::string out;
      repair.push(std::string_view(bytes).substr(0, first), out);
      EXPECT_TRUE(is_valid_utf8(out));
      repair.push(std::string_view(bytes).substr(first, second - first), out);
      repair.push(std::string_view(bytes).substr(second), out);
      repair.finish(out);
      EXPECT_EQ(out, to_valid_utf8(bytes));
    }
  }
}

TEST(Utf8, CodePointsRoundTrip) {
  for (const char32_t c :
       {0x0U, 0x7fU, 0x80U, 0x7ffU, 0x800U, 0xd7ffU, 0xe000U, 0xffffU, 0x10000U, 0x10ffffU}) {
    std::string text;
    append_utf8(text, c);
    EXPECT_TRUE(is_valid_utf8(text));
    EXPECT_EQ(decode_utf8(text, 0).value, c);
    EXPECT_EQ(decode_utf8("ab" + text, 2).bytes, text.size());
    EXPECT_EQ(decode_utf8_before("ab" + text, 2 + text.size()).value, c);
  }
}

TEST(Utf8, CountsAndFindsCharacters) {
  const std::string text = "na\u00efve \u6771 \U0001f680!";
  EXPECT_EQ(count_code_points(text), 10);
  EXPECT_EQ(byte_of_code_point(text, 3), 4u);
  EXPECT_EQ(byte_of_code_point(text, 9), text.size() - 1);
  EXPECT_EQ(byte_of_code_point(text, 99), text.size());
  std::size_t at = 2;
  EXPECT_EQ(next_code_point(text, at), U'\u00ef');
  EXPECT_EQ(at, 4u);
}

// Expected values: Python's methods of str.
TEST(CaseMapping, FollowsPython) {
  EXPECT_EQ(to_upper("Stra\u00dfe \u0149"), "STRASSE \u02bcN");
  EXPECT_EQ(to_lower("\u1f48\u0394\u03a5\u03a3\u03a3\u0395\u038e\u03a3"),
            "\u1f40\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd\u03c2");
  EXPECT_EQ(to_capitalized("hELLO World"), "Hello world");
  EXPECT_EQ(to_title("hello wORLD it's"), "Hello World It'S");
}

TEST(Properties, Classes) {
  EXPECT_TRUE(is_white_space(U'\u3000'));
  EXPECT_FALSE(is_white_space(U'\u200b'));
  EXPECT_TRUE(is_numeric(U'½'));
  EXPECT_TRUE(is_punctuation(U'$'));
  EXPECT_FALSE(is_punctuation(U'€'));
  EXPECT_TRUE(is_word_character(U'_'));
  EXPECT_FALSE(is_word_character(U'½'));
  EXPECT_TRUE(is_bert_cjk(U'漢'));
  EXPECT_FALSE(is_bert_cjk(U'カ'));
}

}  // namespace
}  // namespace nibble::characters
