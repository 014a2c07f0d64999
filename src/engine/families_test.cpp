#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/json.h"
#include "device/cuda_devices.h"
#include "engine/fixed_sequences.h"
#include "engine/runner.h"

// The forward pass of every family against transformers, which computed the golden values
// (tests/families/make_goldens.py), or NumPy for OPT with norms behind its layers
// (make_post_norm.py).
namespace nibble::engine {
namespace {

using core::Json;

const std::filesystem::path kFamilies =
    std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families";
const std::filesystem::path kShared =
    std::filesystem::path(NIBBLE_SOURCE_DIR) / ".." / "shared" / "models";

Json read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// The same tests run on each device: CMake says which.
device::Place place() {
  return device::parse_place(NIBBLE_TEST_DEVICE);
}

bool is_there(const device::Place& which) {
  return !which.on_gpu() || !device::cuda_devices().empty();
}

// For texts of up to `context` tokens.
std::unique_ptr<Runner> open_runner(const std::filesystem::path& path, std::int64_t context = 0) {
  RunnerOptions options;
  options.place = place();
  options.cpu.threads = 2;
  options.kv_types = ops::KvType::kF32;
  auto model = models::open_model(path);
  models::use_context(model->network, context);
  return make_runner(std::move(model), options);
}

// "llama-yarn-rope" as part of a test's name.
std::string test_name(const testing::TestParamInfo<const char*>& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class Families : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_there(place())) {
      GTEST_SKIP() << "there is no NVIDIA GPU";
    }
    if (place().on_gpu() && std::string_view(GetParam()) == "gemma2") {
      GTEST_SKIP() << "soft-capped attention runs on the CPU only";
    }
  }
};

TEST_P(Families, LogitsOfAWholeText) {
  const Json golden = read(kFamilies / GetParam() / "golden.json");
  const auto ids = golden["ids"].get<std::vector<std::int32_t>>();
  const auto runner = open_runner(kFamilies / GetParam(), std::ssize(ids));
  std::size_t rows = 0;
  runner->score(ids, [&](std::int64_t first, const LogitsView& logits) {
    for (std::int64_t i = 0; i < logits.rows; ++i, ++rows) {
      const auto expected =
          golden["logits"][static_cast<std::size_t>(first + i)].get<std::vector<float>>();
      for (std::size_t j = 0; j < expected.size(); ++j) {
        ASSERT_NEAR(logits.row(i)[j], expected[j], 1e-4) << "token " << first + i << " logit " << j;
      }
    }
  });
  EXPECT_EQ(rows, ids.size());
}

// Texts that are scored together do not see each other; only the wanted rows come back.
TEST_P(Families, LogitsOfTextsTogether) {
  const Json golden = read(kFamilies / GetParam() / "golden.json");
  const auto ids = golden["ids"].get<std::vector<std::int32_t>>();
  const auto runner = open_runner(kFamilies / GetParam(), std::ssize(ids));
  const auto count = static_cast<std::int64_t>(ids.size());
  std::vector<ScoredText> texts = {{ids, count - 2}, {std::span(ids).first(5), 0}};
  std::vector<std::size_t> wanted = {ids.size() - 2, ids.size() - 1, 0, 1, 2, 3, 4};
  for (int copy = 0; copy < 12; ++copy) {  // more rows than one chunk holds
    texts.push_back({ids, 1});
    for (std::size_t row = 1; row < ids.size(); ++row) {
      wanted.push_back(row);
    }
  }
  std::size_t rows = 0;
  runner->score_texts(texts, [&](std::int64_t first, const LogitsView& logits) {
    ASSERT_EQ(static_cast<std::size_t>(first), rows);
    for (std::int64_t i = 0; i < logits.rows; ++i, ++rows) {
      const auto expected = golden["logits"][wanted.at(rows)].get<std::vector<float>>();
      for (std::size_t j = 0; j < expected.size(); ++j) {
        ASSERT_NEAR(logits.row(i)[j], expected[j], 1e-4) << "row " << rows << " logit " << j;
      }
    }
  });
  EXPECT_EQ(rows, wanted.size());
  EXPECT_GT(rows, 256u);
}

