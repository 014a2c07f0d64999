#include "engine/write_texts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/json.h"
#include "core/temporary_folder_for_tests.h"
#include "engine/text_to_text_for_tests.h"
#include "text/model_input.h"

// What encoder-decoders write, greedily and by beam search, against what transformers writes with
// them: trained ones that spell words as phonemes, and random ones (tests/families/make_beams.py).
// The same tests run on each device: CMake says which.
namespace nibble::engine {
namespace {

using core::Json;
namespace fs = std::filesystem;

const fs::path kSource = NIBBLE_SOURCE_DIR;
const fs::path kFamilies = kSource / "tests" / "families";
const fs::path kModels = kSource / ".." / "shared" / "models";

using Ids = std::vector<std::int32_t>;

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// A folder with the files of a model and other settings.
class Folder {
 public:
  explicit Folder(const fs::path& model) {
    for (const auto& file : fs::directory_iterator(model)) {
      if (file.path().filename() != "generation_config.json") {
        fs::create_symlink(fs::absolute(file.path()), folder_.path() / file.path().filename());
      }
    }
  }
  explicit Folder(const std::vector<std::pair<std::string, fs::path>>& files) {
    for (const auto& [name, file] : files) {
      fs::create_symlink(fs::absolute(file), folder_.path() / name);
    }
  }
  std::shared_ptr<const models::Model> open(const Json& settings) const {
    folder_.write("generation_config.json", settings.dump());
    return models::open_model(folder_.path());
  }

 private:
  core::TemporaryFolder folder_;
};

std::vector<WrittenText> write(const models::Model& model, TextToText& writer,
                               const std::vector<Ids>& sources) {
  const WritingOptions options = writing_options(model);
  validate(options, model.network.config);
  return write_texts(
      writer, std::vector<std::span<const std::int32_t>>(sources.begin(), sources.end()), options);
}

// The score of a beam search; a greedy one has none.
void expect_score(const WrittenText& text, const Json& golden) {
  const double expected = golden.value("score", 0.0);
  EXPECT_NEAR(text.score, expected, 2e-6 * std::abs(expected) + (on_gpu() ? 1e-3 : 2e-5));
}

class Beams : public OnDevice<testing::TestWithParam<const char*>> {};

class WriteTexts : public OnDevice<testing::Test> {};

TEST_P(Beams, IdsOfTransformers) {
  const Json golden = read_json(kFamilies / GetParam() / "beams.json");
  const auto sources = golden.at("sources").get<std::vector<Ids>>();
  const Folder folder(kFamilies / GetParam());
  EXPECT_EQ(golden.at("cases").size(), 21u);
  for (const Json& one : golden.at("cases")) {
    Json settings = {{"decoder_start_token_id", 2}, {"eos_token_id", 2}, {"bos_token_id", 0}};
    settings.update(one.at("options"));
    const auto model = folder.open(settings);
    const auto writer = make_text_to_text(model, on_device());
    const auto together = write(*model, *writer, sources);
    ASSERT_EQ(together.size(), sources.size());
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Json& text = one.at("texts")[i];
      EXPECT_EQ(together[i].tokens, text.at("ids").get<Ids>()) << one.at("name") << " " << i;
      expect_score(together[i], text);
      const WrittenText alone = write(*model, *writer, {sources[i]}).front();
      EXPECT_EQ(alone.tokens, together[i].tokens);
      // On a GPU the sums of layers have another order where there are more rows.
      EXPECT_NEAR(alone.score, together[i].score,
                  on_gpu() ? 1e-6 * (100.0 + std::fabs(alone.score)) : 0.0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Beams, testing::Values("bart", "mbart"));

TEST_F(WriteTexts, SpellsWords) {
  const fs::path path = kModels / "bart-6x6-g2p";
  if (!fs::exists(path)) {
    GTEST_SKIP() << "the test model is not here: " << path;
  }
  const auto model = models::open_model(path);
  const auto writer = make_text_to_text(model, on_device());
  std::vector<Ids> sources;
  std::vector<Ids> expected;
  const Json golden = read_json(path / "golden.json");
  for (const Json& word : golden.at("greedy")) {
    sources.push_back(
        text::encode_for_model(*model->tokenizer, word.at("word").get<std::string>(), std::nullopt)
            .ids);
    expected.push_back(word.at("ids").get<Ids>());
  }
  ASSERT_EQ(sources.size(), 32u);
  const auto texts = write(*model, *writer, sources);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i].tokens, expected[i]) << i;
  }
}

// Its tokens are letters that no tokenizer is stored for.
TEST_F(WriteTexts, SpellsWordsOfAnotherModel) {
  const fs::path path = kModels / "misaki-bart-g2p";
  if (!fs::exists(path)) {
    GTEST_SKIP() << "the test model is not here: " << path;
  }
  const Json golden = read_json(kSource / "src" / "engine" / "goldens" / "misaki_bart.json");
  Json any_tokenizer = read_json(kFamilies / "bart" / "tokenizer.json");
  auto& vocabulary = any_tokenizer.at("model").at("vocab");
  vocabulary.erase(std::find(vocabulary.begin(), vocabulary.end(), Json(63)));
  const core::TemporaryFolder tokenizer;
  tokenizer.write("tokenizer.json", any_tokenizer.dump());
  const Folder folder({{"config.json", path / "us_bart_config.json"},
                       {"model.safetensors", path / "us_bart.safetensors"},
                       {"tokenizer.json", tokenizer.path() / "tokenizer.json"}});
  std::vector<Ids> sources;
  for (const Json& text : golden.at("texts")) {
    sources.push_back(text.at("source").get<Ids>());
  }
  ASSERT_EQ(sources.size(), 60u);
  for (const auto& [key, beams] : {std::pair("greedy", 1), std::pair("beams", 4)}) {
    const auto model = folder.open({{"num_beams", beams},
                                    {"max_length", 64},
                                    {"eos_token_id", 2},
                                    {"forced_eos_token_id", 2},
                                    {"decoder_start_token_id", 1}});
    const auto writer = make_text_to_text(model, on_device());
    const auto texts = write(*model, *writer, sources);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const Json& text = golden.at("texts")[i];
      EXPECT_EQ(texts[i].tokens, text.at(key).at("ids").get<Ids>()) << text.at("word");
      expect_score(texts[i], text.at(key));
    }
  }
}

