#include "report/text_table.h"

#include <gtest/gtest.h>

#include "report/text_width.h"

namespace nibble::report {
namespace {

TEST(TextWidth, IsWhatATerminalShows) {
  EXPECT_EQ(text_width("nf4g64"), 6u);
  EXPECT_EQ(text_width("4.1 ± 0.2 %"), 11u);
  EXPECT_EQ(text_width("日本語"), 6u);
  EXPECT_EQ(text_width("Ａ"), 2u) << "full width";
  EXPECT_EQ(text_width("ｱ"), 1u) << "half width";
  EXPECT_EQ(text_width("🙂"), 2u);
  EXPECT_EQ(text_width("e\xCC\x81"), 1u) << "a combining accent";
  EXPECT_EQ(text_width("\xE2\x80\x8B"), 0u) << "a zero-width space";
  EXPECT_EQ(text_width("a\xFF\xC3"), 3u) << "no UTF-8";
}

TEST(TextWidth, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to_width("perplexity", 10), "perplexity");
  EXPECT_EQ(cut_to_width("perplexity", 9), "perplexi…");
  EXPECT_EQ(cut_to_width("日本語", 6), "日本語");
  EXPECT_EQ(cut_to_width("日本語", 5), "日本…");
  EXPECT_EQ(cut_to_width("日本語", 4), "日…");
  EXPECT_EQ(cut_to_width("e\xCC\x81zoo", 2), "e\xCC\x81…") << "an accent stays with its letter";
  EXPECT_EQ(cut_to_width("perplexity", 1), "…");
  EXPECT_EQ(cut_to_width("perplexity", 0), "");
}

Table five_columns() {
  return {{"recipe", "a", "bb", "ccc", "dddd"},
          {{"gptq", "1", "2", "3", "4"}, {"nf4g64", "10", "20", "30", "4000"}}};
}

// Widths 6, 2, 2, 3, 4 with two spaces between them.
TEST(FitColumns, KeepsTheMostImportant) {
  const std::vector<std::size_t> importance = {3, 1, 4, 2};
  EXPECT_TRUE(fit_columns(five_columns(), importance, 25).left_out.empty());
  const FittedTable fitted = fit_columns(five_columns(), importance, 24);
  EXPECT_EQ(to_text(fitted.table),
            "recipe   a  ccc  dddd\n"
            "gptq     1    3     4\n"
            "nf4g64  10   30  4000\n");
  EXPECT_EQ(fitted.left_out, std::vector<std::string>{"bb"});
  EXPECT_EQ(to_text(fit_columns(five_columns(), importance, 20).table),
            "recipe   a  ccc\n"
            "gptq     1    3\n"
            "nf4g64  10   30\n")
      << "a less important column does not take the place of a more important one";
}

TEST(FitColumns, ShortensTheFirstAtLast) {
  const std::vector<std::size_t> importance = {4, 3, 2, 1};
  EXPECT_EQ(to_text(fit_columns(five_columns(), importance, 11).table),
            "reci…  dddd\n"
            "gptq      4\n"
            "nf4g…  4000\n");
}

TEST(FitColumns, NoLineIsWiderThanAsked) {
  const std::vector<std::size_t> importance = {1, 2, 3, 4};
  Table table = five_columns();
  table.rows[0][0] = "模型/量化.json";
  for (std::size_t width = 8; width < 40; ++width) {
    const std::string text = to_text(fit_columns(table, importance, width).table);
    for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
      const std::string_view line =
          std::string_view(text).substr(begin, text.find('\n', begin) - begin);
      EXPECT_LE(text_width(line), width) << line;
    }
  }
}

}  // namespace
}  // namespace nibble::report
