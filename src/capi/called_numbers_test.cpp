#include <cmath>

#include "capi/model_for_tests.h"

// Tokens, embeddings, labels, likelihoods and logits through the C interface.
namespace nibble::capi {
namespace {

// Those of transformers, in float32 (tools/make_demo_golden.py).
Json demo_golden() {
  return Json::parse(read_file(NIBBLE_SOURCE_DIR "/tests/data/demo_golden.json"));
}

double log_sum_exp(const Numbers& logits, std::size_t row) {
  double sum = 0;
  for (std::size_t i = 0; i < logits.columns; ++i) {
    sum += std::exp(static_cast<double>(logits.at(row, i)));
  }
  return std::log(sum);
}

std::string detokenize(nibble_model* model, const std::vector<std::int32_t>& ids, int skip) {
  char* text = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(nibble_detokenize(model, ids.data(), ids.size(), skip, &text, &bytes), NIBBLE_OK);
  const std::string copy = taken(text);
  EXPECT_EQ(copy.size(), bytes);
  return copy;
}

TEST(CalledNumbers, FactsOfADecoder) {
  const Opened model(kDemo);
  nibble_facts facts{};
  facts.struct_size = sizeof facts;
  ASSERT_EQ(nibble_model_facts(model, &facts), NIBBLE_OK) << nibble_last_error();
  EXPECT_EQ(facts.kind, NIBBLE_DECODER);
  EXPECT_EQ(facts.vocabulary, 8192);
  EXPECT_EQ(facts.context, 1024);
  EXPECT_EQ(facts.hidden, 256);
  EXPECT_EQ(facts.layers, 6);
  EXPECT_EQ(facts.parameters, 6'819'072);  // models/demo/README.md
  EXPECT_EQ(facts.bits_per_weight, 16);
  EXPECT_STREQ(facts.family, "llama");
  EXPECT_STREQ(facts.recipe, "");
  EXPECT_STREQ(facts.device, "cpu");
  EXPECT_STREQ(facts.chat_template, "");
  EXPECT_EQ(facts.eos, 0);
  EXPECT_EQ(facts.labels, 0);
  EXPECT_EQ(nibble_model_label(model, 0), nullptr);
}

TEST(CalledNumbers, FactsOfOtherKinds) {
  nibble_facts facts{};
  facts.struct_size = sizeof facts;
  const Opened encoder(kFamilies + "bert-texts");
  ASSERT_EQ(nibble_model_facts(encoder, &facts), NIBBLE_OK);
  EXPECT_EQ(facts.kind, NIBBLE_ENCODER);
  ASSERT_EQ(facts.labels, 3);
  EXPECT_NE(nibble_model_label(encoder, 2), nullptr);
  EXPECT_EQ(nibble_model_label(encoder, 3), nullptr);
  const Opened both(kFamilies + "bart");
  ASSERT_EQ(nibble_model_facts(both, &facts), NIBBLE_OK);
  EXPECT_EQ(facts.kind, NIBBLE_ENCODER_DECODER);
}

TEST(CalledNumbers, RemarksGoToTheLog) {
  std::vector<std::string> lines;
  auto options = defaults(nibble_open_options_init);
  options.device = "cpu";
  options.log_user = &lines;
  options.log = [](void* user, const char* line) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(line);
  };
  nibble_model* model = nullptr;
  const std::string path = NIBBLE_SOURCE_DIR "/tests/exchange/bnb-nf4";
  ASSERT_EQ(nibble_model_open(path.c_str(), &options, &model), NIBBLE_OK) << nibble_last_error();
  nibble_model_close(model);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("scales were rounded"), std::string::npos) << lines[0];
}

TEST(CalledNumbers, AnAdapterRunsBesideAModel) {
  const std::string path = kFamilies + "gpt2";
  const std::string adapter = path + "/lora";
  const auto logits = [&](const char* lora, double scale) {
    auto options = defaults(nibble_open_options_init);
    options.device = "cpu";
    options.lora = lora;
    options.lora_scale = scale;
    nibble_model* model = nullptr;
    EXPECT_EQ(nibble_model_open(path.c_str(), &options, &model), NIBBLE_OK) << nibble_last_error();
    const Numbers numbers = forward(model, {5, 6, 7});
    nibble_model_close(model);
    return numbers.values;
  };
  const auto plain = logits(nullptr, 1);
  EXPECT_NE(logits(adapter.c_str(), 1), plain);
  EXPECT_EQ(logits(adapter.c_str(), 0), plain);
}

