// Real vocabularies against the results of others: llama.cpp's vectors, hashes of whole texts from
// Hugging Face's tokenizers (goldens/make_hashes.py), libsentencepiece, and the models' golden
// values.

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include "text/load/sentencepiece_proto.h"
#include "text/test_data.h"
#include "text/tokenizer.h"

namespace nibble::text {
namespace {

using core::Json;
using Ids = std::vector<std::int32_t>;

// Reads the key/value part of a trusted GGUF file, for what a tokenizer needs.
class GgufKeys {
 public:
  explicit GgufKeys(std::string bytes) : bytes_(std::move(bytes)) {
    at_ = 16;  // magic, version, tensor count
    const auto keys = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < keys; ++i) {
      const std::string key = string();
      const auto type = number<std::uint32_t>();
      read_value(key, type);
    }
  }

  Vocabulary vocabulary() const {
    const std::string prefix = "tokenizer.ggml.";
    Vocabulary v;
    v.model = text(prefix + "model");
    v.pre = text(prefix + "pre");
    v.tokens = strings(prefix + "tokens");
    v.merges = strings(prefix + "merges");
    for (const double score : numbers(prefix + "scores")) {
      v.scores.push_back(static_cast<float>(score));
    }
    for (const double type : numbers(prefix + "token_type")) {
      v.token_types.push_back(static_cast<std::int32_t>(type));
    }
    v.bos_id = id(prefix + "bos_token_id");
    v.eos_id = id(prefix + "eos_token_id");
    v.unknown_id = id(prefix + "unknown_token_id");
    v.pad_id = id(prefix + "padding_token_id");
    v.sep_id = id(prefix + "seperator_token_id");
    v.cls_id = id(prefix + "cls_token_id");
    v.mask_id = id(prefix + "mask_token_id");
    v.add_bos = flag(prefix + "add_bos_token");
    v.add_eos = flag(prefix + "add_eos_token");
    v.chat_template = text("tokenizer.chat_template");
    return v;
  }

 private:
  template <typename T>
  T number() {
    T value{};
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  std::string string() {
    const auto size = number<std::uint64_t>();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

  double scalar(std::uint32_t type) {
    switch (type) {
      case 0:
      case 7:
        return number<std::uint8_t>();
      case 1:
        return number<std::int8_t>();
      case 2:
        return number<std::uint16_t>();
      case 3:
        return number<std::int16_t>();
      case 4:
        return number<std::uint32_t>();
      case 5:
        return number<std::int32_t>();
      case 6:
        return static_cast<double>(number<float>());
      case 10:
        return static_cast<double>(number<std::uint64_t>());
      case 11:
        return static_cast<double>(number<std::int64_t>());
      case 12:
        return number<double>();
      default:
        throw std::runtime_error("unexpected GGUF type");
    }
  }

  void read_value(const std::string& key, std::uint32_t type) {
    constexpr std::uint32_t kString = 8;
    constexpr std::uint32_t kArray = 9;
    const bool array = type == kArray;
    const std::uint32_t element = array ? number<std::uint32_t>() : type;
    const std::uint64_t count = array ? number<std::uint64_t>() : 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (element == kString) {
        strings_[key].push_back(string());
      } else {
        numbers_[key].push_back(scalar(element));
      }
    }
  }

  std::vector<std::string> strings(const std::string& key) const {
    const auto found = strings_.find(key);
    return found == strings_.end() ? std::vector<std::string>() : found->second;
  }
  std::vector<double> numbers(const std::string& key) const {
    const auto found = numbers_.find(key);
    return found == numbers_.end() ? std::vector<double>() : found->second;
  }
  std::string text(const std::string& key) const {
    const auto values = strings(key);
    return values.empty() ? std::string() : values.front();
  }
  std::optional<std::uint64_t> id(const std::string& key) const {
    const auto values = numbers(key);
    return values.empty() ? std::nullopt
                          : std::optional(static_cast<std::uint64_t>(values.front()));
  }
  std::optional<bool> flag(const std::string& key) const {
    const auto values = numbers(key);
    return values.empty() ? std::nullopt : std::optional(values.front() != 0);
  }

  std::string bytes_;
  std::size_t at_ = 0;
  std::map<std::string, std::vector<std::string>> strings_;
  std::map<std::string, std::vector<double>> numbers_;
};

std::vector<std::string> split_at(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = text.find(separator); at != std::string::npos;
       at = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

Ids parse_ids(const std::string& line) {
  Ids ids;
  for (const std::string& word : split_at(line, " ")) {
    if (!word.empty()) {
      ids.push_back(std::stoi(word));
    }
  }
  return ids;
}

std::string name_of(const ::testing::TestParamInfo<std::string>& tested) {
  std::string name = tested.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class LlamaCppVectors : public ::testing::TestWithParam<std::string> {};

TEST_P(LlamaCppVectors, AllMatch) {
  const auto path =
      testing::shared("data/tokenizers/llama.cpp-vocab/ggml-vocab-" + GetParam() + ".gguf");
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is missing";
  }
  const auto tokenizer =
      Tokenizer::from_vocabulary(GgufKeys(testing::read_file(path)).vocabulary());
  const auto texts =
      split_at(testing::read_file(path.string() + ".inp"), "\n__ggml_vocab_test__\n");
  const auto lines = split_at(testing::read_file(path.string() + ".out"), "\n");
  ASSERT_GT(texts.size(), 40U);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(tokenizer->encode(texts[i]), parse_ids(lines[i])) << i << ": '" << texts[i] << "'";
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, LlamaCppVectors,
                         ::testing::Values("gpt-2", "deepseek-coder", "starcoder", "phi-3",
                                           "bert-bge"),
                         name_of);

TEST(Gguf, RolesComeFromTheKeys) {
  const auto path = testing::shared("data/tokenizers/llama.cpp-vocab/ggml-vocab-phi-3.gguf");
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is missing";
  }
  const auto tokenizer =
      Tokenizer::from_vocabulary(GgufKeys(testing::read_file(path)).vocabulary());
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 32000);
  EXPECT_EQ(tokenizer->pad(), 32000);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_TRUE(tokenizer->chat_template().starts_with("{{ bos_token }}"));
  EXPECT_EQ(tokenizer->vocab_size(), 32064);
  EXPECT_EQ(tokenizer->encode("Hello", {.add_special = true}), (Ids{1, 15043}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 15043, 3186}), "Hello world");
  const auto& ends = tokenizer->end_tokens();
  EXPECT_TRUE(std::binary_search(ends.begin(), ends.end(), *tokenizer->id_of("<|end|>")));
}