// A prompt and then one token after another, with the KV cache.
TEST_P(Families, LogitsTokenByToken) {
  const Json golden = read(kFamilies / GetParam() / "golden.json");
  const auto ids = golden["ids"].get<std::vector<std::int32_t>>();
  const auto runner = open_runner(kFamilies / GetParam(), std::ssize(ids));
  FixedSequences sequences(*runner, 1, std::ssize(ids));
  std::size_t done = 0;
  for (const std::size_t count :
       {std::size_t{21}, std::size_t{1}, std::size_t{1}, std::size_t{3}, std::size_t{14}}) {
    const Slice slice = sequences.next(0, std::span(ids).subspan(done, count));
    const LogitsView logits = runner->forward({&slice, 1});
    done += count;
    const auto expected = golden["logits"][done - 1].get<std::vector<float>>();
    for (std::size_t j = 0; j < expected.size(); ++j) {
      ASSERT_NEAR(logits.row(0)[j], expected[j], 1e-4)
          << "after " << done << " tokens, logit " << j;
    }
  }
  EXPECT_EQ(done, ids.size());
}

INSTANTIATE_TEST_SUITE_P(All, Families,
                         testing::Values("llama", "llama-bias-tied", "llama3-rope",
                                         "llama-linear-rope", "llama-yarn-rope", "mistral", "qwen2",
                                         "qwen2-window", "qwen3", "qwen3-moe", "qwen3-moe-shares",
                                         "mixtral", "phi3", "phi3-long-rope", "phi4-short-rope",
                                         "gemma", "gemma2", "gemma3-text", "gemma3", "gpt2", "opt",
                                         "opt-post-norm", "opt-projected"),
                         test_name);

class WrittenTexts : public Families {};

// What the model writes behind the text when it takes the most probable token, beyond its windows.
TEST_P(WrittenTexts, GreedyTokens) {
  const Json golden = read(kFamilies / GetParam() / "golden.json");
  auto next = golden["ids"].get<std::vector<std::int32_t>>();
  const auto greedy = golden["greedy"].get<std::vector<std::int32_t>>();
  const std::int64_t context = std::ssize(next) + std::ssize(greedy);
  const auto runner = open_runner(kFamilies / GetParam(), context);
  FixedSequences sequences(*runner, 1, context);
  for (std::size_t step = 0; step < greedy.size(); ++step) {
    const Slice slice = sequences.next(0, next);
    const auto row = runner->forward({&slice, 1}).row(0);
    next = {static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin())};
    ASSERT_EQ(next[0], greedy[step]) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(All, WrittenTexts,
                         testing::Values("qwen3-moe", "qwen3-moe-shares", "phi3", "phi3-long-rope",
                                         "phi4-short-rope", "gemma", "gemma2", "gemma3-text",
                                         "gemma3"),
                         test_name);

class TrainedModels : public testing::TestWithParam<const char*> {};

TEST_P(TrainedModels, FirstLogitsAndGreedyTokens) {
  const std::filesystem::path folder = kShared / GetParam();
  if (!std::filesystem::exists(folder) || !is_there(place())) {
    GTEST_SKIP() << "there is no GPU, or the test models are not here: " << folder;
  }
  const Json prompt = read(folder / "golden.json")["prompt"];
  const auto ids = prompt["ids"].get<std::vector<std::int32_t>>();
  const auto runner = open_runner(folder);
  auto greedy = prompt["greedy_ids"].get<std::vector<std::int32_t>>();
  greedy.erase(greedy.begin(), greedy.begin() + static_cast<std::ptrdiff_t>(ids.size()));
  FixedSequences sequences(*runner, 1, std::ssize(ids) + std::ssize(greedy));
  std::vector<std::int32_t> next = ids;
  for (std::size_t step = 0; step < greedy.size(); ++step) {
    const Slice slice = sequences.next(0, next);
    const LogitsView logits = runner->forward({&slice, 1});
    if (step == 0) {
      const auto expected = prompt["logits_last_first16"].get<std::vector<float>>();
      for (std::size_t j = 0; j < expected.size(); ++j) {
        EXPECT_NEAR(logits.row(0)[j], expected[j], 1e-3) << j;
      }
    }
    const auto row = logits.row(0);
    next = {static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin())};
    ASSERT_EQ(next[0], greedy[step]) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrainedModels,
                         testing::Values("demo-7m", "lm-26m", "lm-gpt2-17m", "opt-preln-12m",
                                         "opt-postln-12m"),
                         test_name);

// A GGUF file against an implementation in NumPy, in float64 (tests/gguf/make_golden.py).
class Gguf : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(file_) || !is_there(place())) {
      GTEST_SKIP() << "there is no GPU, or the test model is not here: " << file_;
    }
    golden_ = read(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests/gguf/stories260K.json");
    runner_ = open_runner(file_);
  }
  const std::filesystem::path file_ = kShared / "stories260K" / "stories260Ktok512.gguf";
  Json golden_;
  std::unique_ptr<Runner> runner_;
};