TEST(CalledNumbers, TokensAndBack) {
  const Opened model(kDemo);
  const Json golden = demo_golden()["prompt"];
  const auto text = golden["text"].get<std::string>();
  const auto ids = tokenize(model, text);
  EXPECT_EQ(Json(ids), golden["ids"]);
  EXPECT_EQ(detokenize(model, ids, 1), text);
  EXPECT_EQ(detokenize(model, {0, ids[0]}, 1), "When");
  EXPECT_EQ(detokenize(model, {0, ids[0]}, 0), "<|endoftext|>When");
  auto options = defaults(nibble_tokenize_options_init);
  options.parse_special = 0;
  std::int32_t* plain = nullptr;
  std::size_t count = 0;
  const std::string_view special = "<|endoftext|>";
  ASSERT_EQ(nibble_tokenize(model, special.data(), special.size(), &options, &plain, &count),
            NIBBLE_OK);
  EXPECT_GT(count, 1u);
  nibble_free(plain);
  EXPECT_TRUE(tokenize(model, "").empty());
}

TEST(CalledNumbers, LogitsAreThoseOfTransformers) {
  const Opened model(kFamilies + "llama");
  const Json golden = Json::parse(read_file(kFamilies + "llama/golden.json"));
  const Numbers logits = forward(model, golden["ids"].get<std::vector<std::int32_t>>());
  ASSERT_EQ(logits.rows, golden["logits"].size());
  ASSERT_EQ(logits.columns, golden["logits"][0].size());
  for (std::size_t row = 0; row < logits.rows; ++row) {
    for (std::size_t i = 0; i < logits.columns; ++i) {
      // The KV cache rounds to float16.
      ASSERT_NEAR(logits.at(row, i), golden["logits"][row][i].get<float>(), 0.02)
          << row << " " << i;
    }
  }
}

TEST(CalledNumbers, LogitsOfAnEncoderDecoderFollowItsTarget) {
  const Opened model(kFamilies + "bart");
  const Numbers both = forward(model, {5, 6, 7}, {8, 9});
  const Numbers other = forward(model, {5, 6, 7}, {8, 10});
  EXPECT_EQ(both.rows, 2u);
  EXPECT_EQ(both.columns, 64u);
  EXPECT_EQ(both.values, other.values);  // a row is of what stands before its token
  EXPECT_NE(both.values, forward(model, {5, 6, 7}, {9, 9}).values);
  EXPECT_NE(both.values, forward(model, {5, 6, 8}, {8, 9}).values);
}

TEST(CalledNumbers, LogitsOfEncoders) {
  const Numbers words = forward(Opened(kFamilies + "bert-masked"), {5, 6, 7});
  EXPECT_EQ(words.rows, 3u);
  EXPECT_EQ(words.columns, 64u);
  const Numbers labels = forward(Opened(kFamilies + "bert-texts"), {14});
  EXPECT_EQ(labels.rows, 1u);
  const Json golden = Json::parse(read_file(kFamilies + "bert-texts/golden.json"))["texts"][1];
  ASSERT_EQ(golden["ids"], Json({14}));
  for (std::size_t i = 0; i < labels.columns; ++i) {
    EXPECT_NEAR(labels.at(0, i), golden["numbers"][0][i].get<float>(), 1e-5);
  }
}

TEST(CalledNumbers, EmbeddingsOfADecoder) {
  const Opened model(kDemo);
  const auto ids = tokenize(model, "The library");
  const std::vector<nibble_input> texts = {input("The library"), input("In the morning"),
                                           input(ids)};
  float* values = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  ASSERT_EQ(nibble_embed(model, texts.data(), 3, nullptr, &values, &rows, &columns), NIBBLE_OK)
      << nibble_last_error();
  ASSERT_EQ(rows, 3u);
  ASSERT_EQ(columns, 256u);
  double square = 0;
  for (std::size_t i = 0; i < columns; ++i) {
    square += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    EXPECT_EQ(values[i], values[2 * columns + i]);
  }
  EXPECT_NEAR(square, 1, 1e-5);
  EXPECT_NE(values[0], values[columns]);
  nibble_free(values);
}

