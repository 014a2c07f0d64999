#include <algorithm>

#include <gtest/gtest.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include "characters/utf8.h"
#include "core/error.h"
#include "core/random.h"
#include "text/normalize/normalizer.h"

namespace nibble::text {
namespace {

struct Form {
  UnicodeForm form;
  const char* data;
  UNormalization2Mode mode;
};

constexpr Form kForms[] = {{UnicodeForm::kNfc, "nfc", UNORM2_COMPOSE},
                           {UnicodeForm::kNfd, "nfc", UNORM2_DECOMPOSE},
                           {UnicodeForm::kNfkc, "nfkc", UNORM2_COMPOSE},
                           {UnicodeForm::kNfkd, "nfkc", UNORM2_DECOMPOSE}};

const icu::Normalizer2& icu_form(const Form& form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found =
      icu::Normalizer2::getInstance(nullptr, form.data, form.mode, status);
  EXPECT_TRUE(U_SUCCESS(status));
  return *found;
}

std::string by_icu(const Form& form, const std::string& text) {
  UErrorCode status = U_ZERO_ERROR;
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  icu_form(form).normalizeUTF8(0, text, sink, nullptr, status);
  EXPECT_TRUE(U_SUCCESS(status));
  return out;
}

// Characters that are sorted, or composed with what stands before them, in some form.
std::vector<char32_t> joining_characters() {
  std::vector<char32_t> characters;
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    const bool surrogate = c >= 0xd800 && c <= 0xdfff;
    const bool joins = std::any_of(std::begin(kForms), std::end(kForms), [&](const Form& form) {
      return icu_form(form).hasBoundaryBefore(static_cast<UChar32>(c)) == 0;
    });
    if (!surrogate && joins) {
      characters.push_back(c);
    }
  }
  return characters;
}

// Long runs of marks are sorted and composed by our own code, short ones by ICU; ICU does both for
// the expected values.
TEST(UnicodeForm, LongRunsOfMarksAreNormalizedAsIcuDoesIt) {
  const std::vector<char32_t> joining = joining_characters();
  ASSERT_GT(joining.size(), 800U);
  constexpr char32_t kOthers[] = {'a',    'E',     0xe9,   0x1ead, 0x1100, 0xac00,
                                  0x9c7,  0xf40,   0x11b0, 0x3b1,  0x3b9,  0xfdfa,
                                  0xfb2c, 0x1d15e, 0x2126, 0x30ab, 0xff76, 0x1fbf};
  core::Random random(5);
  for (int round = 0; round < 3000; ++round) {
    const std::uint64_t kinds = 1 + random.below(8);  // few different ones meet more often
    std::vector<char32_t> chosen;
    for (std::uint64_t i = 0; i < kinds; ++i) {
      chosen.push_back(joining[random.below(joining.size())]);
    }
    std::string text;
    for (std::uint64_t left = random.below(120); left > 0; --left) {
      const bool starts = random.below(40) == 0;
      characters::append_utf8(text, starts ? kOthers[random.below(std::size(kOthers))]
                                           : chosen[random.below(chosen.size())]);
    }
    for (const Form& form : kForms) {
      ASSERT_EQ(make_unicode_form(form.form)->apply(text, {}), by_icu(form, text)) << text;
    }
  }
}

// Python: unicodedata.normalize("NFC", "a" + "\u0301\u0323" * 50000), of which ICU alone takes
// seconds.
TEST(UnicodeForm, ManyMarksInWrongOrderAreSorted) {
  constexpr int kPairs = 50'000;
  std::string text = "a";
  std::string expected = "\u1ea1";
  for (int i = 0; i < kPairs; ++i) {
    text += "\u0301\u0323";
    expected += i > 0 ? "\u0323" : "";
  }
  for (int i = 0; i < kPairs; ++i) {
    expected += "\u0301";
  }
  EXPECT_EQ(make_unicode_form(UnicodeForm::kNfc)->apply(text, {}), expected);
  EXPECT_EQ(make_unicode_form(UnicodeForm::kNfc)->apply("e\u0301 " + text + "x\u0301", {}),
            "\u00e9 " + expected + "x\u0301");
}

TEST(UnicodeForm, ResultsOfLongRunsAreBounded) {
  std::string text = "a";
  for (int i = 0; i < 1000; ++i) {
    text += "\u0344";  // two marks
  }
  const NormalizeScope scope{.at_origin = true, .max_bytes = 3000};
  EXPECT_THROW(make_unicode_form(UnicodeForm::kNfd)->apply(text, scope), core::Error);
}

}  // namespace
}  // namespace nibble::text
