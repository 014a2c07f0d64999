#include <filesystem>
#include <regex>

#include <gtest/gtest.h>

#include "core/ordered_json.h"
#include "engine/engine.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"

// What a model writes under a grammar, beside requests without one.
namespace nibble::engine {
namespace {

std::shared_ptr<const models::Model> demo() {
  static const std::shared_ptr<const models::Model> model =
      models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "models" / "demo");
  return model;
}

std::unique_ptr<Engine> make_engine() {
  RunnerOptions options;
  options.cpu.threads = 2;
  return std::make_unique<Engine>(demo(), make_cpu_runner(demo(), options), EngineOptions{0, 16});
}

Completion generate(std::shared_ptr<const text::Grammar> grammar, float temperature,
                    std::uint64_t seed, bool ignore_end_tokens = false) {
  const auto engine = make_engine();
  Completion result;
  Request request;
  request.prompt = demo()->tokenizer->encode("The river is");
  request.max_tokens = 200;
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  request.grammar = std::move(grammar);
  request.ignore_end_tokens = ignore_end_tokens;
  request.on_finish = [&](const Completion& completion) { result = completion; };
  engine->submit(std::move(request));
  engine->run_all();
  return result;
}

TEST(GrammarEngine, TextsMatchTheirExpression) {
  const char* expression = "( [a-z]{2,6}){3}, [0-9]{4}";
  const auto grammar = text::parse_regex_grammar(expression);
  for (const float temperature : {0.0f, 1.5f}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const Completion completion = generate(grammar, temperature, seed);
      EXPECT_TRUE(std::regex_match(completion.text, std::regex(expression))) << completion.text;
      EXPECT_EQ(completion.reason, FinishReason::kStop);
    }
  }
}

TEST(GrammarEngine, TextsAreJsonOfTheirSchema) {
  const auto grammar = text::json_schema_grammar(nlohmann::ordered_json::parse(R"({
      "properties": {"name": {"type": "string", "maxLength": 12},
                     "parts": {"type": "array", "items": {"type": "integer", "minimum": 0,
                               "maximum": 99}, "minItems": 2, "maxItems": 4},
                     "kind": {"enum": ["lake", "river"]}},
      "required": ["name", "parts", "kind"]})"));
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    const Completion completion = generate(grammar, 1.5f, seed);
    const auto json = nlohmann::json::parse(completion.text);
    EXPECT_LE(json.at("name").get<std::string>().size(), 48u);
    EXPECT_GE(json.at("parts").size(), 2u);
    EXPECT_LE(json.at("parts").size(), 4u);
    EXPECT_TRUE(json.at("kind") == "lake" || json.at("kind") == "river") << completion.text;
  }
}

// Where nothing may follow, the text ends, whatever is said of end tokens.
TEST(GrammarEngine, EndsWhereTheGrammarEnds) {
  const auto grammar = text::parse_gbnf("root ::= \" yes\" | \" no\"");
  for (const bool ignore : {false, true}) {
    const Completion completion = generate(grammar, 0.0f, 0, ignore);
    EXPECT_TRUE(completion.text == " yes" || completion.text == " no") << completion.text;
    EXPECT_EQ(completion.reason, FinishReason::kStop);
  }
}

TEST(GrammarEngine, NeighboursInTheBatchAreLeftAlone) {
  const auto tokens_beside = [](bool constrained) {
    const auto engine = make_engine();
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 2; ++i) {
      Request request;
      request.prompt = demo()->tokenizer->encode("Once upon a time");
      request.max_tokens = 20;
      request.sampling.seed = 5;
      if (i == 0) {
        request.grammar = constrained ? text::parse_regex_grammar("[a-z ]*") : nullptr;
      } else {
        request.on_finish = [&](const Completion& completion) { tokens = completion.tokens; };
      }
      engine->submit(std::move(request));
    }
    engine->run_all();
    return tokens;
  };
  EXPECT_EQ(tokens_beside(true), tokens_beside(false));
}

TEST(GrammarEngine, AGrammarWithoutTextsIsRefused) {
  const auto engine = make_engine();
  Request request;
  request.prompt = {1};
  request.grammar = text::parse_gbnf("root ::= root | root");
  try {
    engine->submit(request);
    FAIL() << "was taken";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace nibble::engine
