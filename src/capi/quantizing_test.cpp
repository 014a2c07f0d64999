#include <filesystem>

#include "capi/model_for_tests.h"

// Quantizing and measuring through the C interface.
namespace nibble::capi {
namespace {

namespace fs = std::filesystem;

const std::string kText = read_file(kDemo + "/texts/evaluation.txt");

class Quantizing : public testing::Test {
 protected:
  Quantizing() { fs::create_directories(folder_); }
  ~Quantizing() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_ =
      fs::temp_directory_path() /
      ("nibble_capi_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
       std::to_string(testing::UnitTest::GetInstance()->random_seed()));
};

// Progress that was told, and the number of calls after which it ends the job.
struct Told {
  std::vector<std::string> jobs;
  std::int64_t done = 0;
  std::int64_t total = 0;
  int most = 1 << 30;
  int calls = 0;

  static int take(void* user, const char* job, int64_t done, int64_t total, const char*) {
    auto& told = *static_cast<Told*>(user);
    if (told.jobs.empty() || told.jobs.back() != job) {
      told.jobs.emplace_back(job);
    }
    told.done = done;
    told.total = total;
    return ++told.calls >= told.most ? 1 : 0;
  }
};

nibble_quantize_options listening(Told& told) {
  auto options = defaults(nibble_quantize_options_init);
  options.threads = 1;
  options.on_progress = Told::take;
  options.user = &told;
  return options;
}

TEST_F(Quantizing, AModelBecomesAFolderThatOpens) {
  Told told;
  const auto options = listening(told);
  char* json = nullptr;
  const std::string output = path("w4");
  ASSERT_EQ(nibble_quantize(kDemo.c_str(), "rtn-w4g128", output.c_str(), &options, &json),
            NIBBLE_OK)
      << nibble_last_error();
  const Json result = Json::parse(taken(json));
  EXPECT_EQ(result["recipe"], "rtn-w4g128");
  EXPECT_LT(result["weight_bytes"], result["original_weight_bytes"]);
  EXPECT_EQ(told.done, told.total);
  EXPECT_FALSE(told.jobs.empty());
  const Opened model(output);
  nibble_facts facts{};
  facts.struct_size = sizeof facts;
  ASSERT_EQ(nibble_model_facts(model, &facts), NIBBLE_OK);
  EXPECT_STREQ(facts.recipe, "rtn-w4g128");
  EXPECT_LT(facts.bits_per_weight, 4.5);
  EXPECT_EQ(facts.parameters, 6'819'072);
  EXPECT_EQ(nibble_quantize(kDemo.c_str(), "rtn-w4g128", output.c_str(), &options, nullptr),
            NIBBLE_IO);  // it is there
}

TEST_F(Quantizing, ProgressEndsAJob) {
  Told told;
  told.most = 2;
  const auto options = listening(told);
  EXPECT_EQ(nibble_quantize(kDemo.c_str(), "rtn-w4g128", path("w4").c_str(), &options, nullptr),
            NIBBLE_CANCELLED);
  EXPECT_EQ(told.calls, 2);
  EXPECT_FALSE(fs::exists(path("w4")));
}

TEST_F(Quantizing, WrongCallsAreRefused) {
  const auto refused = [&](const char* recipe, auto change) {
    auto options = defaults(nibble_quantize_options_init);
    change(options);
    EXPECT_EQ(nibble_quantize(kDemo.c_str(), recipe, path("w4").c_str(), &options, nullptr),
              NIBBLE_USAGE)
        << nibble_last_error();
  };
  refused("no-such-recipe", [](auto&) {});
  refused(nullptr, [](auto&) {});
  refused("w8a8", [](auto& options) { options.samples = -1; });
  refused("w8a8", [](auto& options) { options.device = "abacus"; });
  refused("w8a8", [](auto& options) { options.calibration_count = 1; });
  refused("w8a8", [](auto& options) { options.target_bits = options.fit_bytes = 4; });
  auto options = defaults(nibble_quantize_options_init);
  const char* missing[] = {"/nonexistent/text"};
  options.calibration_files = missing;
  options.calibration_count = 1;
  EXPECT_EQ(nibble_quantize(kDemo.c_str(), "w8a8", path("w4").c_str(), &options, nullptr),
            NIBBLE_IO);
  EXPECT_FALSE(fs::exists(path("w4")));
}

TEST_F(Quantizing, RecipesAreNamed) {
  char* json = nullptr;
  ASSERT_EQ(nibble_recipes(&json), NIBBLE_OK);
  const auto names = Json::parse(taken(json)).get<std::vector<std::string>>();
  EXPECT_NE(std::find(names.begin(), names.end(), "gptq-w4g128"), names.end());
}

// The perplexity that transformers computes (tools/make_demo_golden.py).
TEST_F(Quantizing, PerplexityIsThatOfTransformers) {
  const Json golden =
      Json::parse(read_file(NIBBLE_SOURCE_DIR "/tests/data/demo_golden.json"))["text"];
  const Opened model(kDemo, nullptr, "f32");
  Told told;
  auto options = defaults(nibble_evaluate_options_init);
  options.seq_len = golden["seq_len"];
  options.on_progress = Told::take;
  options.user = &told;
  char* json = nullptr;
  ASSERT_EQ(nibble_evaluate(model, kText.data(), kText.size(), &options, &json), NIBBLE_OK)
      << nibble_last_error();
  const Json result = Json::parse(taken(json));
  EXPECT_NEAR(result["perplexity"].get<double>(), golden["perplexity"].get<double>(), 1e-3);
  EXPECT_EQ(result["tokens"], golden["predictions"]);
  EXPECT_EQ(told.done, told.total);
  options.seq_len = 2000;
  EXPECT_EQ(nibble_evaluate(model, kText.data(), kText.size(), &options, &json), NIBBLE_USAGE);
}

TEST_F(Quantizing, AModelIsComparedWithAnother) {
  const Opened model(kDemo);
  const Opened other(kDemo);
  auto options = defaults(nibble_evaluate_options_init);
  options.max_tokens = 512;
  options.seq_len = 256;
  options.reference = other;
  char* json = nullptr;
  ASSERT_EQ(nibble_evaluate(model, kText.data(), kText.size(), &options, &json), NIBBLE_OK)
      << nibble_last_error();
  const Json result = Json::parse(taken(json));
  EXPECT_EQ(result["top1_agreement"], 1);
  EXPECT_NEAR(result["kl_divergence"].get<double>(), 0, 1e-6);
  options.reference = model;
  ASSERT_EQ(nibble_evaluate(other, kText.data(), kText.size(), &options, &json), NIBBLE_OK);
  nibble_free(json);
  EXPECT_EQ(nibble_evaluate(model, kText.data(), kText.size(), &options, &json), NIBBLE_USAGE);
}

TEST_F(Quantizing, RecipesAreCompared) {
  auto measuring = defaults(nibble_evaluate_options_init);
  measuring.max_tokens = 512;
  measuring.seq_len = 256;
  auto quantizing = defaults(nibble_quantize_options_init);
  quantizing.threads = 1;
  const char* recipes[] = {"rtn-w4g128", "w8a8"};
  char* json = nullptr;
  ASSERT_EQ(nibble_compare(kDemo.c_str(), recipes, 2, kText.data(), kText.size(), &measuring,
                           &quantizing, &json),
            NIBBLE_OK)
      << nibble_last_error();
  const Json rows = Json::parse(taken(json))["rows"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["recipe"], "original");
  EXPECT_EQ(rows[1]["recipe"], "rtn-w4g128");
  EXPECT_GT(rows[1]["perplexity"], rows[0]["perplexity"]);
  EXPECT_LT(rows[1]["weight_bytes"], rows[2]["weight_bytes"]);
  quantizing.target_bits = 4;
  EXPECT_EQ(nibble_compare(kDemo.c_str(), recipes, 2, kText.data(), kText.size(), &measuring,
                           &quantizing, &json),
            NIBBLE_USAGE);
}

}  // namespace
}  // namespace nibble::capi