TEST(CalledNumbers, EmbeddingsOfAnEncoder) {
  const Opened model(kFamilies + "bert");
  const std::vector<nibble_input> texts = {input("t5 t6"), input("t7")};
  auto options = defaults(nibble_read_options_init);
  const auto embed = [&] {
    float* values = nullptr;
    std::size_t rows = 0;
    std::size_t columns = 0;
    EXPECT_EQ(nibble_embed(model, texts.data(), 2, &options, &values, &rows, &columns), NIBBLE_OK)
        << nibble_last_error();
    EXPECT_EQ(columns, 36u);
    const std::vector<float> copy(values, values + rows * columns);
    nibble_free(values);
    return copy;
  };
  const auto mean = embed();
  options.pooling = "first";
  const auto first = embed();
  EXPECT_NE(mean, first);
  options.pooling = nullptr;
  EXPECT_EQ(embed(), mean);  // a choice holds for its call
  options.normalize = 1;
  double square = 0;
  for (const float value : embed()) {
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(square, 2, 1e-5);
}

TEST(CalledNumbers, LabelsOfTextsPairsAndTokens) {
  const Opened texts_model(kFamilies + "bert-texts");
  const std::vector<nibble_input> texts = {input("t14"), input("t5 t6")};
  char* json = nullptr;
  ASSERT_EQ(nibble_classify(texts_model, texts.data(), nullptr, 2, nullptr, &json), NIBBLE_OK)
      << nibble_last_error();
  const Json alone = Json::parse(taken(json));
  ASSERT_EQ(alone["results"].size(), 2u);
  EXPECT_EQ(alone["results"][0]["logits"].size(), 3u);
  EXPECT_EQ(alone["truncated"], 0);
  ASSERT_EQ(nibble_classify(texts_model, texts.data(), texts.data(), 2, nullptr, &json), NIBBLE_OK);
  EXPECT_NE(Json::parse(taken(json))["results"], alone["results"]);
  const Opened tokens_model(kFamilies + "bert-tokens");
  ASSERT_EQ(nibble_classify(tokens_model, &texts[1], nullptr, 1, nullptr, &json), NIBBLE_OK);
  const Json tokens = Json::parse(taken(json))["results"][0]["tokens"];
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[1]["token"], "t6");
}

TEST(CalledNumbers, LikelihoodsAreSumsOfLogits) {
  const Opened model(kDemo);
  const Json golden = demo_golden()["prompt"];
  const auto ids = golden["ids"].get<std::vector<std::int32_t>>();
  const auto greedy = golden["greedy_ids"].get<std::vector<std::int32_t>>();
  const std::vector<std::int32_t> next(greedy.begin(), greedy.begin() + 3);
  const std::vector<std::int32_t> other = {next[0], 500};
  const std::vector<nibble_input> contexts = {input(ids), input(ids),
                                              input("When the water in the lock")};
  const std::vector<nibble_input> continuations = {input(next), input(other), input(", the water")};
  std::vector<nibble_likelihood> scores(3);
  ASSERT_EQ(nibble_score(model, contexts.data(), continuations.data(), 3, scores.data()), NIBBLE_OK)
      << nibble_last_error();
  std::vector<std::int32_t> whole = ids;
  whole.insert(whole.end(), next.begin(), next.end());
  const Numbers logits = forward(model, whole);
  double expected = 0;
  for (std::size_t i = 0; i < next.size(); ++i) {
    const std::size_t row = ids.size() - 1 + i;
    expected += logits.at(row, static_cast<std::size_t>(next[i])) - log_sum_exp(logits, row);
  }
  EXPECT_NEAR(scores[0].log_likelihood, expected, 1e-4);
  EXPECT_EQ(scores[0].greedy, 1);
  EXPECT_EQ(scores[0].tokens, 3);
  EXPECT_EQ(scores[1].greedy, 0);
  EXPECT_EQ(scores[2].log_likelihood, scores[0].log_likelihood);  // the same in words
}

}  // namespace
}  // namespace nibble::capi
