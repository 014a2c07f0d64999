#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.h"
#include "eval/glue/run_glue.h"

namespace nibble::eval {
namespace {

namespace fs = std::filesystem;
using models::Classifier;
using models::Problem;

const GlueTask& task_of(std::string_view name) {
  const GlueTask* task = find_glue_task(name);
  EXPECT_NE(task, nullptr) << name;
  return *task;
}

class GlueFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("nibble_glue_" + std::string(test->name()) + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<GlueItem> items(std::string_view name, const std::string& bytes,
                              std::int64_t limit = 0) {
    std::ofstream(folder_ / "dev.tsv", std::ios::binary) << bytes;
    return read_glue_items(folder_ / "dev.tsv", task_of(name), limit);
  }

  void expect_item(std::string_view name, const std::string& bytes, const std::string& first,
                   const std::optional<std::string>& second, std::int32_t gold) {
    const auto read = items(name, bytes);
    ASSERT_EQ(read.size(), 1u) << name;
    EXPECT_EQ(read[0].first, first) << name;
    EXPECT_EQ(read[0].second, second) << name;
    EXPECT_EQ(read[0].gold, gold) << name;
  }

  void expect_refusal(std::string_view name, const std::string& bytes, const std::string& part) {
    try {
      items(name, bytes);
      ADD_FAILURE() << part;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
      const std::string message = error.what();
      EXPECT_NE(message.find("dev.tsv"), std::string::npos) << message;
      EXPECT_NE(message.find(part), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }

  fs::path folder_;
};

TEST_F(GlueFiles, LayoutsOfGlue) {
  expect_item("cola", "gj04\t0\t*\tThey drank the pub.\n", "They drank the pub.", {}, 0);
  expect_item("sst2", "sentence\tlabel\na fine \"film \t1\n", "a fine \"film ", {}, 1);
  expect_item("mrpc",
              "\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\ta\tb\r\n", "a",
              "b", 1);
  expect_item("qqp", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\tq?\tr?\t0\n",
              "q?", "r?", 0);
  const std::string mnli =
      "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
      "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
      "0\t1\t2\tg\t(a)\t(b)\t(A)\t(B)\ta\tb\tneutral\tcontradiction\n";
  expect_item("mnli", mnli, "a", "b", 2);
  expect_item("mnli_mismatch", mnli, "a", "b", 2);
  expect_item("qnli", "index\tquestion\tsentence\tlabel\n0\tq\ts\tnot_entailment\n", "q", "s", 1);
  expect_item("rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n", "a", "b", 0);
  expect_item("wnli", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n", "a", "b", 1);
  const auto stsb = items("stsb",
                          "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\t"
                          "sentence2\tscore\n0\tg\tf\ty\t1\tn\tn\ta\tb\t4.750\n\n1\tg\tf\ty\t1\tn\t"
                          "n\tc\td\t0\n");
  ASSERT_EQ(stsb.size(), 2u);
  EXPECT_EQ(stsb[0].value, 4.75);
  EXPECT_EQ(stsb[0].second, "b");
  EXPECT_EQ(stsb[1].line, 4) << "an empty line is no item";
}

TEST_F(GlueFiles, LayoutsOfHuggingFace) {
  expect_item("cola", "sentence\tlabel\tidx\na\tunacceptable\t0\n", "a", {}, 0);
  expect_item("mrpc", "sentence1\tsentence2\tlabel\tidx\na\tb\tequivalent\t0\n", "a", "b", 1);
  expect_item("mnli", "premise\thypothesis\tlabel\tidx\na\tb\t2\t0\n", "a", "b", 2);
  expect_item("qqp", "label\tquestion2\tquestion1\nduplicate\tr\tq\n", "q", "r", 1);
}

TEST_F(GlueFiles, MalformedRowsAreNamed) {
  const std::string head = "sentence\tlabel\nfine\t1\n";
  expect_refusal("sst2", head + "no tab\n", "line 3: 1 columns, but the file begins with 2");
  expect_refusal("sst2", head + "a\t1\t2\n", "line 3: 3 columns");
  expect_refusal("sst2", head + "a\t2\n", "line 3: the label '2' is none of negative, positive");
  expect_refusal("sst2", head + "a\t-1\n", "line 3: the label '-1'");
  expect_refusal("sst2", head + "a\t\n", "line 3: the label ''");
  expect_refusal("sst2", head + "\xff\t1\n", "line 3: not valid UTF-8");
  expect_refusal("sst2", "index\tsentence\n0\ta\n", "line 1: the header has no column 'label'");
  expect_refusal("sst2", "sentence\tlabel\n", "holds no item");
  expect_refusal("sst2", "", "empty");
  expect_refusal("cola", "gj04\t2\t*\tThey.\n", "line 1: the label '2'");
  expect_refusal("stsb", "sentence1\tsentence2\tscore\na\tb\tnan\n", "line 2: the score 'nan'");
  expect_refusal("stsb", "sentence1\tsentence2\tscore\na\tb\t1x\n", "line 2: the score '1x'");
  EXPECT_EQ(items("sst2", head + "broken\n", 1).size(), 1u) << "behind the limit nothing is read";
}

TEST_F(GlueFiles, AFolderHasTheFileOfEachTask) {
  fs::create_directories(folder_ / "SST-2");
  std::ofstream(folder_ / "SST-2/dev.tsv") << "x";
  EXPECT_EQ(find_glue_file(folder_, task_of("sst2")), folder_ / "SST-2/dev.tsv");
  EXPECT_EQ(find_glue_file(folder_ / "SST-2/dev.tsv", task_of("sst2")), folder_ / "SST-2/dev.tsv");
  EXPECT_THROW(find_glue_file(folder_, task_of("rte")), core::Error);
}

TEST(Glue, LabelsOfTheModelNameTheClasses) {
  using Classes = std::vector<std::int32_t>;
  const GlueTask& mnli = task_of("mnli");
  const ClassOrder named = order_classes(mnli, {"CONTRADICTION", "Neutral", "entailment"});
  EXPECT_TRUE(named.by_name);
  EXPECT_EQ(named.classes, (Classes{2, 1, 0}));
  const ClassOrder ordered = order_classes(mnli, {"LABEL_0", "LABEL_1", "LABEL_2"});
  EXPECT_FALSE(ordered.by_name);
  EXPECT_EQ(ordered.classes, (Classes{0, 1, 2}));
  EXPECT_EQ(order_classes(task_of("rte"), {"Not Entailment", "entailment"}).classes,
            (Classes{1, 0}));
  EXPECT_EQ(order_classes(task_of("rte"), {"entailment", "other", "not-entailment"}).classes,
            (Classes{0, -1, 1}));
  EXPECT_THROW(order_classes(mnli, {"LABEL_0", "LABEL_1"}), core::Error);
}

std::vector<GlueItem> gold_items(const std::vector<std::int32_t>& gold) {
  std::vector<GlueItem> items;
  for (const std::int32_t each : gold) {
    items.emplace_back();
    items.back().gold = each;
    items.back().value = each;
  }
  return items;
}

Classifier head_of(Problem problem, std::vector<std::string> labels) {
  Classifier head;
  head.problem = problem;
  head.labels = std::move(labels);
  return head;
}

double metric_of(const GlueScore& score, GlueMetric metric) {
  for (const auto& [name, value] : score.metrics) {
    if (name == metric) {
      return value;
    }
  }
  ADD_FAILURE() << to_string(metric);
  return -1;
}

// Predicted 1 1 0 1 against 1 0 0 1, whichever output stands for which class.
TEST(Glue, ClassesAreMeasured) {
  const auto items = gold_items({1, 0, 0, 1});
  const std::vector<std::vector<float>> ordered = {{0, 1}, {0, 1}, {1, 0}, {-2, -1}};
  const std::vector<std::vector<float>> swapped = {{1, 0}, {1, 0}, {0, 1}, {-1, -2}};
  for (const bool swap : {false, true}) {
    const Classifier head = head_of(Problem::kSingleLabel,
                                    swap ? std::vector<std::string>{"equivalent", "not_equivalent"}
                                         : std::vector<std::string>{"LABEL_0", "LABEL_1"});
    const GlueScore score = score_glue(task_of("mrpc"), items, head, swap ? swapped : ordered);
    EXPECT_DOUBLE_EQ(metric_of(score, GlueMetric::kAccuracy), 0.75);
    EXPECT_DOUBLE_EQ(metric_of(score, GlueMetric::kF1), 0.8);
    EXPECT_EQ(score.labels_by_name, swap);
    EXPECT_EQ(score.items, 4);
  }
  const GlueScore cola =
      score_glue(task_of("cola"), items, head_of(Problem::kSingleLabel, {"a", "b"}), ordered);
  EXPECT_NEAR(metric_of(cola, GlueMetric::kMatthews), 1 / std::sqrt(3), 1e-12);
}

TEST(Glue, NumbersAreCorrelated) {
  const auto items = gold_items({0, 1, 2, 5});
  const GlueScore score = score_glue(task_of("stsb"), items, head_of(Problem::kRegression, {"x"}),
                                     std::vector<std::vector<float>>{{1}, {2}, {3}, {4}});
  EXPECT_DOUBLE_EQ(metric_of(score, GlueMetric::kSpearman), 1);
  EXPECT_NEAR(metric_of(score, GlueMetric::kPearson), 8 / std::sqrt(14.0 * 5), 1e-12);
}

TEST(Glue, HeadsThatDoNotFitAreRefused) {
  const auto items = gold_items({0, 1});
  const std::vector<std::vector<float>> logits = {{0, 1}, {1, 0}};
  EXPECT_THROW(
      score_glue(task_of("sst2"), items, head_of(Problem::kTokenLabels, {"a", "b"}), logits),
      core::Error);
  EXPECT_THROW(score_glue(task_of("sst2"), items, head_of(Problem::kRegression, {"a"}), logits),
               core::Error);
  EXPECT_THROW(
      score_glue(task_of("stsb"), items, head_of(Problem::kSingleLabel, {"a", "b"}), logits),
      core::Error);
  EXPECT_THROW(
      score_glue(task_of("stsb"), items, head_of(Problem::kRegression, {"a", "b"}), logits),
      core::Error);
}

}  // namespace
}  // namespace nibble::eval