TEST_F(Gguf, LogitsAndGreedyTokens) {
  const auto ids = golden_["ids"].get<std::vector<std::int32_t>>();
  FixedSequences sequences(*runner_, 1, std::ssize(ids));
  for (std::size_t step = 0; step < ids.size(); ++step) {
    const Slice slice = sequences.next(0, {&ids[step], 1});
    const auto row = runner_->forward({&slice, 1}).row(0);
    const auto expected = golden_["first_logits"][step].get<std::vector<float>>();
    for (std::size_t j = 0; j < expected.size(); ++j) {
      ASSERT_NEAR(row[j], expected[j], 1e-3) << "step " << step << " logit " << j;
    }
    double sum = 0;
    for (const float logit : row) {
      sum += std::exp(static_cast<double>(logit));
    }
    ASSERT_NEAR(std::log(sum), golden_["log_sum_exp"][step].get<double>(), 1e-3) << step;
    if (step + 1 < ids.size()) {
      ASSERT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), ids[step + 1]) << step;
    }
  }
}

TEST_F(Gguf, LikelihoodOfStories) {
  const auto stories = kShared / ".." / "data/tinystories_sample/tinystories_1000.json";
  if (!std::filesystem::exists(stories)) {
    GTEST_SKIP() << "the test text is not here: " << stories;
  }
  constexpr std::size_t kMostTokens = 512;
  const Json texts = read(stories);
  const auto tokenizer = models::open_model(file_)->tokenizer;
  for (std::size_t i = 0; i < golden_["story_nll"].size(); ++i) {
    std::vector<std::int32_t> ids = {tokenizer->bos().value()};
    const auto encoded = tokenizer->encode(texts[i].get<std::string>(), {.add_special = false});
    ids.insert(ids.end(), encoded.begin(), encoded.end());
    ids.resize(std::min(ids.size(), kMostTokens));
    ASSERT_EQ(ids.size() - 1, golden_["story_tokens"][i].get<std::size_t>()) << i;
    double nll = 0;
    runner_->score(ids, [&](std::int64_t first, const LogitsView& logits) {
      for (std::int64_t row = 0; row < logits.rows; ++row) {
        const auto next = static_cast<std::size_t>(first + row + 1);
        if (next == ids.size()) {
          return;
        }
        double sum = 0;
        for (const float logit : logits.row(row)) {
          sum += std::exp(static_cast<double>(logit));
        }
        nll += std::log(sum) -
               static_cast<double>(logits.row(row)[static_cast<std::size_t>(ids[next])]);
      }
    });
    const double expected = golden_["story_nll"][i].get<double>();
    EXPECT_NEAR(nll, expected, 1e-4 * expected) << i;
  }
}

}  // namespace
}  // namespace nibble::engine
