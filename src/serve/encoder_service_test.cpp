// An encoder behind HTTP; a small one of the tests' own, whose results can be told beforehand.

#include "serve/encoder_service.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "serve/raw_client_for_tests.h"

namespace nibble::serve {
namespace {

using core::Json;

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kMostTokens = 24;

// Embeds a text as the counts of its ids modulo the width. The logit of a pair is the number of ids
// above the special ones that both texts have.
class CountingEncoder final : public engine::Encoder {
 public:
  engine::EncoderRows hidden_states(std::span<const engine::EncoderText> /*texts*/) override {
    core::fail(core::ErrorKind::kUsage, "not asked for here");
  }
  engine::EncoderRows masked_lm(std::span<const engine::EncoderText> /*texts*/) override {
    core::fail(core::ErrorKind::kUsage, "not asked for here");
  }
  engine::EncoderRows classify(std::span<const engine::EncoderText> texts) override {
    engine::EncoderRows rows{{}, 0, 1};
    for (const engine::EncoderText& text : texts) {
      std::set<std::int32_t> first;
      std::set<std::int32_t> both;
      for (std::size_t i = 0; i < text.tokens.size(); ++i) {
        const std::int32_t id = text.tokens[i];
        if (id > 4 && text.types[i] == 0) {
          first.insert(id);
        } else if (first.contains(id)) {
          both.insert(id);
        }
      }
      add(rows, {static_cast<float>(both.size())});
    }
    return rows;
  }
  engine::EncoderRows embed(std::span<const engine::EncoderText> texts) override {
    ++calls;
    core::require(!broken, core::ErrorKind::kFailed, "a part has broken");
    engine::EncoderRows rows{{}, 0, kWidth};
    for (const engine::EncoderText& text : texts) {
      std::vector<float> counts(kWidth);
      for (const std::int32_t id : text.tokens) {
        counts[static_cast<std::size_t>(id % kWidth)] += 1;
      }
      add(rows, counts);
    }
    return rows;
  }
  std::int64_t max_tokens() const override { return kMostTokens; }
  core::ThreadPool& pool() override { return pool_; }
  engine::DeviceLimits measure_limits() override { return {}; }

  std::atomic<int> calls{0};
  std::atomic<bool> broken{false};

 private:
  static void add(engine::EncoderRows& rows, const std::vector<float>& row) {
    rows.values.insert(rows.values.end(), row.begin(), row.end());
    ++rows.rows;
  }

  core::ThreadPool pool_{1};
};

std::shared_ptr<models::Model> bert() {
  std::ifstream file(std::filesystem::path(NIBBLE_SOURCE_DIR) /
                     "src/text/goldens/tokenizers/bert.json");
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  auto model = std::make_shared<models::Model>();
  model->config_json = Json::object();
  model->tokenizer = text::Tokenizer::from_json(json, "", "bert");
  model->network.config.vocabulary = model->tokenizer->vocab_size();
  const std::vector<float> types(2 * kWidth);
  model->network.embeddings.types = core::Tensor::from<float>(types, {2, kWidth});
  return model;
}

class EncoderServiceTest : public ::testing::Test {
 protected:
  void label(std::size_t labels) {
    model_->network.classifier.emplace();
    model_->network.classifier->labels.resize(labels, "label");
  }

  void start() {
    options_.names = {"bert", "family/bert"};
    auto encoder = std::make_unique<CountingEncoder>();
    encoder_ = encoder.get();
    service_ = std::make_unique<EncoderService>(model_, std::move(encoder),
                                                Listener(options_.http.host, 0), options_,
                                                [](const LogRecord&) {});
    port_ = service_->port();
    thread_ = std::thread([this] { outcome_ = service_->run(); });
  }

  void TearDown() override {
    if (thread_.joinable()) {
      service_->drain();
      thread_.join();
      EXPECT_EQ(outcome_, Outcome::kStopped);
    }
  }