// The same 512 pieces as GGUF and as SentencePiece model.
TEST(Gguf, AgreesWithItsSentencePieceModel) {
  const auto gguf = testing::shared("models/stories260K/stories260Ktok512.gguf");
  const auto model = testing::shared("models/stories260K/tok512.model");
  if (!std::filesystem::exists(gguf) || !std::filesystem::exists(model)) {
    GTEST_SKIP() << gguf << " or " << model << " is missing";
  }
  const auto from_gguf =
      Tokenizer::from_vocabulary(GgufKeys(testing::read_file(gguf)).vocabulary());
  const auto from_model =
      Tokenizer::from_sentencepiece(testing::read_file(model), "", "tok512.model");
  // The GGUF file does not say that the model removes extra spaces; texts without any read alike.
  for (const std::string text : {"Once upon a time", "there was\na girl", "Zoë 🙂", ""}) {
    EXPECT_EQ(from_gguf->encode(text, {.add_special = true}),
              from_model->encode(text, {.add_special = true}))
        << text;
  }
}

std::shared_ptr<const Tokenizer> hashed_tokenizer(const std::string& name) {
  if (name == "gpt2" || name == "bert-base-uncased") {
    return Tokenizer::from_folder(testing::shared("data/tokenizers/" + name));
  }
  return Tokenizer::from_folder(testing::shared("models/" + name));
}

std::string read_text(const std::string& name) {
  const auto path = testing::shared("data/text/" + name);
  return testing::read_file(std::filesystem::exists(path)
                                ? path
                                : testing::shared("data/tokenizers/sentencepiece/" + name));
}

class WholeTexts : public ::testing::TestWithParam<std::string> {};

