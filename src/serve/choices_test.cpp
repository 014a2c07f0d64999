#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "serve/service_for_tests.h"

// Choices: which of the texts are given, and what is said of their prompt.
namespace nibble::serve {
namespace {

using core::Json;

double mean_log_probability(const Json& choice) {
  const auto values = choice.at("logprobs").at("token_logprobs").get<std::vector<double>>();
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

const std::string kTexts =
    R"("prompt":["Once upon a time","The river"],"max_tokens":12,"seed":5,"ignore_eos":true)";

// The texts of seeds 5 to 10, most probable first.
std::vector<Json> sorted_texts(const Json& answer, std::size_t prompt) {
  const Json& choices = answer.at("choices");
  std::vector<Json> texts;
  for (std::size_t i = 0; i < 6; ++i) {
    texts.push_back(choices.at(prompt * 6 + i));
  }
  std::stable_sort(texts.begin(), texts.end(), [](const Json& a, const Json& b) {
    return mean_log_probability(a) > mean_log_probability(b);
  });
  return texts;
}

TEST_F(ServiceTest, GivesTheBestOfItsTexts) {
  start();
  const Json all = complete("{" + kTexts + R"(,"n":6,"logprobs":0})");
  ASSERT_EQ(all.at("choices").size(), 12u);
  const Json best = complete("{" + kTexts + R"(,"n":2,"best_of":6})");
  ASSERT_EQ(best.at("choices").size(), 4u);
  for (std::size_t prompt = 0; prompt < 2; ++prompt) {
    const auto texts = sorted_texts(all, prompt);
    const bool as_written =
        texts[0].at("index") == prompt * 6 && texts[1].at("index") == prompt * 6 + 1;
    EXPECT_FALSE(as_written) << "the order would say nothing";
    for (std::size_t i = 0; i < 2; ++i) {
      const Json& choice = best.at("choices")[prompt * 2 + i];
      EXPECT_EQ(choice.at("text"), texts[i].at("text"));
      EXPECT_EQ(choice.at("index"), prompt * 2 + i);
      EXPECT_TRUE(choice.at("logprobs").is_null());
    }
  }
  EXPECT_EQ(best.at("usage").at("completion_tokens"), 2 * 6 * 12);
  EXPECT_EQ(best.at("usage").at("prompt_tokens"), all.at("usage").at("prompt_tokens"));
}

// Of the first prompt.
std::int64_t empty_texts(const Json& answer) {
  const auto first = answer.at("choices").begin();
  const auto count = static_cast<std::int64_t>(answer.at("choices").size()) / 2;
  return std::count_if(first, first + count, [](const Json& choice) {
    return choice.at("text").get<std::string>().empty();
  });
}

TEST_F(ServiceTest, TextsWithoutTokensAreNotTheBest) {
  start();
  const Json all = complete("{" + kTexts + R"(,"n":6,"logprobs":0})");
  std::map<std::int32_t, int> firsts;
  for (std::size_t i = 0; i < 6; ++i) {
    const std::string token = all.at("choices")[i].at("logprobs").at("tokens")[0];
    ++firsts[demo()->tokenizer->encode(token).front()];
  }
  const auto once =
      std::find_if(firsts.begin(), firsts.end(), [](const auto& each) { return each.second == 1; });
  ASSERT_NE(once, firsts.end());
  const std::string stop = fmt::format(R"(,"stop_token_ids":[{}])", once->first);
  ASSERT_EQ(empty_texts(complete("{" + kTexts + stop + R"(,"n":6})")), 1);
  EXPECT_EQ(empty_texts(complete("{" + kTexts + stop + R"(,"n":5,"best_of":6})")), 0);
}

TEST_F(ServiceTest, OnlyChoicesAreStreamed) {
  start();
  is_error(post("/v1/completions", "{" + kTexts + R"(,"best_of":2,"stream":true})"), 400, "best_of",
           "streamed");
  const auto stream =
      post("/v1/completions", "{" + kTexts + R"(,"n":2,"best_of":2,"stream":true})");
  EXPECT_EQ(events_of(stream.body).back(), "[DONE]");
  is_error(post("/v1/completions", R"({"prompt":"a","prompt_logprobs":1,"stream":true})"), 400,
           "prompt_logprobs", "streamed");
}

// What stands beside each other: the records for `logprobs` of an echo, and `prompt_logprobs`.
TEST_F(ServiceTest, GivesLogProbabilitiesOfThePrompt) {
  start();
  std::vector<std::int32_t> prompt = demo()->tokenizer->encode("Once upon a time");
  prompt.insert(prompt.end(), {5000, 4000});  // nothing that follows
  const auto ask_for = [&](int of_echo, int of_prompt) {
    return complete(fmt::format(
        R"({{"prompt":{},"max_tokens":1,"ignore_eos":true,"echo":true,"n":2,"logprobs":{},)"
        R"("prompt_logprobs":{}}})",
        Json(prompt).dump(), of_echo, of_prompt));
  };
  const Json answer = ask_for(1, 20);
  const Json& list = answer.at("choices")[0].at("prompt_logprobs");
  const Json& echo = answer.at("choices")[0].at("logprobs");
  ASSERT_EQ(list.size(), prompt.size());
  EXPECT_TRUE(list[0].is_null());
  bool probable = false;
  bool improbable = false;
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const Json& own = list[i].at(std::to_string(prompt[i]));
    const double chance = own.at("logprob");
    EXPECT_EQ(chance, echo.at("token_logprobs")[i].get<double>());
    EXPECT_EQ(own.at("decoded_token"), demo()->tokenizer->piece(prompt[i]));
    const int rank = own.at("rank");
    std::set<int> ranks;
    for (const auto& [token, entry] : list[i].items()) {
      ranks.insert(entry.at("rank").get<int>());
      EXPECT_EQ(entry.at("rank").get<int>() < rank, entry.at("logprob").get<double>() > chance);
    }
    EXPECT_EQ(ranks.size(), list[i].size());
    EXPECT_EQ(list[i].size(), rank <= 20 ? 20u : 21u);
    EXPECT_EQ(*ranks.begin(), 1);
    EXPECT_LE(echo.at("top_logprobs")[i].size(), 2u);
    probable = probable || rank <= 20;
    improbable = improbable || rank > 20;
  }
  EXPECT_TRUE(probable && improbable);
  EXPECT_EQ(answer.at("choices")[1].at("prompt_logprobs"), list);
  EXPECT_EQ(answer.at("choices")[1].at("logprobs").at("token_logprobs")[1],
            echo.at("token_logprobs")[1]);
  const Json fewer = ask_for(4, 0);
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    EXPECT_EQ(fewer.at("choices")[0].at("prompt_logprobs")[i].size(), 1u);
    EXPECT_GE(fewer.at("choices")[0].at("logprobs").at("top_logprobs")[i].size(), 4u);
  }
  EXPECT_FALSE(
      complete(R"({"prompt":"a","max_tokens":1})").at("choices")[0].contains("prompt_logprobs"));
}

TEST_F(ServiceTest, GivesLogProbabilitiesOfAConversation) {
  start();
  const Json chat = json(post("/v1/chat/completions",
                              R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":1,)"
                              R"("prompt_logprobs":1,"n":2})"));
  const Json& list = chat.at("prompt_logprobs");
  EXPECT_EQ(list.size(), chat.at("usage").at("prompt_tokens"));
  EXPECT_TRUE(list[0].is_null());
  EXPECT_GE(list[1].size(), 1u);
  EXPECT_FALSE(chat.at("choices")[0].contains("prompt_logprobs"));
}

}  // namespace
}  // namespace nibble::serve
