// Texts and pairs as models take them, against Hugging Face's tokenizers (goldens/make_pairs.py).

#include "text/model_input.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.h"
#include "text/test_data.h"

namespace nibble::text {
namespace {

namespace fs = std::filesystem;
using core::Json;
using Ids = std::vector<std::int32_t>;

const Json& cases() {
  static const Json kCases = testing::read_json(testing::golden("pairs.json"));
  return kCases;
}

Json tokenizer_file(const std::string& name) {
  return testing::read_json(testing::golden("tokenizers/" + name + ".json"));
}

// What `tokenizer` makes of the texts of a row, as long as the row says.
ModelInput encode_row(const Tokenizer& tokenizer, const Json& row) {
  const auto first = row["texts"][0].get<std::string>();
  const std::string second = row["texts"].size() > 1 ? row["texts"][1].get<std::string>() : "";
  return encode_for_model(
      tokenizer, first,
      row["texts"].size() > 1 ? std::optional<std::string_view>(second) : std::nullopt,
      {.most_tokens = row["most"].get<std::int64_t>(), .add_special = row["special"].get<bool>()});
}

std::vector<bool> bits_of(const Json& numbers) {
  std::vector<bool> bits;
  for (const Json& number : numbers) {
    bits.push_back(number == 1);
  }
  return bits;
}

void expect_row(const Tokenizer& tokenizer, const Json& row, const std::string& name) {
  const ModelInput input = encode_row(tokenizer, row);
  const std::string what = name + " " + row.dump();
  EXPECT_EQ(input.ids, row["ids"].get<Ids>()) << what;
  EXPECT_EQ(input.types, row["types"].get<Ids>()) << what;
  EXPECT_EQ(input.framing, bits_of(row["framing"])) << what;
  EXPECT_EQ(input.truncated, row["truncated"].get<bool>()) << what;
}

TEST(ModelInputs, MatchHuggingFace) {
  for (const Json& tested : cases()) {
    const auto name = tested["tokenizer"].get<std::string>();
    Json file = tokenizer_file(name);
    file["post_processor"] = tested["post_processor"];
    const auto right = Tokenizer::from_json(file.dump(), "", name);
    const auto left =
        Tokenizer::from_json(file.dump(), Json({{"truncation_side", "left"}}).dump(), name);
    for (const Json& row : tested["rows"]) {
      expect_row(row["left"].get<bool>() ? *left : *right, row, name);
    }
  }
}

// A folder that is removed again.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("nibble_input_test_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }
  std::shared_ptr<const Tokenizer> tokenizer() const { return Tokenizer::from_folder(path_); }

 private:
  fs::path path_;
};

// The tokens of a vocabulary by their ids.
std::vector<std::string> tokens_by_id(const Json& vocabulary) {
  std::vector<std::string> tokens(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) {
    tokens.at(id.get<std::size_t>()) = token;
  }
  return tokens;
}

void expect_rows_of(const Tokenizer& tokenizer, std::size_t tested) {
  const Json& expected = cases()[tested];
  for (const Json& row : expected["rows"]) {
    if (!row["left"].get<bool>()) {
      expect_row(tokenizer, row, expected["tokenizer"].get<std::string>());
    }
  }
}

TEST(ModelInputs, AFolderOfVocabTxtIsBert) {
  const Folder folder;
  std::string lines;
  for (const std::string& token : tokens_by_id(tokenizer_file("bert")["model"]["vocab"])) {
    lines += token + "\n";
  }
  folder.write("vocab.txt", lines);
  ASSERT_EQ(cases()[0]["tokenizer"], "bert");
  expect_rows_of(*folder.tokenizer(), 0);
}

TEST(ModelInputs, AFolderOfMergesIsRoberta) {
  const Json file = tokenizer_file("roberta");
  const Folder folder;
  folder.write("vocab.json", file["model"]["vocab"].dump());
  std::string lines = "#version: 0.2\n";
  for (const Json& merge : file["model"]["merges"]) {
    lines += merge.is_string() ? merge.get<std::string>()
                               : merge[0].get<std::string>() + " " + merge[1].get<std::string>();
    lines += "\n";
  }
  folder.write("merges.txt", lines);
  folder.write("tokenizer_config.json", Json({{"tokenizer_class", "RobertaTokenizer"},
                                              {"add_prefix_space", true},
                                              {"cls_token", "<s>"},
                                              {"sep_token", "</s>"},
                                              {"unk_token", "<unk>"}})
                                            .dump());
  ASSERT_EQ(cases()[1]["tokenizer"], "roberta");
  expect_rows_of(*folder.tokenizer(), 1);
}

TEST(ModelInputs, FlagsOfLlamaFrameBothTextsOfAPair) {
  const std::string file = testing::read_file(testing::golden("tokenizers/llama2.json"));
  const Json config = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"add_eos_token", true}};
  const auto tokenizer = Tokenizer::from_json(file, config.dump(), "llama2");
  const ModelInput input = encode_for_model(*tokenizer, "", "");
  EXPECT_EQ(input.ids, (Ids{1, 2, 1, 2}));
  EXPECT_EQ(input.types, (Ids{0, 0, 1, 1}));
}

TEST(ModelInputs, TheConfigurationSaysHowLongAnInputMayBe) {
  const std::string file = testing::read_file(testing::golden("tokenizers/bert.json"));
  const auto longest = [&](const std::string& config) {
    return longest_input(*Tokenizer::from_json(file, config, "bert"));
  };
  EXPECT_EQ(longest(""), std::nullopt);
  EXPECT_EQ(longest(R"({"model_max_length": 512})"), 512);
  EXPECT_EQ(longest(R"({"model_max_length": 1000000000000000019884624838656})"), std::nullopt);
  EXPECT_EQ(longest(R"({"pad_token": "\"1000000000000000000000", "model_max_length": 1e2})"), 100);
  EXPECT_THROW(longest(R"({"model_max_length": "512"})"), core::Error);
  EXPECT_THROW(longest(R"({"model_max_length": 0})"), core::Error);
  EXPECT_THROW(longest(R"({"truncation_side": "middle"})"), core::Error);
}

TEST(ModelInputs, WhatCannotBeFramedIsRefused) {
  Json file = tokenizer_file("bert");
  const auto bert = Tokenizer::from_json(file.dump(), "", "bert");
  EXPECT_THROW(encode_for_model(*bert, "a", "b", {.most_tokens = 3}), core::Error);
  EXPECT_THROW(encode_for_model(*bert, "a", std::nullopt, {.most_tokens = 2}), core::Error);
  const Json a = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json b = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  for (const Json& pair : {Json::array({b, a}), Json::array({a}), Json::array({a, b, b})}) {
    file["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", {a}},
                              {"pair", pair},
                              {"special_tokens", Json::object()}};
    const auto tokenizer = Tokenizer::from_json(file.dump(), "", "bert");
    EXPECT_EQ(encode_for_model(*tokenizer, "a", std::nullopt).ids, bert->encode("a"));
    EXPECT_THROW(encode_for_model(*tokenizer, "a", "b"), core::Error) << pair;
  }
}

}  // namespace
}  // namespace nibble::text
