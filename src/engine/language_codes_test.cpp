#include "engine/language_codes.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"

namespace nibble::engine {
namespace {

using core::Json;
using Ids = std::vector<std::int32_t>;

// Words "t0" to "t59" and two languages; `frame` is the template of a text.
std::shared_ptr<const text::Tokenizer> tokenizer_of(const std::vector<std::string>& frame) {
  Json vocabulary;
  for (int i = 0; i < 60; ++i) {
    vocabulary["t" + std::to_string(i)] = i;
  }
  Json added = Json::array();
  Json special;
  Json single = Json::array();
  for (const auto& [token, id] : {std::pair("</s>", 60), {"en_XX", 61}, {"ro_RO", 62}}) {
    vocabulary[token] = id;
    added.push_back({{"id", id},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    special[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  }
  for (const std::string& part : frame) {
    single.push_back(part == "$A" ? Json{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}
                                  : Json{{"SpecialToken", {{"id", part}, {"type_id", 0}}}});
  }
  const Json pair = {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                     {{"Sequence", {{"id", "B"}, {"type_id", 0}}}}};
  const Json file = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", single},
        {"pair", pair},
        {"special_tokens", special}}},
      {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "t0"}}}};
  return text::Tokenizer::from_json(file.dump(), "", "test");
}

TEST(LanguageCodes, OfTheSource) {
  // mBART writes it behind a text, mBART-50 before it.
  const std::pair<std::vector<std::string>, Ids> frames[] = {
      {{"$A", "</s>", "en_XX"}, {5, 61, 60, 62}}, {{"en_XX", "$A", "</s>"}, {62, 5, 61, 60}}};
  for (const auto& [frame, expected] : frames) {
    const auto tokenizer = tokenizer_of(frame);
    // A code within the text is a part of it.
    text::ModelInput input = text::encode_for_model(*tokenizer, "t5 en_XX", std::nullopt);
    set_source_language(input, *tokenizer, "ro_RO");
    EXPECT_EQ(input.ids, expected);
  }
  const auto tokenizer = tokenizer_of({"$A", "</s>"});
  text::ModelInput input = text::encode_for_model(*tokenizer, "t5", std::nullopt);
  EXPECT_THROW(set_source_language(input, *tokenizer, "ro_RO"), core::Error);
}

TEST(LanguageCodes, OfTheTarget) {
  const auto tokenizer = tokenizer_of({"$A", "</s>"});
  WritingOptions options;
  options.start = 60;
  set_target_language(options, *tokenizer, "ro_RO");
  EXPECT_EQ(options.start, 60);
  EXPECT_EQ(options.forced_first, 62);
  options = {};
  options.start = 61;  // a language begins what is written
  set_target_language(options, *tokenizer, "ro_RO");
  EXPECT_EQ(options.start, 62);
  EXPECT_FALSE(options.forced_first.has_value());
}

TEST(LanguageCodes, RefusesOthers) {
  const auto tokenizer = tokenizer_of({"$A"});
  for (const char* code : {"de_DE", "t5", "</s>", ""}) {
    try {
      language_token(*tokenizer, code);
      ADD_FAILURE() << code;
    } catch (const core::Error& error) {
      EXPECT_NE(std::string(error.what()).find("en_XX, ro_RO"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace nibble::engine
