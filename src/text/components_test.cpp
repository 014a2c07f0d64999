// Single normalizers, pre-tokenizers and decoders against Hugging Face's tokenizers
// (goldens/make_tokenizers.py).

#include <gtest/gtest.h>

#include "text/decode/decoder.h"
#include "text/normalize/normalizer.h"
#include "text/pretokenize/pre_tokenizer.h"
#include "text/test_data.h"

namespace nibble::text {
namespace {

using core::Json;

const Json& components() {
  static const Json kComponents = testing::read_json(testing::golden("components.json"));
  return kComponents;
}

std::vector<std::string> words_of(const PreTokenizer& pre_tokenizer, const std::string& text) {
  Words words;
  words.text = text;
  words.spans = {{0, text.size()}};
  pre_tokenizer.apply(words);
  std::vector<std::string> out;
  for (const Span& span : words.spans) {
    out.emplace_back(slice(words.text, span));
  }
  return out;
}

TEST(Components, Normalizers) {
  const auto texts = components()["texts"].get<std::vector<std::string>>();
  for (const Json& part : components()["normalizers"]) {
    const NormalizerPtr normalizer = normalizer_from_json(part["json"], "test");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(normalizer->apply(texts[i], {}), part["out"][i].get<std::string>())
          << part["json"] << " of '" << texts[i] << "'";
    }
  }
}

TEST(Components, PreTokenizers) {
  const auto texts = components()["texts"].get<std::vector<std::string>>();
  for (const Json& part : components()["pre_tokenizers"]) {
    const PreTokenizerPtr pre_tokenizer = pre_tokenizer_from_json(part["json"], "test");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(words_of(*pre_tokenizer, texts[i]), part["out"][i].get<std::vector<std::string>>())
          << part["json"] << " of '" << texts[i] << "'";
    }
  }
}

TEST(Components, Decoders) {
  const Json& streams = components()["streams"];
  for (const Json& part : components()["decoders"]) {
    const Decoder decoder(decode_stages_from_json(part["json"], "test"));
    for (std::size_t i = 0; i < streams.size(); ++i) {
      Decoder::Run run(decoder);
      for (const Json& token : streams[i]) {
        run.push(token.get<std::string>());
      }
      run.finish();
      const std::string text = run.take();
      if (!part["out"][i].is_null()) {
        EXPECT_EQ(text, part["out"][i].get<std::string>()) << part["json"] << " of " << streams[i];
      }
    }
  }
}

TEST(Components, UnknownOnesAreRefusedByName) {
  const Json unknown = {{"type", "Quantum"}};
  const auto message = [&](auto read) {
    try {
      read();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message([&] { normalizer_from_json(unknown, "file"); }),
            "file: the normalizer 'Quantum' is not supported");
  EXPECT_EQ(message([&] { pre_tokenizer_from_json(unknown, "file"); }),
            "file: the pre-tokenizer 'Quantum' is not supported");
  EXPECT_EQ(message([&] { decode_stages_from_json(unknown, "file"); }),
            "file: the decoder 'Quantum' is not supported");
}

TEST(Components, GrowthIsBounded) {
  const NormalizerPtr normalizer = normalizer_from_json(
      {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(200, 'a')}},
      "test");
  const NormalizeScope scope{.at_origin = true, .max_bytes = max_normalized_bytes(1000)};
  EXPECT_THROW(normalizer->apply(std::string(1000, 'a'), scope), core::Error);
  EXPECT_EQ(normalizer->apply("ba", scope).size(), 201U);
}

}  // namespace
}  // namespace nibble::text