  RawClient::Answer post(const std::string& path, const Json& body) const {
    return ask(port_, "POST", path, body.dump());
  }
  Json json(const std::string& path, const Json& body) const {
    const RawClient::Answer answer = post(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return core::parse_json(answer.body, "answer");
  }
  void refused(const std::string& path, const Json& body, int status, const std::string& part) {
    const RawClient::Answer answer = post(path, body);
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_NE(answer.body.find(part), std::string::npos) << answer.body;
  }

  // The numbers of CountingEncoder.
  std::vector<float> counts_of(const std::string& text) const {
    std::vector<float> counts(kWidth);
    for (const std::int32_t id : model_->tokenizer->encode(text, {.add_special = true})) {
      counts[static_cast<std::size_t>(id % kWidth)] += 1;
    }
    return counts;
  }
  double cosine_of(const std::string& a, const std::string& b) const {
    const auto x = counts_of(a);
    const auto y = counts_of(b);
    const auto product = [](const std::vector<float>& p, const std::vector<float>& q) {
      double sum = 0;
      for (std::size_t i = 0; i < p.size(); ++i) {
        sum += static_cast<double>(p[i]) * static_cast<double>(q[i]);
      }
      return sum;
    };
    return product(x, y) / std::sqrt(product(x, x) * product(y, y));
  }

  std::shared_ptr<models::Model> model_ = bert();
  CountingEncoder* encoder_ = nullptr;
  ServiceOptions options_;
  std::unique_ptr<EncoderService> service_;
  std::thread thread_;
  Outcome outcome_ = Outcome::kFailed;
  int port_ = 0;
};

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

std::string long_text() {
  std::string text;
  for (std::int64_t i = 0; i < kMostTokens; ++i) {
    text += "the ";
  }
  return text;
}

TEST_F(EncoderServiceTest, Embeddings) {
  start();
  const Json answer = json("/v1/embeddings", {{"model", "bert"}, {"input", {"the", "a text"}}});
  EXPECT_EQ(answer["object"], "list");
  EXPECT_EQ(answer["model"], "bert");
  ASSERT_EQ(answer["data"].size(), 2u);
  EXPECT_EQ(answer["data"][1]["index"], 1);
  EXPECT_EQ(answer["data"][0]["embedding"].get<std::vector<float>>(), counts_of("the"));
  EXPECT_EQ(answer["data"][1]["embedding"].get<std::vector<float>>(), counts_of("a text"));
  const std::size_t tokens = model_->tokenizer->encode("the", {.add_special = true}).size() +
                             model_->tokenizer->encode("a text", {.add_special = true}).size();
  EXPECT_EQ(answer["usage"]["prompt_tokens"], tokens);
  const Json of_ids = json("/v1/embeddings", {{"input", {5, 6, 7}}});
  EXPECT_EQ(of_ids["data"][0]["embedding"], Json({0.0, 1.0, 1.0, 1.0}));
  const Json coded = json("/v1/embeddings", {{"input", "the"}, {"encoding_format", "base64"}});
  EXPECT_TRUE(coded["data"][0]["embedding"].is_string());
  refused("/v1/embeddings", {{"input", "the"}, {"dimensions", 3}}, 400, "4 dimensions");
  refused("/v1/embeddings", {{"input", "the"}, {"model", "other"}}, 404, "other");
}

TEST_F(EncoderServiceTest, LongInputsAreRefusedOrCut) {
  start();
  refused("/v1/embeddings", {{"input", long_text()}}, 400, "context_length_exceeded");
  for (const Json& field : {Json{{"truncate", true}}, Json{{"truncate_prompt_tokens", -1}}}) {
    Json body = {{"input", long_text()}};
    body.update(field);
    EXPECT_EQ(json("/v1/embeddings", body)["usage"]["prompt_tokens"], kMostTokens);
  }
  const Json cut = json("/v1/embeddings", {{"input", long_text()}, {"truncate_prompt_tokens", 9}});
  EXPECT_EQ(cut["usage"]["prompt_tokens"], 9);
  const std::vector<std::int32_t> ids(kMostTokens + 1, 5);
  refused("/v1/embeddings", {{"input", ids}}, 400, "context_length_exceeded");
  refused("/v1/embeddings", {{"input", "a"}, {"truncate_prompt_tokens", 2}}, 400, "no room");
  refused("/v1/rerank", {{"query", "a"}, {"documents", {"b", long_text()}}}, 400, "documents[1]");
}

TEST_F(EncoderServiceTest, CrossEncodersRerank) {
  label(1);
  start();
  const Json documents = {"nothing", "the text", "the"};
  const Json answer = json(
      "/v1/rerank", {{"model", "family/bert"}, {"query", "the text"}, {"documents", documents}});
  const Json& results = answer["results"];
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0]["index"], 1);
  EXPECT_EQ(results[0]["document"]["text"], "the text");
  EXPECT_EQ(results[1]["index"], 2);
  EXPECT_GT(results[0]["relevance_score"].get<double>(),
            results[1]["relevance_score"].get<double>());
  const Json raw =
      json("/rerank", {{"query", "the text"}, {"texts", documents}, {"raw_scores", true}});
  ASSERT_TRUE(raw.is_array());
  ASSERT_EQ(raw.size(), 3u);
  EXPECT_EQ(raw[0]["index"], 1);
  EXPECT_FALSE(raw[0].contains("text"));
  EXPECT_NEAR(logistic(raw[0]["score"].get<double>()), results[0]["relevance_score"].get<double>(),
              1e-6);
  const Json top = json("/v1/rerank", {{"query", "the text"},
                                       {"documents", {{{"text", "nothing"}}, {{"text", "the"}}}},
                                       {"top_n", 1},
                                       {"return_documents", false}})["results"];
  ASSERT_EQ(top.size(), 1u);
  EXPECT_EQ(top[0]["index"], 1);
  EXPECT_FALSE(top[0].contains("document"));
}

TEST_F(EncoderServiceTest, CrossEncodersScore) {
  label(1);
  start();
  const Json answer =
      json("/v1/score", {{"text_1", "the text"}, {"text_2", {"the text", "nothing"}}});
  EXPECT_EQ(answer["object"], "list");
  ASSERT_EQ(answer["data"].size(), 2u);
  EXPECT_EQ(answer["data"][0]["object"], "score");
  const double both = answer["data"][0]["score"].get<double>();
  const double none = answer["data"][1]["score"].get<double>();
  EXPECT_GT(both, none);
  const Json pairs =
      json("/score", {{"text_1", {"nothing", "the text"}}, {"text_2", {"the text", "the text"}}});
  EXPECT_EQ(pairs["data"][1]["score"].get<double>(), both);
  refused("/v1/score", {{"text_1", {"a", "b"}}, {"text_2", {"a", "b", "c"}}}, 400, "as many");
  refused("/v1/score", {{"text_1", "a"}}, 400, "'text_2' is missing");
  refused("/v1/score", {{"text_1", "a"}, {"text_2", {1}}}, 400, "text_2[0]");
  refused("/v1/rerank", {{"query", "a"}, {"documents", Json::array()}}, 400, "documents");
}

TEST_F(EncoderServiceTest, TheConfigurationMayWantScoresAsTheyAre) {
  label(1);
  *model_->config_json = {
      {"sentence_transformers", {{"activation_fn", "torch.nn.modules.linear.Identity"}}}};
  start();
  const Json answer = json("/v1/score", {{"text_1", "the"}, {"text_2", "the"}});
  const double score = answer["data"][0]["score"].get<double>();
  EXPECT_EQ(score, std::floor(score));
  EXPECT_GE(score, 1);
}

TEST_F(EncoderServiceTest, EmbeddingsScoreByTheirCosine) {
  start();
  const Json results =
      json("/v1/rerank", {{"query", "the text"}, {"documents", {"a", "the text"}}})["results"];
  EXPECT_EQ(results[0]["index"], 1);
  EXPECT_NEAR(results[0]["relevance_score"].get<double>(), 1, 1e-9);
  EXPECT_NEAR(results[1]["relevance_score"].get<double>(), cosine_of("the text", "a"), 1e-9);
  const Json pairs = json("/v1/score", {{"text_1", {"the", "a"}}, {"text_2", {"a text", "two"}}});
  EXPECT_NEAR(pairs["data"][0]["score"].get<double>(), cosine_of("the", "a text"), 1e-9);
  EXPECT_NEAR(pairs["data"][1]["score"].get<double>(), cosine_of("a", "two"), 1e-9);
}

TEST_F(EncoderServiceTest, ModelsOfSeveralLabelsDoNotScore) {
  label(3);
  start();
  refused("/v1/score", {{"text_1", "a"}, {"text_2", "b"}}, 400, "3 labels");
  refused("/v1/rerank", {{"query", "a"}, {"documents", {"b"}}}, 400, "3 labels");
}

TEST_F(EncoderServiceTest, WhatElseIsAsked) {
  options_.keys = {"secret"};
  start();
  const std::string key = "Authorization: Bearer secret\r\n";
  EXPECT_EQ(post("/v1/embeddings", {{"input", "a"}}).status, 401);
  EXPECT_EQ(ask(port_, "GET", "/health").status, 200);
  const auto text = ask(port_, "POST", "/v1/completions", R"({"prompt":"a"})", key);
  EXPECT_EQ(text.status, 400);
  EXPECT_NE(text.body.find("writes no text"), std::string::npos) << text.body;
  EXPECT_EQ(ask(port_, "POST", "/v1/chat/completions", "{}", key).status, 400);
  EXPECT_EQ(ask(port_, "GET", "/nothing", "", key).status, 404);
  EXPECT_EQ(ask(port_, "GET", "/v1/score", "", key).status, 405);
  const auto models = ask(port_, "GET", "/v1/models", "", key);
  EXPECT_EQ(core::parse_json(models.body, "models")["data"][0]["max_model_len"], kMostTokens);
  EXPECT_EQ(ask(port_, "GET", "/v1/models/family%2Fbert", "", key).status, 200);
  EXPECT_EQ(ask(port_, "GET", "/v1/models/other", "", key).status, 404);
  EXPECT_EQ(ask(port_, "GET", "/metrics", "", key).status, 200);
}

TEST_F(EncoderServiceTest, LargeRequestsAreComputedInParts) {
  start();
  std::vector<std::string> inputs(1000, "the text");
  inputs.back() = "the";
  const Json answer = json("/v1/embeddings", {{"input", inputs}});
  ASSERT_EQ(answer["data"].size(), inputs.size());
  EXPECT_GT(encoder_->calls, 1);
  EXPECT_EQ(answer["data"][998]["embedding"].get<std::vector<float>>(), counts_of("the text"));
  EXPECT_EQ(answer["data"][999]["embedding"].get<std::vector<float>>(), counts_of("the"));
}

TEST_F(EncoderServiceTest, FailuresAreSaidAndForgotten) {
  start();
  encoder_->broken = true;
  refused("/v1/embeddings", {{"input", "a"}}, 500, "failed");
  EXPECT_NE(ask(port_, "GET", "/health").status, 200);
  encoder_->broken = false;
  json("/v1/embeddings", {{"input", "a"}});
  EXPECT_EQ(ask(port_, "GET", "/health").status, 200);
}

}  // namespace
}  // namespace nibble::serve
