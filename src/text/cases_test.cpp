// Whole tokenizers of every shape against Hugging Face's tokenizers and SentencePiece
// (goldens/make_tokenizers.py).

#include <gtest/gtest.h>

#include "text/stream_decoder.h"
#include "text/test_data.h"
#include "text/tokenizer.h"

namespace nibble::text {
namespace {

using core::Json;
using Ids = std::vector<std::int32_t>;

const Json& cases() {
  static const Json kCases = testing::read_json(testing::golden("cases.json"));
  return kCases;
}

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids,
                     bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string text;
  for (const std::int32_t id : ids) {
    text += decoder.push(id);
  }
  return text + decoder.flush();
}

std::string name_of(const ::testing::TestParamInfo<std::string>& tested) {
  return tested.param;
}

class TokenizerCases : public ::testing::TestWithParam<std::string> {};

TEST_P(TokenizerCases, MatchHuggingFace) {
  const auto path = testing::golden("tokenizers/" + GetParam() + ".json");
  const auto tokenizer = Tokenizer::from_json(testing::read_file(path), "", GetParam());
  const Json& expected = cases()["tokenizers"][GetParam()];
  for (std::size_t i = 0; i < cases()["texts"].size(); ++i) {
    const auto text = cases()["texts"][i].get<std::string>();
    const Json& encoded = expected["encode"][i];
    EXPECT_EQ(tokenizer->encode(text), encoded["ids"].get<Ids>()) << "'" << text << "'";
    EXPECT_EQ(tokenizer->encode(text, {.add_special = true}), encoded["special"].get<Ids>())
        << "'" << text << "'";
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = false}), encoded["unparsed"].get<Ids>())
        << "'" << text << "'";
  }
  for (const Json& decoded : expected["decode"]) {
    const Ids ids = decoded["ids"].get<Ids>();
    EXPECT_EQ(tokenizer->decode(ids, false), decoded["all"].get<std::string>()) << decoded["ids"];
    EXPECT_EQ(tokenizer->decode(ids, true), decoded["text"].get<std::string>()) << decoded["ids"];
    EXPECT_EQ(streamed(tokenizer, ids, false), decoded["all"].get<std::string>()) << decoded["ids"];
    EXPECT_EQ(streamed(tokenizer, ids, true), decoded["text"].get<std::string>()) << decoded["ids"];
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, TokenizerCases,
                         ::testing::Values("llama2", "llama2_metaspace", "llama3", "qwen2", "gpt4o",
                                           "deepseek", "roberta", "bert", "t5", "unigram_bytes",
                                           "word_level", "clip_like", "continuing_prefix",
                                           "added_zoo"),
                         name_of);

class SentencePieceCases : public ::testing::TestWithParam<std::string> {};

TEST_P(SentencePieceCases, MatchSentencePiece) {
  const auto path = testing::golden("sentencepiece/" + GetParam() + ".model");
  const auto tokenizer = Tokenizer::from_sentencepiece(testing::read_file(path), "", GetParam());
  for (std::size_t i = 0; i < cases()["texts"].size(); ++i) {
    const auto text = cases()["texts"][i].get<std::string>();
    EXPECT_EQ(tokenizer->encode(text, {.parse_special = false}),
              cases()["sentencepiece"][GetParam()][i].get<Ids>())
        << "'" << text << "'";
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, SentencePieceCases, ::testing::Values("unigram", "bpe", "gemma"),
                         name_of);

}  // namespace
}  // namespace nibble::text
