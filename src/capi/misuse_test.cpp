#include <cstring>

#include "capi/model_for_tests.h"

// Wrong calls of the C interface, and programs of other versions.
namespace nibble::capi {
namespace {

std::string last_error() {
  return nibble_last_error();
}

bool says(const std::string& word) {
  return last_error().find(word) != std::string::npos;
}

TEST(Misuse, NamesOfStatusAndVersion) {
  EXPECT_STREQ(nibble_version(), NIBBLE_VERSION);
  EXPECT_STREQ(nibble_status_name(NIBBLE_OK), "ok");
  EXPECT_STREQ(nibble_status_name(NIBBLE_CANCELLED), "cancelled");
  EXPECT_STREQ(nibble_status_name(99), "unknown");
}

TEST(Misuse, WhatIsNoModelIsNotOpened) {
  nibble_model* model = nullptr;
  EXPECT_EQ(nibble_model_open(nullptr, nullptr, &model), NIBBLE_USAGE);
  EXPECT_TRUE(says("'path'")) << last_error();
  EXPECT_EQ(nibble_model_open(kDemo.c_str(), nullptr, nullptr), NIBBLE_USAGE);
  EXPECT_EQ(nibble_model_open("/nonexistent/model", nullptr, &model), NIBBLE_IO);
  EXPECT_TRUE(says("/nonexistent/model")) << last_error();
  EXPECT_EQ(nibble_model_open((kDemo + "/README.md").c_str(), nullptr, &model),
            NIBBLE_INVALID_MODEL);
  EXPECT_EQ(model, nullptr);
}

TEST(Misuse, OptionsOutOfRangeAreRefused) {
  const auto refused = [](auto change, const std::string& word) {
    auto options = defaults(nibble_open_options_init);
    options.device = "cpu";
    change(options);
    nibble_model* model = nullptr;
    EXPECT_EQ(nibble_model_open(kDemo.c_str(), &options, &model), NIBBLE_USAGE) << word;
    EXPECT_TRUE(says(word)) << last_error();
  };
  refused([](auto& options) { options.device = "gpu"; }, "gpu");
  refused([](auto& options) { options.threads = -1; }, "threads is -1");
  refused([](auto& options) { options.context = 4096; }, "1024");
  refused([](auto& options) { options.max_batch = -2; }, "max_batch is -2");
  refused([](auto& options) { options.kv_bytes = -1; }, "kv_bytes is -1");
  refused([](auto& options) { options.kv_type = "int5"; }, "int5");
  refused([](auto& options) { options.activations = "int9"; }, "int9");
}

TEST(Misuse, EveryFunctionRefusesNoModel) {
  const nibble_input text = input("x");
  nibble_texts* texts = nullptr;
  char* answer = nullptr;
  float* values = nullptr;
  std::int32_t* ids = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  nibble_likelihood score{};
  nibble_facts facts{};
  const std::int32_t id = 1;
  EXPECT_EQ(nibble_model_facts(nullptr, &facts), NIBBLE_USAGE);
  EXPECT_EQ(nibble_tokenize(nullptr, "x", 1, nullptr, &ids, &rows), NIBBLE_USAGE);
  EXPECT_EQ(nibble_detokenize(nullptr, &id, 1, 1, &answer, nullptr), NIBBLE_USAGE);
  EXPECT_EQ(nibble_generate(nullptr, &text, 1, nullptr, &texts), NIBBLE_USAGE);
  EXPECT_EQ(nibble_chat(nullptr, "[]", nullptr, nullptr, &texts), NIBBLE_USAGE);
  EXPECT_EQ(nibble_chat_prompt(nullptr, "[]", nullptr, &ids, &rows), NIBBLE_USAGE);
  EXPECT_EQ(nibble_openai(nullptr, "completions", "{}", nullptr, nullptr, &answer), NIBBLE_USAGE);
  EXPECT_EQ(nibble_embed(nullptr, &text, 1, nullptr, &values, &rows, &columns), NIBBLE_USAGE);
  EXPECT_EQ(nibble_classify(nullptr, &text, nullptr, 1, nullptr, &answer), NIBBLE_USAGE);
  EXPECT_EQ(nibble_score(nullptr, &text, &text, 1, &score), NIBBLE_USAGE);
  EXPECT_EQ(nibble_forward(nullptr, &id, 1, nullptr, 0, &values, &rows, &columns), NIBBLE_USAGE);
  EXPECT_EQ(nibble_evaluate(nullptr, "x", 1, nullptr, &answer), NIBBLE_USAGE);
  EXPECT_EQ(nibble_quantize(nullptr, "w8a8", "/nonexistent/x", nullptr, nullptr), NIBBLE_USAGE);
  EXPECT_EQ(nibble_compare(nullptr, nullptr, 0, "x", 1, nullptr, nullptr, &answer), NIBBLE_USAGE);
  EXPECT_EQ(nibble_recipes(nullptr), NIBBLE_USAGE);
  EXPECT_TRUE(says("'json' is NULL")) << last_error();
  nibble_model_close(nullptr);
  nibble_model_cancel(nullptr);
  nibble_texts_free(nullptr);
  nibble_free(nullptr);
  EXPECT_STREQ(nibble_model_error(nullptr), "");
  EXPECT_EQ(nibble_model_label(nullptr, 0), nullptr);
  EXPECT_EQ(nibble_texts_count(nullptr), 0u);
  EXPECT_EQ(nibble_texts_text(nullptr, 0, nullptr), nullptr);
}

TEST(Misuse, WrongInputsAreNamed) {
  const Opened model(kDemo);
  nibble_texts* texts = nullptr;
  EXPECT_EQ(nibble_generate(model, nullptr, 1, nullptr, &texts), NIBBLE_USAGE);
  const nibble_input nothing{};
  EXPECT_EQ(nibble_generate(model, &nothing, 1, nullptr, &texts), NIBBLE_USAGE);
  EXPECT_TRUE(says("neither a text nor ids")) << last_error();
  const nibble_input bytes = input("\xff");
  EXPECT_EQ(nibble_generate(model, &bytes, 1, nullptr, &texts), NIBBLE_USAGE);
  const nibble_input empty = input("");
  EXPECT_EQ(nibble_generate(model, &empty, 1, nullptr, &texts), NIBBLE_USAGE);
  const std::vector<std::int32_t> outside = {1, 8192};
  const nibble_input ids = input(outside);
  EXPECT_EQ(nibble_generate(model, &ids, 1, nullptr, &texts), NIBBLE_USAGE);
  EXPECT_TRUE(says("8192")) << last_error();
  EXPECT_EQ(std::string(nibble_model_error(model)), last_error());
  float* values = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  EXPECT_EQ(nibble_forward(model, outside.data(), 2, nullptr, 0, &values, &rows, &columns),
            NIBBLE_USAGE);
  EXPECT_EQ(nibble_forward(model, outside.data(), 1, outside.data(), 1, &values, &rows, &columns),
            NIBBLE_USAGE);
  nibble_likelihood score{};
  const nibble_input word = input("x");
  EXPECT_EQ(nibble_score(model, &word, &ids, 1, &score), NIBBLE_USAGE);
  EXPECT_EQ(texts, nullptr);
  EXPECT_EQ(values, nullptr);
}

TEST(Misuse, WrongOptionsOfTextsAreNamed) {
  const Opened model(kDemo);
  const nibble_input prompt = input("x");
  const auto refused = [&](auto change, const std::string& word) {
    auto options = defaults(nibble_generate_options_init);
    change(options);
    nibble_texts* texts = nullptr;
    EXPECT_EQ(nibble_generate(model, &prompt, 1, &options, &texts), NIBBLE_USAGE) << word;
    EXPECT_TRUE(says(word)) << last_error();
  };
  refused([](auto& options) { options.max_tokens = -1; }, "max_tokens");
  refused([](auto& options) { options.temperature = -1; }, "temperature");
  refused([](auto& options) { options.top_p = 2; }, "top");
  refused([](auto& options) { options.json_schema = "{"; }, "json_schema");
  refused([](auto& options) { options.regex = "("; }, "");
  refused([](auto& options) { options.regex = options.grammar = "x"; }, "only one");
  refused([](auto& options) { options.stop_count = 1; }, "stop");
  refused([](auto& options) { options.beams = 2; }, "'beams'");
  refused([](auto& options) { options.target_language = "de_DE"; }, "'target_language'");
}

TEST(Misuse, KindsAreToldApart) {
  const Opened decoder(kDemo);
  const Opened encoder(kFamilies + "bert");
  const Opened both(kFamilies + "bart");
  const nibble_input text = input("t5");
  nibble_texts* texts = nullptr;
  char* json = nullptr;
  float* values = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  nibble_likelihood score{};
  EXPECT_EQ(nibble_generate(encoder, &text, 1, nullptr, &texts), NIBBLE_USAGE);
  EXPECT_TRUE(says("an encoder")) << last_error();
  EXPECT_EQ(nibble_classify(decoder, &text, nullptr, 1, nullptr, &json), NIBBLE_USAGE);
  EXPECT_EQ(nibble_classify(encoder, &text, nullptr, 1, nullptr, &json), NIBBLE_USAGE);
  EXPECT_EQ(nibble_embed(both, &text, 1, nullptr, &values, &rows, &columns), NIBBLE_USAGE);
  EXPECT_EQ(nibble_score(both, &text, &text, 1, &score), NIBBLE_USAGE);
  EXPECT_EQ(nibble_evaluate(encoder, "x", 1, nullptr, &json), NIBBLE_USAGE);
  EXPECT_EQ(
      nibble_chat(decoder, "[{\"role\":\"user\",\"content\":\"x\"}]", nullptr, nullptr, &texts),
      NIBBLE_USAGE);
  EXPECT_TRUE(says("no chat template")) << last_error();
  const std::int32_t id = 5;
  EXPECT_EQ(nibble_forward(encoder, &id, 1, nullptr, 0, &values, &rows, &columns), NIBBLE_USAGE);
  EXPECT_EQ(nibble_forward(both, &id, 1, nullptr, 0, &values, &rows, &columns), NIBBLE_USAGE);
}

TEST(Misuse, WrongRequestsAreRefusedAsByTheServer) {
  const Opened model(kDemo);
  char* answer = nullptr;
  const auto ask = [&](const char* route, const char* request) {
    return nibble_openai(model, route, request, nullptr, nullptr, &answer);
  };
  EXPECT_EQ(ask("completions", "{"), NIBBLE_USAGE);
  EXPECT_EQ(ask("completions", "{}"), NIBBLE_USAGE);
  EXPECT_TRUE(says("prompt")) << last_error();
  EXPECT_EQ(ask("models", R"({"prompt":"x"})"), NIBBLE_USAGE);
  EXPECT_EQ(ask("completions", R"({"prompt":"x","temperature":-1})"), NIBBLE_USAGE);
  EXPECT_EQ(ask("completions", R"({"prompt":"x","stream":true})"), NIBBLE_USAGE);
  EXPECT_TRUE(says("callback")) << last_error();
  EXPECT_EQ(ask("chat/completions", R"({"messages":[{"role":"user","content":"x"}]})"),
            NIBBLE_USAGE);
  EXPECT_EQ(answer, nullptr);
}

TEST(Misuse, ACallbackMayNotCallItsModel) {
  const Opened model(kDemo);
  auto options = defaults(nibble_generate_options_init);
  options.max_tokens = 2;
  options.user = static_cast<nibble_model*>(model);
  options.on_piece = [](void* user, size_t, const char*, size_t) {
    nibble_facts facts{};
    facts.struct_size = sizeof facts;
    EXPECT_EQ(nibble_model_facts(static_cast<nibble_model*>(user), &facts), NIBBLE_USAGE);
    return 0;
  };
  const nibble_input prompt = input("The library");
  Texts texts;
  EXPECT_EQ(nibble_generate(model, &prompt, 1, &options, texts.out()), NIBBLE_OK);
}

TEST(Misuse, AnOlderHeaderMeansTheDefaults) {
  const Opened model(kDemo);
  auto options = defaults(nibble_generate_options_init);
  options.max_tokens = 4;
  options.beams = 5;  // would be refused
  options.log_probabilities = 2;
  const nibble_input prompt = input("The library");
  nibble_texts* refused = nullptr;
  ASSERT_EQ(nibble_generate(model, &prompt, 1, &options, &refused), NIBBLE_USAGE);
  options.struct_size = offsetof(nibble_generate_options, min_tokens);
  Texts texts;
  ASSERT_EQ(nibble_generate(model, &prompt, 1, &options, texts.out()), NIBBLE_OK)
      << nibble_last_error();
  EXPECT_EQ(texts.tokens(0).size(), 4u);
  EXPECT_STREQ(nibble_texts_log_probabilities(texts.get(), 0), "[]");
}

TEST(Misuse, ALaterHeaderMayAskForNothingMore) {
  struct Later {
    nibble_generate_options known;
    std::int64_t more;
  };
  const Opened model(kDemo);
  Later options;
  nibble_generate_options_init(&options.known, sizeof options);
  EXPECT_EQ(options.known.struct_size, sizeof options);
  EXPECT_EQ(options.more, 0);
  options.known.max_tokens = 4;
  const nibble_input prompt = input("The library");
  Texts texts;
  EXPECT_EQ(nibble_generate(model, &prompt, 1, &options.known, texts.out()), NIBBLE_OK);
  options.more = 1;
  nibble_texts* refused = nullptr;
  EXPECT_EQ(nibble_generate(model, &prompt, 1, &options.known, &refused), NIBBLE_USAGE);
  EXPECT_TRUE(says("does not know")) << last_error();
  options.known.struct_size = 0;
  EXPECT_EQ(nibble_generate(model, &prompt, 1, &options.known, &refused), NIBBLE_USAGE);
  EXPECT_TRUE(says("struct_size")) << last_error();
}

TEST(Misuse, FactsFitAnOlderStruct) {
  const Opened model(kDemo);
  nibble_facts facts;
  std::memset(&facts, 0x5a, sizeof facts);
  facts.struct_size = offsetof(nibble_facts, context);
  ASSERT_EQ(nibble_model_facts(model, &facts), NIBBLE_OK);
  EXPECT_EQ(facts.vocabulary, 8192);
  EXPECT_EQ(facts.context, 0x5a5a5a5a5a5a5a5a);
  facts.struct_size = 1;
  EXPECT_EQ(nibble_model_facts(model, &facts), NIBBLE_USAGE);
}

// A later field that began in the padding of an older struct would be read from what is not set.
TEST(Misuse, StructsEndWithoutPadding) {
#define NIBBLE_ENDS_WITH(type, field) \
  static_assert(offsetof(type, field) + sizeof(type::field) == sizeof(type))
  NIBBLE_ENDS_WITH(nibble_open_options, log_user);
  NIBBLE_ENDS_WITH(nibble_facts, chat_template);
  NIBBLE_ENDS_WITH(nibble_tokenize_options, parse_special);
  NIBBLE_ENDS_WITH(nibble_generate_options, user);
  NIBBLE_ENDS_WITH(nibble_read_options, pooling);
  NIBBLE_ENDS_WITH(nibble_quantize_options, user);
  NIBBLE_ENDS_WITH(nibble_evaluate_options, user);
#undef NIBBLE_ENDS_WITH
}

}  // namespace
}  // namespace nibble::capi
