#include "cli/damage_report.h"

#include <gtest/gtest.h>

#include "core/json.h"
#include "report/text_width.h"
#include "results/measured.h"

namespace nibble::cli {
namespace {

eval::DamageRow row(const std::string& recipe) {
  eval::DamageRow row;
  row.recipe = recipe;
  row.perplexity = 48.8412;
  row.increase = 0.24;
  row.increase_standard_error = 0.016;
  row.divergence.kl = {0.21234, 0.001, 0.00212};
  row.divergence.top1_agreement = 0.71;
  row.divergence.top1_standard_error = 0.0012;
  row.bits_per_weight = 3.156;
  row.weight_bytes = 123'450'000;
  row.peak_bytes = 234'560'000;
  row.prefill = eval::Speed{355, 340, 363};
  row.decode = eval::Speed{55.9, 55.4, 56.5};
  row.quantize_seconds = 123.4;
  return row;
}

std::vector<std::string> columns(const std::vector<eval::DamageRow>& rows, std::size_t width) {
  return damage_table(rows, width).table.columns;
}

TEST(DamageTable, TheMostImportantColumnsFitAPage) {
  const std::vector<eval::DamageRow> rows = {row("original"), row("gptq-w3g128")};
  EXPECT_EQ(columns(rows, 100),
            (std::vector<std::string>{"recipe", "perplexity", "increase %", "KL", "top-1 %",
                                      "bits/weight", "decode tok/s"}));
  EXPECT_EQ(columns(rows, 80), (std::vector<std::string>{"recipe", "perplexity", "increase %",
                                                         "top-1 %", "bits/weight"}));
  EXPECT_EQ(columns(rows, 200).size(), 13u);
  EXPECT_EQ(damage_table(rows).columns.size(), 13u);
}

TEST(DamageTable, NoLineIsWiderThanTheTerminal) {
  const std::vector<eval::DamageRow> rows = {row("original"), row("a-recipe-of-my-own-with-a-name"),
                                             row("食譜")};
  for (std::size_t width = 20; width < 200; ++width) {
    const std::string text = report::to_text(damage_table(rows, width).table);
    for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
      EXPECT_LE(report::text_width(text.substr(begin, text.find('\n', begin) - begin)), width);
    }
  }
}

TEST(DamageTable, SpeedsThatAreNotToldAreLeftOut) {
  std::vector<eval::DamageRow> rows = {row("original"), row("nf4g64")};
  const report::Table told = damage_table(rows);
  EXPECT_EQ(told.rows[1][10], "355 ± 12");
  EXPECT_EQ(told.rows[1][11], "55.9 ± 0.6");
  rows[1].decode.reset();
  EXPECT_EQ(damage_table(rows).rows[1][11], "-");
  rows[0].decode.reset();
  EXPECT_EQ(damage_table(rows).columns.size(), 12u) << "a column without any";
}

TEST(DamageJson, SpeedsThatAreNotToldAreNull) {
  eval::DamageRow of = row("nf4g64");
  of.decode.reset();
  const core::Json json = results::damage_json(of, 0);
  EXPECT_EQ(json["prefill_tokens_per_s"], 355.0);
  EXPECT_EQ(json["prefill_tokens_per_s_quartiles"], (core::Json{340.0, 363.0}));
  EXPECT_TRUE(json.contains("decode_tokens_per_s"));
  EXPECT_TRUE(json["decode_tokens_per_s"].is_null());
  EXPECT_TRUE(json["decode_tokens_per_s_quartiles"].is_null());
}

TEST(DamagePage, LossesThatRoundToNothingDoNotStretchTheAxis) {
  std::vector<eval::DamageRow> rows = {row("original"), row("f16"), row("nf4g64")};
  rows[0].divergence.kl = {0, 0, 0};
  rows[1].divergence.kl = {2e-9, 1e-9, 1e-9};
  const std::string page = damage_page("demo", "a text", rows, 0);
  EXPECT_NE(page.find("Without a place on the axes: original (0), f16 (0)"), std::string::npos);
  EXPECT_EQ(page.find(">1e-"), std::string::npos) << "no mark of the axis is so small";
}

}  // namespace
}  // namespace nibble::cli
