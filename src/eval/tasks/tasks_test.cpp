#include <cmath>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "core/json.h"
#include "eval/tasks/run_task.h"
#include "eval/tasks/task_files.h"

// Likelihoods and accuracies of models/demo against transformers in float32, whose likelihoods
// lm-evaluation-harness confirmed (tests/reference/make_task_goldens.py).
namespace nibble::eval {
namespace {

namespace fs = std::filesystem;
using core::Json;

const fs::path kRoot = NIBBLE_SOURCE_DIR;
const fs::path kShared = kRoot / "../shared/data/tasks";

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return core::parse_json(text, path.string());
}

const Json& golden() {
  static const Json json = read_json(kRoot / "src/eval/goldens/tasks.json");
  return json;
}

class Demo : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    demo = models::open_model(kRoot / "models/demo");
    engine::RunnerOptions options;
    options.kv_types = ops::KvType::kF32;  // as the command has it
    options.cpu.threads = 2;
    runner = engine::make_cpu_runner(demo, options);
  }
  static void TearDownTestSuite() {
    runner.reset();
    demo.reset();
  }

  static std::vector<std::vector<Likelihood>> score(std::span<const TaskItem> items) {
    return score_items(*runner, *demo, items, [](std::int64_t) {});
  }

  static void compare(const fs::path& file, const Json& expected, std::int64_t limit) {
    const Task& task = find_task(expected["task"].get<std::string>());
    const std::vector<TaskItem> items = read_task_items(file, task, limit);
    const auto likelihoods = score(items);
    ASSERT_EQ(likelihoods.size(), expected["items"].size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      compare_item(items[i], likelihoods[i], expected["items"][i]);
    }
    const TaskScore result = summarize(task, items, likelihoods);
    compare_estimate(result.accuracy, expected["acc"]);
    ASSERT_EQ(result.normalized_accuracy.has_value(), expected.contains("acc_norm"));
    if (result.normalized_accuracy) {
      compare_estimate(*result.normalized_accuracy, expected["acc_norm"]);
    }
    ASSERT_EQ(result.perplexity.has_value(), expected.contains("perplexity"));
    if (result.perplexity) {
      const auto perplexity = expected["perplexity"].get<double>();
      EXPECT_NEAR(result.perplexity->value, perplexity, 1e-3 * perplexity);
    }
  }

  static void compare_item(const TaskItem& item, const std::vector<Likelihood>& choices,
                           const Json& expected) {
    ASSERT_EQ(choices.size(), expected["ll"].size()) << item.where;
    for (std::size_t c = 0; c < choices.size(); ++c) {
      EXPECT_NEAR(choices[c].log_likelihood, expected["ll"][c].get<double>(), 1e-3) << item.where;
      EXPECT_EQ(choices[c].greedy ? 1 : 0, expected["greedy"][c].get<int>()) << item.where;
      const EncodedRequest encoded = encode_request(*demo->tokenizer, item.requests[c]);
      EXPECT_EQ(encoded.continuation.size(), expected["tokens"][c].get<std::size_t>())
          << item.where;
    }
  }

  static void compare_estimate(const Estimate& estimate, const Json& expected) {
    EXPECT_EQ(estimate.value, expected[0].get<double>());
    EXPECT_NEAR(estimate.standard_error, expected[1].get<double>(), 1e-12);
  }

  static std::shared_ptr<models::Model> demo;
  static std::unique_ptr<engine::Runner> runner;
};

std::shared_ptr<models::Model> Demo::demo;
std::unique_ptr<engine::Runner> Demo::runner;

TEST_F(Demo, OwnItemsAsInTransformers) {
  for (const auto& [name, expected] : golden()["own"].items()) {
    SCOPED_TRACE(name);
    compare(kRoot / "tests/data/tasks" / expected["file"].get<std::string>(), expected, 0);
  }
}

TEST_F(Demo, SharedItemsAsInTransformers) {
  if (!fs::exists(kShared / "piqa.jsonl")) {
    GTEST_SKIP() << "the tasks' data are not here";
  }
  for (const auto& [name, expected] : golden()["shared"].items()) {
    SCOPED_TRACE(name);
    compare(kShared / expected["file"].get<std::string>(), expected,
            static_cast<std::int64_t>(expected["items"].size()));
  }
}

TEST_F(Demo, AContextIsCutFromTheLeft) {
  std::vector<std::int32_t> tokens(40);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(100 + 7 * i);
  }
  const EncodedRequest whole{{tokens.begin(), tokens.end() - 3}, {tokens.end() - 3, tokens.end()}};
  // 16 inputs are the last 17 tokens without the very last.
  const EncodedRequest cut{{tokens.end() - 17, tokens.end() - 3}, whole.continuation};
  const double expected = score_requests(*runner, {&cut, 1}, 1024)[0].log_likelihood;
  EXPECT_EQ(score_requests(*runner, {&whole, 1}, 16)[0].log_likelihood, expected);
  EXPECT_NE(score_requests(*runner, {&whole, 1}, 17)[0].log_likelihood, expected);
  // Even into the continuation, whose first token is then predicted from one token of the context.
  EXPECT_TRUE(std::isfinite(score_requests(*runner, {&whole, 1}, 3)[0].log_likelihood));
  EXPECT_THROW(score_requests(*runner, {&whole, 1}, 2), core::Error);
}