TEST(WritingOptions, OfTwoFiles) {
  const Folder folder(kFamilies / "bart");
  const auto old = models::open_model(kFamilies / "bart");  // config.json alone
  const WritingOptions of_config = writing_options(*old);
  EXPECT_EQ(of_config.start, 2);
  EXPECT_EQ(of_config.ends, Ids{2});
  EXPECT_EQ(of_config.forced_last, Ids{2});
  EXPECT_EQ(of_config.max_length, 40);
  const WritingOptions said = writing_options(*folder.open({{"num_beams", 3},
                                                            {"length_penalty", 0.5},
                                                            {"early_stopping", true},
                                                            {"eos_token_id", {4, 5}},
                                                            {"min_new_tokens", 3},
                                                            {"max_length", 9}}));
  EXPECT_EQ(said.beams, 3);
  EXPECT_EQ(said.length_penalty, 0.5);
  EXPECT_EQ(said.early_stopping, EarlyStopping::kYes);
  EXPECT_EQ(said.ends, (Ids{4, 5}));
  EXPECT_EQ(said.min_length, 4);
  EXPECT_EQ(said.max_length, 9);
  EXPECT_TRUE(said.forced_last.empty());
}

TEST(WritingOptions, RefusesWhatIsNotBuilt) {
  const Folder folder(kFamilies / "bart");
  EXPECT_NO_THROW(writing_options(*folder.open(
      {{"repetition_penalty", 1}, {"num_beam_groups", 1}, {"bad_words_ids", nullptr}})));
  const Json refused[] = {{{"repetition_penalty", 1.2}},   {{"num_beam_groups", 2}},
                          {{"bad_words_ids", {{5}}}},      {{"num_beams", -1}},
                          {{"early_stopping", "perhaps"}}, {{"forced_bos_token_id", {5, 6}}},
                          {{"eos_token_id", 64}}};
  for (const Json& settings : refused) {
    EXPECT_THROW(writing_options(*folder.open(settings)), core::Error) << settings;
  }
  const auto config = models::open_model(kFamilies / "bart")->network.config;
  WritingOptions options;
  options.max_length = 41;
  EXPECT_NO_THROW(validate(options, config));
  options.max_length = 42;
  EXPECT_THROW(validate(options, config), core::Error);
  options.max_length = 41;
  options.beams = 0;
  EXPECT_THROW(validate(options, config), core::Error);
  options.beams = 1;
  options.samples = true;
  EXPECT_NO_THROW(validate(options, config));
  options.beams = 2;
  EXPECT_THROW(validate(options, config), core::Error);
  options.beams = 1;
  options.draw.temperature = 0;
  EXPECT_THROW(validate(options, config), core::Error);
  options.draw.temperature = 1;
  options.draw.top_p = 0;
  EXPECT_THROW(validate(options, config), core::Error);
}

}  // namespace
}  // namespace nibble::engine
