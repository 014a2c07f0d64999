#include <filesystem>

#include "capi/model_for_tests.h"

// The library with a model on a GPU.
namespace nibble::capi {
namespace {

class CalledCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("/dev/nvidiactl")) {
      GTEST_SKIP() << "there is no NVIDIA GPU";
    }
    ASSERT_EQ(nibble_model_open(kDemo.c_str(), nullptr, &model_), NIBBLE_OK) << nibble_last_error();
  }
  ~CalledCuda() override { nibble_model_close(model_); }

  std::vector<std::int32_t> write(std::string_view text) const {
    auto options = defaults(nibble_generate_options_init);
    options.temperature = 0;
    options.max_tokens = 16;
    const nibble_input prompt = input(text);
    Texts texts;
    EXPECT_EQ(nibble_generate(model_, &prompt, 1, &options, texts.out()), NIBBLE_OK)
        << nibble_last_error();
    return texts.get() == nullptr ? std::vector<std::int32_t>() : texts.tokens(0);
  }

  nibble_model* model_ = nullptr;
};

TEST_F(CalledCuda, AGpuIsTheFirstChoice) {
  nibble_facts facts{};
  facts.struct_size = sizeof facts;
  ASSERT_EQ(nibble_model_facts(model_, &facts), NIBBLE_OK);
  EXPECT_STREQ(facts.device, "cuda");
}

// Scoring uses the pages of the engine, which is made again.
TEST_F(CalledCuda, WritesTheSameBeforeAndAfterScoring) {
  const auto first = write("When the water in the lock");
  EXPECT_EQ(first.size(), 16u);
  const nibble_input context = input("When the water in the lock");
  const nibble_input continuation = input(", the water");
  nibble_likelihood score{};
  ASSERT_EQ(nibble_score(model_, &context, &continuation, 1, &score), NIBBLE_OK)
      << nibble_last_error();
  EXPECT_EQ(score.tokens, 3);
  EXPECT_EQ(write("When the water in the lock"), first);
}

TEST_F(CalledCuda, LogitsAreNearThoseOfTheCpu) {
  const Opened cpu(kDemo);
  const auto ids = tokenize(model_, "When the water in the lock");
  const Numbers expected = forward(cpu, ids);
  const Numbers logits = forward(model_, ids);
  ASSERT_EQ(logits.values.size(), expected.values.size());
  for (std::size_t i = 0; i < logits.values.size(); ++i) {
    // Both round keys, values and activations to 16 bits, in other places; logits reach 15.
    ASSERT_NEAR(logits.values[i], expected.values[i], 0.2) << i;
  }
}

TEST_F(CalledCuda, EmbeddingsAreNearThoseOfTheCpu) {
  const Opened cpu(kDemo);
  const nibble_input text = input("The library");
  const auto embed = [&](nibble_model* model) {
    float* values = nullptr;
    std::size_t rows = 0;
    std::size_t columns = 0;
    EXPECT_EQ(nibble_embed(model, &text, 1, nullptr, &values, &rows, &columns), NIBBLE_OK)
        << nibble_last_error();
    const std::vector<float> copy(values, values + rows * columns);
    nibble_free(values);
    return copy;
  };
  const auto here = embed(model_);
  const auto there = embed(cpu);
  double product = 0;
  for (std::size_t i = 0; i < here.size(); ++i) {
    product += static_cast<double>(here[i]) * static_cast<double>(there[i]);
  }
  EXPECT_GT(product, 0.999);  // of vectors of length 1
}

}  // namespace
}  // namespace nibble::capi
