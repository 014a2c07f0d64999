#include "report/html.h"

#include <gtest/gtest.h>

#include "report/balanced_tags_for_tests.h"

namespace nibble::report {
namespace {

const std::string kHostile = "\"><script>alert('x' & 1)</script>\x01";

TEST(TagChecker, FindsWhatIsBroken) {
  EXPECT_EQ(TagChecker::fault_of("<p class=\"a > b\">x &lt; y<br/></p>"), "");
  for (const char* broken : {"<p>", "</p>", "<a><b></a></b>", "<p>a < b</p>", "<p>a & b</p>",
                             "<p title=\"<\"></p>", "<p title=\"x></p>", "<p>a > b</p>"}) {
    EXPECT_NE(TagChecker::fault_of(broken), "") << broken;
  }
}

TEST(Html, EscapesEverythingThatMeansSomething) {
  EXPECT_EQ(escape_html(kHostile),
            "&quot;&gt;&lt;script&gt;alert(&#39;x&#39; &amp; 1)&lt;/script&gt;\xEF\xBF\xBD");
  EXPECT_EQ(escape_html("Größe\n"), "Größe\n");
}

TEST(Html, APageWithHostileNamesIsWellFormed) {
  const Table table{{"recipe", kHostile}, {{kHostile, "1"}, {"b", kHostile}}};
  const std::string html = page(
      kHostile, {to_html(table), paragraph(kHostile), foldable(kHostile, paragraph(kHostile))});
  const std::size_t body = html.find("<body>");
  ASSERT_NE(body, std::string::npos);
  EXPECT_EQ(TagChecker::fault_of(html.substr(body, html.find("</html>") - body)), "");
  EXPECT_EQ(html.find("<script"), std::string::npos);
}

TEST(Html, ErrorsStandApartInTheirCells) {
  const std::string html = to_html(Table{{"recipe", "KL <"}, {{"a", "0.1 ± 0.2"}}});
  EXPECT_NE(html.find("<td data-label=\"KL &lt;\">0.1 <small>± 0.2</small></td>"),
            std::string::npos)
      << html;
  EXPECT_EQ(TagChecker::fault_of(html), "");
}

TEST(Html, APageFetchesNothing) {
  const std::string html = page("title", {});
  for (const char* word : {"http", "src=", "url(", "@import", "<link"}) {
    EXPECT_EQ(html.find(word), std::string::npos) << word;
  }
}

TEST(TextTable, ColumnsOfCharactersNotBytes) {
  EXPECT_EQ(to_text({{"a", "b"}, {{"xx", "1 ± 2"}, {"é", "3"}}}),
            "a       b\n"
            "xx  1 ± 2\n"
            "é       3\n");
}

}  // namespace
}  // namespace nibble::report
