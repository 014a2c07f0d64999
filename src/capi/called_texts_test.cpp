#include <atomic>
#include <thread>

#include "capi/model_for_tests.h"

// Writing texts through the C interface.
namespace nibble::capi {
namespace {

// With a place for tools, and the form of Hermes.
constexpr const char* kChatTemplate =
    "{% if tools %}<tool_call>{% for tool in tools %}{{ tool.function.name }} {\"name\": , "
    "\"arguments\": } {% endfor %}{% endif %}{% for message in messages %}{{ message.role }}: {{ "
    "message.content }}\n{% endfor %}assistant:";

nibble_generate_options greedy(std::int64_t tokens) {
  auto options = defaults(nibble_generate_options_init);
  options.temperature = 0;
  options.max_tokens = tokens;
  return options;
}

// What came in pieces, by text; ends the call after some of them.
struct Pieces {
  std::vector<std::string> texts = std::vector<std::string>(4);
  int most = 1 << 30;
  int count = 0;

  static int take(void* user, size_t index, const char* text, size_t bytes) {
    auto& pieces = *static_cast<Pieces*>(user);
    pieces.texts[index].append(text, bytes);
    return ++pieces.count >= pieces.most ? 1 : 0;
  }
  void listen(nibble_generate_options& options) {
    options.on_piece = take;
    options.user = this;
  }
};

TEST(CalledTexts, ABatchWritesWhatEachPromptWritesAlone) {
  const Opened model(kDemo);
  const std::vector<nibble_input> prompts = {input("The library"), input("When the water"),
                                             input("In the morning")};
  Pieces pieces;
  auto options = greedy(24);
  pieces.listen(options);
  Texts together;
  ASSERT_EQ(nibble_generate(model, prompts.data(), 3, &options, together.out()), NIBBLE_OK)
      << nibble_last_error();
  ASSERT_EQ(together.count(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto quiet = greedy(24);
    Texts alone;
    ASSERT_EQ(nibble_generate(model, &prompts[i], 1, &quiet, alone.out()), NIBBLE_OK);
    EXPECT_EQ(together.text(i), alone.text(0));
    EXPECT_EQ(together.tokens(i), alone.tokens(0));
    EXPECT_EQ(together.tokens(i).size(), 24u);
    EXPECT_EQ(pieces.texts[i], together.text(i));
    EXPECT_EQ(together.reason(i), "length");
    EXPECT_GT(together.text(i).size(), 20u);
  }
  EXPECT_EQ(nibble_texts_prompt_tokens(together.get(), 0), tokenize(model, "The library").size());
}

TEST(CalledTexts, IdsAreAPromptToo) {
  const Opened model(kDemo);
  const auto ids = tokenize(model, "The library");
  const std::vector<nibble_input> prompts = {input("The library"), input(ids)};
  const auto options = greedy(12);
  Texts texts;
  ASSERT_EQ(nibble_generate(model, prompts.data(), 2, &options, texts.out()), NIBBLE_OK);
  EXPECT_EQ(texts.tokens(0), texts.tokens(1));
}

TEST(CalledTexts, OptionsReachTheEngine) {
  const Opened model(kDemo);
  const nibble_input prompt = input("The library");
  auto options = greedy(40);
  Texts whole;
  ASSERT_EQ(nibble_generate(model, &prompt, 1, &options, whole.out()), NIBBLE_OK);
  const std::string word = whole.text(0).substr(10, 5);
  const char* stop[] = {word.c_str()};
  options.stop = stop;
  options.stop_count = 1;
  options.log_probabilities = 3;
  Texts stopped;
  ASSERT_EQ(nibble_generate(model, &prompt, 1, &options, stopped.out()), NIBBLE_OK);
  EXPECT_EQ(stopped.text(0), whole.text(0).substr(0, whole.text(0).find(word)));
  EXPECT_EQ(stopped.reason(0), "stop");
  const Json records = Json::parse(nibble_texts_log_probabilities(stopped.get(), 0));
  ASSERT_EQ(records.size(), stopped.tokens(0).size());
  EXPECT_EQ(records[0]["token"], stopped.tokens(0)[0]);
  EXPECT_EQ(records[0]["rank"], 1);
  EXPECT_EQ(records[0]["most_probable"].size(), 3u);
  EXPECT_EQ(std::string(nibble_texts_log_probabilities(whole.get(), 0)), "[]");
}

TEST(CalledTexts, SeedsRepeat) {
  const Opened model(kDemo);
  const std::vector<nibble_input> prompts(2, input("The library"));
  auto options = defaults(nibble_generate_options_init);
  options.max_tokens = 16;
  options.seed = 7;
  Texts first;
  Texts again;
  ASSERT_EQ(nibble_generate(model, prompts.data(), 2, &options, first.out()), NIBBLE_OK);
  ASSERT_EQ(nibble_generate(model, prompts.data(), 2, &options, again.out()), NIBBLE_OK);
  EXPECT_EQ(first.tokens(0), again.tokens(0));
  EXPECT_EQ(first.tokens(1), again.tokens(1));
  EXPECT_NE(first.tokens(0), first.tokens(1));
  options.seed = 8;
  Texts next;
  ASSERT_EQ(nibble_generate(model, prompts.data(), 1, &options, next.out()), NIBBLE_OK);
  EXPECT_EQ(next.tokens(0), first.tokens(1));
}

TEST(CalledTexts, ASchemaHolds) {
  const Opened model(kDemo);
  const nibble_input prompt = input("A number: ");
  auto options = greedy(60);
  options.json_schema = R"({"type":"object","properties":{"n":{"enum":[1,2]}},"required":["n"],
    "additionalProperties":false})";
  Texts texts;
  ASSERT_EQ(nibble_generate(model, &prompt, 1, &options, texts.out()), NIBBLE_OK)
      << nibble_last_error();
  const Json json = Json::parse(texts.text(0));
  EXPECT_TRUE(json["n"] == 1 || json["n"] == 2) << texts.text(0);
}

TEST(CalledTexts, ACallbackEndsTheCall) {
  const Opened model(kDemo);
  const nibble_input prompt = input("The library");
  Pieces pieces;
  pieces.most = 3;
  auto options = greedy(500);
  pieces.listen(options);
  Texts texts;
  EXPECT_EQ(nibble_generate(model, &prompt, 1, &options, texts.out()), NIBBLE_CANCELLED);
  EXPECT_EQ(pieces.count, 3);
  EXPECT_EQ(texts.get(), nullptr);
  EXPECT_STREQ(nibble_last_error(), "the call was cancelled");
  const auto after = greedy(8);  // the model goes on as if nothing had been
  ASSERT_EQ(nibble_generate(model, &prompt, 1, &after, texts.out()), NIBBLE_OK);
  EXPECT_EQ(texts.tokens(0).size(), 8u);
}

TEST(CalledTexts, AnotherThreadCancels) {
  const Opened model(kDemo);
  nibble_model_cancel(model);  // nothing runs: nothing happens
  const nibble_input prompt = input("The library");
  std::atomic<bool> started = false;
  auto options = greedy(1000);
  options.ignore_eos = 1;
  options.user = &started;
  options.on_piece = [](void* user, size_t, const char*, size_t) {
    *static_cast<std::atomic<bool>*>(user) = true;
    return 0;
  };
  Texts texts;
  nibble_status status = NIBBLE_OK;
  std::thread writer([&] { status = nibble_generate(model, &prompt, 1, &options, texts.out()); });
  while (!started) {
    std::this_thread::yield();
  }
  nibble_model_cancel(model);
  writer.join();
  EXPECT_EQ(status, NIBBLE_CANCELLED);
  EXPECT_STREQ(nibble_model_error(model), "the call was cancelled");
}

TEST(CalledTexts, ModelsAndThreadsDoNotMeet) {
  const Opened first(kDemo);
  const Opened second(kFamilies + "llama");
  const nibble_input prompt = input("The library");
  const std::vector<std::int32_t> ids = {1, 2, 3};
  const nibble_input other = input(ids);
  const auto options = greedy(24);
  Texts alone;
  Texts other_alone;
  ASSERT_EQ(nibble_generate(first, &prompt, 1, &options, alone.out()), NIBBLE_OK);
  ASSERT_EQ(nibble_generate(second, &other, 1, &options, other_alone.out()), NIBBLE_OK);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    const bool odd = i % 2 == 1;
    threads.emplace_back([&, odd] {
      for (int repeat = 0; repeat < 4; ++repeat) {
        Texts texts;
        EXPECT_EQ(
            nibble_generate(odd ? second : first, odd ? &other : &prompt, 1, &options, texts.out()),
            NIBBLE_OK);
        EXPECT_EQ(texts.tokens(0), (odd ? other_alone : alone).tokens(0));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// Against what transformers wrote (tests/families/make_beams.py).
TEST(CalledTexts, AnEncoderDecoderWritesWhatItsGoldenSays) {
  const Opened model(kFamilies + "bart");
  const Json golden = Json::parse(read_file(kFamilies + "bart/beams.json"));
  const auto sources = golden["sources"].get<std::vector<std::vector<std::int32_t>>>();
  const std::vector<nibble_input> inputs = {input(sources[0]), input(sources[2])};
  auto options = defaults(nibble_generate_options_init);
  options.max_tokens = 19;  // 20 with the start token
  options.beams = 1;
  Pieces pieces;
  pieces.listen(options);
  Texts texts;
  ASSERT_EQ(nibble_generate(model, inputs.data(), 2, &options, texts.out()), NIBBLE_OK)
      << nibble_last_error();
  const Json& expected = golden["cases"][0];
  ASSERT_EQ(expected["name"], "greedy");
  for (const std::size_t i : {0, 1}) {
    auto ids = expected["texts"][2 * i]["ids"].get<std::vector<std::int32_t>>();
    ids.back() = 2;  // forced_eos_token_id of config.json, which the golden texts leave out
    EXPECT_EQ(texts.tokens(i), std::vector<std::int32_t>(ids.begin() + 1, ids.end()));
    EXPECT_EQ(pieces.texts[i], texts.text(i));
  }
  options.top_k = 3;
  Texts refused;
  EXPECT_EQ(nibble_generate(model, inputs.data(), 2, &options, refused.out()), NIBBLE_USAGE);
  EXPECT_NE(std::string(nibble_last_error()).find("'top_k'"), std::string::npos);
}

TEST(CalledTexts, ChatsGoThroughTheTemplate) {
  const Opened model(kDemo, kChatTemplate);
  const char* messages = R"([{"role":"user","content":"Hello"}])";
  std::int32_t* ids = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(nibble_chat_prompt(model, messages, nullptr, &ids, &count), NIBBLE_OK)
      << nibble_last_error();
  EXPECT_EQ(std::vector<std::int32_t>(ids, ids + count), [&] {
    const std::string_view text = "user: Hello\nassistant:";
    auto options = defaults(nibble_tokenize_options_init);
    options.add_special = 0;
    std::int32_t* plain = nullptr;
    std::size_t tokens = 0;
    EXPECT_EQ(nibble_tokenize(model, text.data(), text.size(), &options, &plain, &tokens),
              NIBBLE_OK);
    const std::vector<std::int32_t> copy(plain, plain + tokens);
    nibble_free(plain);
    return copy;
  }());
  const std::vector<std::int32_t> prompt(ids, ids + count);
  nibble_free(ids);
  Pieces pieces;
  auto options = greedy(16);
  pieces.listen(options);
  Texts chat;
  ASSERT_EQ(nibble_chat(model, messages, nullptr, &options, chat.out()), NIBBLE_OK);
  const auto quiet = greedy(16);
  const nibble_input same = input(prompt);
  Texts plain;
  ASSERT_EQ(nibble_generate(model, &same, 1, &quiet, plain.out()), NIBBLE_OK);
  EXPECT_EQ(chat.text(0), plain.text(0));
  EXPECT_EQ(pieces.texts[0], chat.text(0));
  EXPECT_EQ(std::string(nibble_texts_tool_calls(chat.get(), 0)), "[]");
}

TEST(CalledTexts, CallsOfToolsAreNoText) {
  const Opened model(kDemo, kChatTemplate);
  const char* messages = R"([{"role":"user","content":"Weather?"}])";
  const char* tools =
      R"([{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}])";
  auto options = greedy(60);
  options.grammar =
      R"(root ::= "Yes.<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>")";
  Texts texts;
  ASSERT_EQ(nibble_chat(model, messages, tools, &options, texts.out()), NIBBLE_OK)
      << nibble_last_error();
  EXPECT_EQ(texts.text(0), "Yes.");
  EXPECT_EQ(texts.reason(0), "tool_calls");
  const Json calls = Json::parse(nibble_texts_tool_calls(texts.get(), 0));
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0]["function"]["name"], "weather");
  EXPECT_EQ(calls[0]["function"]["arguments"], "{}");
}

std::string openai(nibble_model* model, const char* route, const Json& request,
                   std::vector<Json>* events = nullptr) {
  char* answer = nullptr;
  const nibble_event_callback on_event = [](void* user, const char* json) {
    static_cast<std::vector<Json>*>(user)->push_back(Json::parse(json));
    return 0;
  };
  EXPECT_EQ(nibble_openai(model, route, request.dump().c_str(), events ? on_event : nullptr, events,
                          &answer),
            NIBBLE_OK)
      << nibble_last_error();
  return taken(answer);
}

TEST(CalledTexts, OpenAiRequestsAreAnswered) {
  const Opened model(kDemo, kChatTemplate);
  Json request = {{"prompt", {"The library", "When the water"}},
                  {"max_tokens", 8},
                  {"temperature", 0},
                  {"logprobs", 2}};
  const Json answer = Json::parse(openai(model, "completions", request));
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "demo");
  ASSERT_EQ(answer["choices"].size(), 2u);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 16);
  EXPECT_EQ(answer["choices"][0]["logprobs"]["tokens"].size(), 8u);
  const nibble_input prompt = input("The library");
  const auto options = greedy(8);
  Texts texts;
  ASSERT_EQ(nibble_generate(model, &prompt, 1, &options, texts.out()), NIBBLE_OK);
  EXPECT_EQ(answer["choices"][0]["text"], texts.text(0));
}

TEST(CalledTexts, OpenAiRequestsStream) {
  const Opened model(kDemo, kChatTemplate);
  Json request = {{"messages", {{{"role", "user"}, {"content", "Hello"}}}},
                  {"max_tokens", 8},
                  {"temperature", 0},
                  {"model", "mine"}};
  const Json whole = Json::parse(openai(model, "chat/completions", request));
  request["stream"] = true;
  std::vector<Json> events;
  EXPECT_EQ(openai(model, "chat/completions", request, &events), "");
  std::string text;
  for (const Json& event : events) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_EQ(event["model"], "mine");
    text += event["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"]);
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "length");
}

}  // namespace
}  // namespace nibble::capi
