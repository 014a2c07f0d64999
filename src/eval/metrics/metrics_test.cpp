#include <cmath>

#include <gtest/gtest.h>

#include "core/json.h"
#include "eval/metrics/classification.h"
#include "eval/metrics/correlation.h"
#include "eval/metrics/edit_distance.h"
#include "eval/metrics/porter_stemmer.h"
#include "eval/metrics/rouge.h"
#include "io/json_file.h"

// Against scikit-learn, scipy and rouge-score (tests/reference/make_metric_goldens.py).
namespace nibble::eval {
namespace {

using core::Json;

const Json& golden() {
  static const Json json = io::load_json_file(NIBBLE_SOURCE_DIR "/src/eval/goldens/metrics.json");
  return json;
}

TEST(Metrics, ClassesAsInScikitLearn) {
  for (const Json& row : golden()["classes"]) {
    const auto predicted = row["predicted"].get<std::vector<std::int32_t>>();
    const auto gold = row["gold"].get<std::vector<std::int32_t>>();
    EXPECT_NEAR(accuracy(predicted, gold), row["accuracy"].get<double>(), 1e-12);
    EXPECT_NEAR(f1(predicted, gold), row["f1"].get<double>(), 1e-12) << row.dump();
    EXPECT_NEAR(matthews_correlation(predicted, gold), row["matthews"].get<double>(), 1e-12)
        << row.dump();
  }
}

TEST(Metrics, CorrelationsAsInScipy) {
  for (const Json& row : golden()["numbers"]) {
    const auto x = row["x"].get<std::vector<double>>();
    const auto y = row["y"].get<std::vector<double>>();
    EXPECT_NEAR(pearson_correlation(x, y), row["pearson"].get<double>(), 1e-12) << row.dump();
    EXPECT_NEAR(spearman_correlation(x, y), row["spearman"].get<double>(), 1e-12) << row.dump();
  }
  const std::vector<double> constant = {2, 2, 2};
  const std::vector<double> other = {1, 2, 3};
  EXPECT_TRUE(std::isnan(pearson_correlation(constant, other)));
  EXPECT_TRUE(std::isnan(spearman_correlation(other, constant)));
}

void expect_score(const RougeScore& score, const Json& expected, const std::string& what) {
  EXPECT_NEAR(score.precision, expected[0].get<double>(), 1e-12) << what;
  EXPECT_NEAR(score.recall, expected[1].get<double>(), 1e-12) << what;
  EXPECT_NEAR(score.f1, expected[2].get<double>(), 1e-12) << what;
}

TEST(Metrics, RougeAsInRougeScore) {
  for (const Json& row : golden()["rouge"]) {
    const auto target = row["target"].get<std::string>();
    const auto prediction = row["prediction"].get<std::string>();
    for (const bool stem : {false, true}) {
      const RougeOptions options{stem};
      const Json& expected = row[stem ? "stemmed" : "plain"];
      const std::string what = row.dump();
      for (const int n : {1, 2, 3}) {
        expect_score(rouge_n(target, prediction, n, options), expected["rouge" + std::to_string(n)],
                     what);
      }
      expect_score(rouge_l(target, prediction, options), expected["rougeL"], what);
      expect_score(rouge_lsum(target, prediction, options), expected["rougeLsum"], what);
    }
  }
}

TEST(Metrics, StemsAsInNltk) {
  for (const Json& pair : golden()["stems"]) {
    EXPECT_EQ(porter_stem(pair[0].get<std::string>()), pair[1].get<std::string>()) << pair[0];
  }
}

TEST(Metrics, WordErrorRate) {
  std::vector<std::string> predicted;
  std::vector<std::string> gold;
  double edits = 0;
  double words = 0;
  for (const Json& row : golden()["edits"]) {
    predicted.push_back(row["predicted"]);
    gold.push_back(row["gold"]);
    edits += row["edits"].get<double>();
    words += row["words"].get<double>();
    EXPECT_NEAR(word_error_rate({&predicted.back(), 1}, {&gold.back(), 1}),
                row["edits"].get<double>() / row["words"].get<double>(), 1e-12)
        << row.dump();
  }
  EXPECT_NEAR(word_error_rate(predicted, gold), edits / words, 1e-12);
  EXPECT_NEAR(exact_match(predicted, gold), 1.0 / 7, 1e-12);
}

TEST(Metrics, ListsThatDoNotFitAreRefused) {
  const std::vector<std::int32_t> one = {1};
  const std::vector<std::int32_t> two = {1, 0};
  const std::vector<double> number = {1};
  const std::vector<std::string> blank = {" "};
  EXPECT_THROW(accuracy(one, two), core::Error);
  EXPECT_THROW(f1({}, {}), core::Error);
  EXPECT_THROW(matthews_correlation(two, one), core::Error);
  EXPECT_THROW(pearson_correlation(number, number), core::Error);
  EXPECT_THROW(exact_match({}, {}), core::Error);
  EXPECT_THROW(word_error_rate(blank, blank), core::Error);
  EXPECT_THROW(rouge_n("a", "a", 0), core::Error);
}

}  // namespace
}  // namespace nibble::eval
