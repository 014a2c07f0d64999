#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/json.h"
#include "core/temporary_folder_for_tests.h"
#include "eval/seq2seq/run_seq2seq.h"
#include "io/text_file.h"

namespace nibble::eval {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

const fs::path kShared = fs::path(NIBBLE_SOURCE_DIR) / ".." / "shared";

TEST(TextPairs, OfThreeForms) {
  const core::TemporaryFolder folder;
  const auto lines =
      read_text_pairs(folder.write("a.tsv", "one two\tuno\tdos\r\n\nthree\ttres"), 0);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].source, "one two");
  EXPECT_EQ(lines[0].targets, (Texts{"uno", "dos"}));
  EXPECT_TRUE(lines[1].where.ends_with("a.tsv', line 3")) << lines[1].where;
  const auto objects = read_text_pairs(
      folder.write("a.jsonl",
                   R"({"source": ["A b.", " C d.\n"], "target": ["x", "y "], "other": 1})"
                   "\n"
                   R"({"source": "e", "target": "z"})"),
      0);
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0].source, "A b. C d.");
  EXPECT_EQ(objects[0].targets, (Texts{"x", "y"}));
  EXPECT_EQ(objects[1].targets, Texts{"z"});
  const auto words = read_text_pairs(
      folder.write("a.json",
                   R"({"b": "B", "a": {"DEFAULT": "A", "NOUN": null}, "c": {"NOUN": "C"}})"),
      0);
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].source, "b");  // as they stand in the file
  EXPECT_EQ(words[1].targets, Texts{"A"});
  EXPECT_EQ(read_text_pairs(folder / "a.tsv", 1).size(), 1u);
}

TEST(TextPairs, RefusesWhatIsNone) {
  const core::TemporaryFolder folder;
  const std::pair<const char*, const char*> bad[] = {
      {"a.tsv", "no tab"},
      {"b.tsv", ""},
      {"c.tsv", "\xff\tx"},
      {"d.jsonl", "[1]"},
      {"e.jsonl", "{\"source\": \"a\"}"},
      {"f.jsonl", "{\"source\": \"a\", \"target\": []}"},
      {"g.jsonl", "{\"source\": 1, \"target\": \"a\"}"},
      {"h.json", "[]"},
      {"i.json", "{\"a\": null}"},
      {"j.csv", "a\tb"}};
  for (const auto& [name, text] : bad) {
    EXPECT_THROW(read_text_pairs(folder.write(name, text), 0), core::Error) << name;
  }
  EXPECT_THROW(read_text_pairs(folder / "none.tsv", 0), core::Error);
}

TEST(Seq2Seq, MeasuresTexts) {
  const std::vector<TextPair> pairs = {
      {"1", "", {"a b c d", "the cat"}}, {"2", "", {"əbˈæ"}}, {"3", "", {"four"}}};
  const Seq2SeqScore score = score_written(pairs, Texts{"the cat", "əbæ", "for"});
  EXPECT_EQ(score.items, 3);
  EXPECT_DOUBLE_EQ(score.word_accuracy, 1.0 / 3);
  EXPECT_DOUBLE_EQ(score.phoneme_error_rate, 2.0 / (7 + 4 + 4));
  EXPECT_DOUBLE_EQ(score.rouge2, 1.0 / 3);  // of the first text alone
  EXPECT_DOUBLE_EQ(score.rouge1, 2.0 / 3);  // and "b" of the second
  EXPECT_DOUBLE_EQ(score.rouge_l, 2.0 / 3);
  EXPECT_THROW(score_written(pairs, Texts{"x"}), core::Error);
  EXPECT_THROW(score_written(std::vector<TextPair>{{"1", "", {""}}}, Texts{"x"}), core::Error);
}

// 2,000 words, greedily and with beams: the figures that transformers gives, to the last word.
class Spelling : public testing::TestWithParam<std::tuple<const char*, std::int64_t>> {};

TEST_P(Spelling, FiguresOfTransformers) {
  const auto [name, beams] = GetParam();
  const fs::path folder = kShared / "models" / "bart-6x6-g2p";
  if (!fs::exists(folder)) {
    GTEST_SKIP() << "the test model is not here: " << folder;
  }
  const core::Json golden = core::Json::parse(std::ifstream(folder / "golden.json")).at(name);
  const auto model = models::open_model(folder);
  engine::RunnerOptions on_cpu;
  on_cpu.cpu.threads = 2;
  const auto writer = engine::make_text_to_text(model, on_cpu);
  Seq2SeqOptions options{engine::writing_options(*model), "", 64};
  options.writing.beams = beams;
  const auto pairs = read_text_pairs(kShared / "data" / "g2p_dictionary" / "us_test.tsv", 0);
  const Seq2SeqRun run = run_seq2seq(*writer, *model, pairs, options, core::silent_progress());
  EXPECT_EQ(run.score.items, golden.at("words").get<std::int64_t>());
  EXPECT_DOUBLE_EQ(run.score.word_accuracy, golden.at("word_accuracy").get<double>());
  EXPECT_DOUBLE_EQ(run.score.phoneme_error_rate, golden.at("phoneme_error_rate").get<double>());
  EXPECT_EQ(run.truncated, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Spelling,
                         testing::Values(std::tuple("test_greedy", 1),
                                         std::tuple("test_beam4", 4)));

}  // namespace
}  // namespace nibble::eval