TEST_F(Demo, ResultsDoNotDependOnWhatIsScoredTogether) {
  std::vector<EncodedRequest> requests;
  for (const char* name : {"piqa", "boolq", "blimp", "lambada_openai"}) {
    const Task& task = find_task(name);
    const auto parts = find_task_parts(kRoot / "tests/data/tasks", task);
    for (const TaskItem& item : read_task_items(parts.front().file, task, 2)) {
      for (const LikelihoodRequest& request : item.requests) {
        requests.push_back(encode_request(*demo->tokenizer, request));
      }
    }
  }
  const auto together = score_requests(*runner, requests, 1024);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto alone = score_requests(*runner, {&requests[i], 1}, 1024);
    EXPECT_NEAR(together[i].log_likelihood, alone[0].log_likelihood, 2e-5) << i;
    EXPECT_EQ(together[i].greedy, alone[0].greedy) << i;
  }
}

TEST_F(Demo, OneInputMayHaveContinuationsOfDifferentLength) {
  const std::vector<EncodedRequest> requests = {
      {{100, 200, 300}, {400}}, {{100, 200}, {300, 400}}, {{100, 200, 300}, {500}}};
  const auto together = score_requests(*runner, requests, 1024);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto alone = score_requests(*runner, {&requests[i], 1}, 1024);
    EXPECT_NEAR(together[i].log_likelihood, alone[0].log_likelihood, 2e-5) << i;
  }
  EXPECT_LT(together[1].log_likelihood, together[0].log_likelihood - 0.1) << "one factor more";
}

TEST_F(Demo, WhiteSpaceMovesToTheContinuation) {
  const text::Tokenizer& tokenizer = *demo->tokenizer;
  const EncodedRequest plain = encode_request(tokenizer, {"The lamp", " burns"});
  const EncodedRequest moved = encode_request(tokenizer, {"The lamp ", "burns"});
  EXPECT_EQ(moved.context, plain.context);
  EXPECT_EQ(moved.continuation, plain.continuation);
  const EncodedRequest unicode = encode_request(tokenizer, {"The lamp\u2003\n", "burns"});
  EXPECT_EQ(unicode.context, plain.context);
  EXPECT_EQ(tokenizer.decode(unicode.continuation), "\u2003\nburns");
}

TEST_F(Demo, AnEmptyContextIsTheTokenThatBeginsAText) {
  const text::Tokenizer& tokenizer = *demo->tokenizer;
  const std::int32_t bos = tokenizer.bos().value();
  EXPECT_EQ(encode_request(tokenizer, {"", " Lamps"}).context, std::vector<std::int32_t>{bos});
  // Written out, it is not doubled.
  const EncodedRequest written = encode_request(tokenizer, {"", tokenizer.piece(bos) + " Lamps"});
  EXPECT_EQ(written.context, std::vector<std::int32_t>{bos});
  EXPECT_EQ(written.continuation, encode_request(tokenizer, {"", " Lamps"}).continuation);
  EXPECT_THROW(encode_request(tokenizer, {"Lamps", ""}), core::Error);
  EXPECT_THROW(encode_request(tokenizer, {"  ", "lamps"}), core::Error);
}

// A tokenizer that puts a token before each text: it begins the context and is not scored.
TEST_F(Demo, TheTokenThatBeginsATextIsPartOfTheContext) {
  Json tokenizer_json = read_json(kRoot / "models/demo/tokenizer.json");
  const std::string written = "<|endoftext|>";
  const std::int32_t bos = demo->tokenizer->id_of(written).value();
  const Json special = {{"SpecialToken", {{"id", written}, {"type_id", 0}}}};
  const Json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  tokenizer_json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {special, sequence}},
      {"pair", {sequence, sequence}},
      {"special_tokens", {{written, {{"id", written}, {"ids", {bos}}, {"tokens", {written}}}}}}};
  const std::string config = Json({{"bos_token", written}}).dump();
  const auto tokenizer = text::Tokenizer::from_json(tokenizer_json.dump(), config, "tokenizer");
  const EncodedRequest plain = encode_request(*demo->tokenizer, {"The lamp", " burns"});
  for (const std::string context : {"The lamp", "<|endoftext|>The lamp"}) {
    const EncodedRequest with_bos = encode_request(*tokenizer, {context, " burns"});
    std::vector<std::int32_t> expected = plain.context;
    expected.insert(expected.begin(), bos);
    EXPECT_EQ(with_bos.context, expected) << context;
    EXPECT_EQ(with_bos.continuation, plain.continuation) << context;
  }
}

TEST_F(Demo, PartsCountTheSameWithAPooledError) {
  const Task& task = find_task("blimp");
  TaskScore a;
  a.items = 4;
  a.accuracy = {0.5, std::sqrt(1.0 / 12)};  // 1 0 1 0
  TaskScore b;
  b.items = 2;
  b.accuracy = {1.0, 0.0};
  const TaskScore both = summarize(task, std::vector<TaskScore>{a, b});
  EXPECT_EQ(both.items, 6);
  EXPECT_DOUBLE_EQ(both.accuracy.value, 0.75);
  EXPECT_DOUBLE_EQ(both.accuracy.standard_error, std::sqrt(1.0 / 4 / 6));
  EXPECT_EQ(both.parts.size(), 2u);
}

}  // namespace
}  // namespace nibble::eval