TEST_P(WholeTexts, MatchHuggingFace) {
  if (!std::filesystem::exists(testing::shared("data/text"))) {
    GTEST_SKIP() << testing::shared("data/text") << " is missing";
  }
  const auto tokenizer = hashed_tokenizer(GetParam());
  const Json hashes = testing::read_json(testing::golden("hashes.json"));
  for (const auto& [text_name, expected] : hashes[GetParam()].items()) {
    const Ids ids = tokenizer->encode(read_text(text_name));
    EXPECT_EQ(static_cast<std::int64_t>(ids.size()), expected["count"].get<std::int64_t>())
        << text_name;
    EXPECT_EQ(testing::fnv1a(ids), expected["ids"].get<std::string>()) << text_name;
    EXPECT_EQ(testing::fnv1a(tokenizer->decode(ids, false)), expected["text"].get<std::string>())
        << text_name;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, WholeTexts,
                         ::testing::Values("demo-7m", "lm-26m", "lm-gpt2-17m", "bert-7m-sst2",
                                           "gpt2", "bert-base-uncased"),
                         name_of);

TEST(GoldenModels, FirstIdsAndCounts) {
  if (!std::filesystem::exists(testing::shared("models/lm-26m"))) {
    GTEST_SKIP() << testing::shared("models") << " is missing";
  }
  for (const std::string model : {"demo-7m", "lm-26m", "lm-gpt2-17m"}) {
    const auto tokenizer = Tokenizer::from_folder(testing::shared("models/" + model));
    const Json golden = testing::read_json(testing::shared("models/" + model + "/golden.json"));
    for (const auto& [name, expected] : golden["texts"].items()) {
      if (!std::filesystem::exists(testing::shared("data/text/" + name))) {
        continue;
      }
      const Ids ids = tokenizer->encode(read_text(name));
      // Two of the golden files counted a longer copy of test_proposals.txt.
      if (name != "test_proposals.txt") {
        EXPECT_EQ(static_cast<std::int64_t>(ids.size()),
                  expected["text_tokens"].get<std::int64_t>())
            << name;
      }
      const Ids first = expected["first_ids"].get<Ids>();
      EXPECT_TRUE(std::equal(first.begin(), first.end(), ids.begin())) << name;
    }
    EXPECT_EQ(tokenizer->encode(golden["prompt"]["text"].get<std::string>()),
              golden["prompt"]["ids"].get<Ids>());
    EXPECT_EQ(tokenizer->bos(), 0);
    EXPECT_EQ(tokenizer->eos(), 0);
    EXPECT_EQ(tokenizer->pad(), 2);
    EXPECT_EQ(tokenizer->end_tokens(), Ids{0});
    EXPECT_FALSE(tokenizer->adds_bos());
  }
}

// Opening of a novel of 1906, in Japanese, and a line of other scripts.
constexpr const char* kJapanese =
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所で"
    "ニャーニャー泣いていた事だけは記憶している。　ＡＢＣ１２３ｱｲｳ ㍻ ①\n"
    "  Mixed   text: é e\u0301 ﬁ 한국어 🙂 <s> </s> \t end  ";

class LibSentencePiece : public ::testing::TestWithParam<std::string> {};

TEST_P(LibSentencePiece, IdsAreTheSame) {
  const auto path = GetParam() == "tok512"
                        ? testing::shared("models/stories260K/tok512.model")
                        : testing::shared("data/tokenizers/sentencepiece/" + GetParam() + ".model");
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is missing";
  }
  sentencepiece::SentencePieceProcessor reference;
  ASSERT_TRUE(reference.Load(path.string()).ok());
  const auto tokenizer = Tokenizer::from_sentencepiece(testing::read_file(path), "", GetParam());
  std::vector<std::string> texts = split_at(read_text("botchan.txt"), "\n");
  texts.push_back(read_text("botchan.txt"));
  texts.push_back(kJapanese);
  for (const std::string& text : texts) {
    std::vector<int> expected;
    ASSERT_TRUE(reference.Encode(text, &expected).ok());
    ASSERT_EQ(tokenizer->encode(text, {.parse_special = false}),
              Ids(expected.begin(), expected.end()))
        << text.substr(0, 200);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LibSentencePiece,
                         ::testing::Values("test_model", "test_ja_model", "tok512"), name_of);

// A tokenizer.json made of a SentencePiece model the way that transformers converts one.
std::string converted_to_json(const std::string& model_bytes) {
  const SentencePieceFile file = read_sentencepiece_file(model_bytes, "model");
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string charsmap;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char byte : file.rules.charsmap) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) {
      charsmap.push_back(kAlphabet[bits >> (count - 6) & 63]);
    }
  }
  if (count > 0) {
    charsmap.push_back(kAlphabet[bits << (6 - count) & 63]);
  }
  Json vocab = Json::array();
  for (std::size_t i = 0; i < file.vocabulary.pieces.size(); ++i) {
    vocab.push_back(Json::array({file.vocabulary.pieces[i], file.vocabulary.scores[i]}));
  }
  const Json replace = {
      {"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "\u2581"}};
  const Json json = {
      {"model", {{"type", "Unigram"}, {"unk_id", *file.vocabulary.unk}, {"vocab", vocab}}},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Precompiled"}, {"precompiled_charsmap", charsmap}},
          {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}},
          replace}}}},
      {"pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}}},
      {"decoder",
       {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}}}};
  return json.dump();
}

TEST(UnigramJson, MatchesHuggingFaceOnBotchan) {
  const Json hashes = testing::read_json(testing::golden("hashes.json"));
  for (const std::string name : {"test_model", "test_ja_model"}) {
    const auto path = testing::shared("data/tokenizers/sentencepiece/" + name + ".model");
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << path << " is missing";
    }
    const auto tokenizer =
        Tokenizer::from_json(converted_to_json(testing::read_file(path)), "", name);
    const Json& expected = hashes["unigram " + name]["botchan.txt"];
    const Ids ids = tokenizer->encode(read_text("botchan.txt"));
    EXPECT_EQ(static_cast<std::int64_t>(ids.size()), expected["count"].get<std::int64_t>()) << name;
    EXPECT_EQ(testing::fnv1a(ids), expected["ids"].get<std::string>()) << name;
    EXPECT_EQ(testing::fnv1a(tokenizer->decode(ids, false)), expected["text"].get<std::string>())
        << name;
  }
}

}  // namespace
}  // namespace nibble::text
