// Files that are damaged or hostile: each is refused with one line, or loads and works.

#include <random>

#include <gtest/gtest.h>

#include "core/error.h"
#include "text/stream_decoder.h"
#include "text/test_data.h"
#include "text/tokenizer.h"

namespace nibble::text {
namespace {

using core::Json;

// Loads and uses what `load` gives; anything but a result or an Error of one line fails the test.
template <typename Load>
void use(Load load) {
  try {
    const std::shared_ptr<const Tokenizer> tokenizer = load();
    for (const std::string text :
         {"Hello  wörld\n 12345 <s> yesterday", "\xff\xe2\x82 \xf0\x9f\x99\x82", "    x\ty  "}) {
      const auto ids = tokenizer->encode(text, {.add_special = true});
      for (const std::int32_t id : ids) {
        ASSERT_GE(id, 0);
        ASSERT_LT(id, tokenizer->vocab_size());
      }
      tokenizer->decode(ids, false);
      StreamDecoder stream(tokenizer);
      for (std::int32_t id = -1; id <= 20; ++id) {
        stream.push(id);
        tokenizer->piece(id);
      }
      stream.flush();
    }
  } catch (const core::Error& error) {
    const std::string_view message = error.what();
    EXPECT_EQ(message.find('\n'), std::string_view::npos) << message;
    EXPECT_LT(message.size(), 1000U) << message;
  }
}

std::shared_ptr<const Tokenizer> load_json(const std::string& bytes) {
  return Tokenizer::from_json(bytes, "", "tokenizer.json");
}

std::shared_ptr<const Tokenizer> load_model(const std::string& bytes) {
  return Tokenizer::from_sentencepiece(bytes, "", "tokenizer.model");
}

template <typename Load>
void try_prefixes(const std::string& bytes, Load load) {
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    use([&] { return load(bytes.substr(0, size)); });
  }
}

template <typename Load>
void try_flips(const std::string& bytes, Load load, int count) {
  std::mt19937 generator(7);
  for (int i = 0; i < count; ++i) {
    std::string damaged = bytes;
    const std::size_t at = generator() % damaged.size();
    damaged[at] = static_cast<char>(generator());
    use([&] { return load(damaged); });
  }
}

TEST(Fuzz, PrefixesOfTokenizerJson) {
  try_prefixes(testing::read_file(testing::golden("tokenizers/continuing_prefix.json")), load_json);
  try_prefixes(testing::read_file(testing::golden("tokenizers/word_level.json")), load_json);
}

TEST(Fuzz, FlipsInTokenizerJson) {
  for (const std::string name : {"llama2", "llama3", "t5", "bert", "added_zoo"}) {
    try_flips(testing::read_file(testing::golden("tokenizers/" + name + ".json")), load_json, 500);
  }
}

TEST(Fuzz, PrefixesOfSentencePieceModels) {
  try_prefixes(testing::read_file(testing::golden("sentencepiece/unigram.model")), load_model);
}

TEST(Fuzz, FlipsInSentencePieceModels) {
  for (const std::string name : {"unigram", "bpe", "gemma"}) {
    try_flips(testing::read_file(testing::golden("sentencepiece/" + name + ".model")), load_model,
              1000);
  }
}

// Values of one field of a tokenizer.json replaced by values of every kind.
TEST(Fuzz, EveryFieldOfTokenizerJsonReplaced) {
  const std::vector<Json> values = {
      nullptr, true, -1, 0, 1e300, UINT64_MAX, "", "x", "(", Json::array(), Json::object()};
  for (const std::string name :
       {"continuing_prefix", "unigram_bytes", "llama2_metaspace", "bert"}) {
    const Json json = testing::read_json(testing::golden("tokenizers/" + name + ".json"));
    const Json flat = json.flatten();
    int skipped = 0;
    for (const auto& [pointer, value] : flat.items()) {
      // Of the thousands of tokens and merges, some are enough.
      const bool vocabulary =
          pointer.starts_with("/model/vocab") || pointer.starts_with("/model/merges");
      if (vocabulary && ++skipped % 97 != 0) {
        continue;
      }
      for (const Json& replacement : values) {
        Json damaged = json;
        damaged[Json::json_pointer(pointer)] = replacement;
        use([&] { return load_json(damaged.dump()); });
      }
    }
  }
}

struct Row {
  std::string name;
  Json change;  // a JSON merge patch for the file below
  std::string message;
};

Json small_file() {
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", 3},
             {"content", "<s>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"model",
           {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}}};
}

Json with_added(std::int64_t id, const std::string& content) {
  Json token = small_file()["added_tokens"][0];
  token["id"] = id;
  token["content"] = content;
  return {{"added_tokens", {token}}};
}

std::string refusal(const Json& file) {
  try {
    load_json(file.dump());
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(Malformed, TokenizerJsonIsRefusedWithTheReason) {
  ASSERT_EQ(refusal(small_file()), "accepted");
  const auto model = [](Json fields) { return Json{{"model", std::move(fields)}}; };
  const std::string json = "tokenizer.json: ";
  const std::vector<Row> rows = {
      {"merge of an unknown token", model({{"merges", {"a c"}}}),
       json + "merge 0 names or makes 'ac', which is not in the vocabulary"},
      {"merge that makes no token", model({{"merges", {"a b", "ab a"}}}),
       json + "merge 1 names or makes 'aba', which is not in the vocabulary"},
      {"merge twice", model({{"merges", {"a b", "a b"}}}),
       json + "merge 1 ('a' with 'b') stands twice"},
      {"merge of nothing", model({{"merges", {" ab"}}}),
       json + "merge 0 ('' with 'ab') joins nothing"},
      {"merge of three", model({{"merges", {"a b c"}}}),
       json + "the merge 'a b c' is not two tokens with a space between them"},
      {"gap in the ids", model({{"vocab", {{"ab", 9}}}}),
       json + "the ids are not dense: 3 tokens, but the largest id is 9"},
      {"huge id", model({{"vocab", {{"ab", 3'000'000'000}}}}),
       json + "the token 'ab' has the id 3000000000, must be 0 to 16777215"},
      {"negative id", model({{"vocab", {{"ab", -1}}}}),
       json + "the token 'ab' has the id -1, must be 0 to 16777215"},
      {"id twice", model({{"vocab", {{"ab", 1}}}}), json + "the id 1 stands twice"},
      {"id of another type", model({{"vocab", {{"ab", "2"}}}}),
       json + "the id of 'ab' must be an integer"},
      {"dropout", model({{"dropout", 0.1}}),
       json + "dropout 0.1 makes tokens random, not supported"},
      {"unknown model", model({{"type", "Magic"}}), json + "the model 'Magic' is not supported"},
      {"empty special token", with_added(3, ""),
       json + "the added token with id 3 is an empty string"},
      {"special token with a huge id", with_added(1 << 20, "<s>"),
       json + "the ids are not dense: 4 tokens, but the largest id is 1048576"},
      {"special token with a taken id", with_added(1, "<s>"),
       json + "the id 1 of the added token '<s>' belongs to another"},
      {"special token against the vocabulary", with_added(3, "ab"),
       json + "the added token 'ab' has the id 3, but 2 in the vocabulary"},
      {"invalid regex",
       {{"pre_tokenizer",
         {{"type", "Split"},
          {"pattern", {{"Regex", "(a"}}},
          {"behavior", "Isolated"},
          {"invert", false}}}},
       json + "the pattern '(a' is invalid: missing closing parenthesis"},
      {"version", {{"version", "2.0"}}, json + "version '2.0' is not supported, only 1.0"},
  };
  for (const Row& row : rows) {
    Json file = small_file();
    file.merge_patch(row.change);
    EXPECT_EQ(refusal(file), row.message) << row.name;
  }
}

TEST(Malformed, FewGapsAreAllowedInLargeVocabularies) {
  Json file = small_file();
  for (int i = 3; i < 600; ++i) {
    file["model"]["vocab"]["t" + std::to_string(i)] = i + (i > 500 ? 1 : 0);
  }
  file["added_tokens"] = Json::array();
  EXPECT_EQ(refusal(file), "accepted");
}

TEST(Malformed, SentencePieceModels) {
  const auto message = [](const std::string& bytes) {
    try {
      load_model(bytes);
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto field = [](std::string_view bytes) {
    std::string out = "\x0a";
    out.push_back(static_cast<char>(bytes.size()));
    return out.append(bytes);
  };
  const auto piece = [&](std::string_view text, char type) {
    std::string inner = field(text).append("\x18");
    inner.push_back(type);
    return field(inner);
  };
  EXPECT_EQ(message(""), "tokenizer.model: no pieces: not a SentencePiece model");
  EXPECT_EQ(message(piece("<unk>", 2)), "accepted");
  EXPECT_EQ(message(piece("a", 1)), "tokenizer.model: no unknown piece");
  EXPECT_EQ(message(piece("<unk>", 2) + piece("<u>", 2)), "tokenizer.model: two unknown pieces");
  EXPECT_EQ(message(piece("<unk>", 2) + piece("a", 1) + piece("a", 1)),
            "tokenizer.model: the piece 'a' stands twice");
  EXPECT_EQ(message(piece("<unk>", 2) + piece("<0xZZ>", 6)),
            "tokenizer.model: the byte piece '<0xZZ>' is not <0xHH>");
  EXPECT_EQ(message(piece("<unk>", 9)), "tokenizer.model: piece 0 has the type 9, must be 1 to 6");
  EXPECT_NE(message("\x0a\xff\xff").find("a number is cut off at byte 3"), std::string::npos);
  EXPECT_NE(message(std::string("\x0a") + std::string(10, '\xff')).find("more than 64 bits"),
            std::string::npos);
  EXPECT_NE(message("\x0a\x7f").find("longer than what is left"), std::string::npos);
}

Vocabulary small_vocabulary() {
  Vocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a"};
  v.scores = {0, 0, 0, -1, -2, -1};
  v.token_types = {2, 3, 3, 1, 1, 1};
  v.bos_id = 1;
  v.eos_id = 2;
  return v;
}

TEST(Malformed, Vocabularies) {
  const auto message = [](auto change) {
    Vocabulary v = small_vocabulary();
    change(v);
    try {
      Tokenizer::from_vocabulary(v);
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string gguf = "GGUF tokenizer: ";
  EXPECT_EQ(message([](Vocabulary&) {}), "accepted");
  EXPECT_EQ(message([](Vocabulary& v) { v.pad_id = UINT32_MAX; }), "accepted");
  EXPECT_EQ(message([](Vocabulary& v) { v.model = "rwkv"; }),
            gguf + "the model 'rwkv' is not supported");
  EXPECT_EQ(message([](Vocabulary& v) { v.tokens.clear(); }),
            gguf + "tokenizer.ggml.tokens is missing");
  EXPECT_EQ(message([](Vocabulary& v) { v.bos_id = 6; }), gguf + "bos_token_id is 6, of 6 tokens");
  EXPECT_EQ(message([](Vocabulary& v) { v.token_types.pop_back(); }),
            gguf + "5 token types for 6 tokens");
  EXPECT_EQ(message([](Vocabulary& v) { v.token_types[4] = 77; }),
            gguf + "the token type 77 of token 4 is unknown");
  EXPECT_EQ(message([](Vocabulary& v) { v.scores.clear(); }),
            gguf + "6 pieces, 0 scores and 6 types, must be as many of each");
  EXPECT_EQ(message([](Vocabulary& v) { v.scores[3] = std::numeric_limits<float>::quiet_NaN(); }),
            gguf + "the score of piece 3 is not finite");
  EXPECT_EQ(message([](Vocabulary& v) { v.tokens[4] = "\xff"; }),
            gguf + "piece 4 is not valid UTF-8");
  EXPECT_EQ(message([](Vocabulary& v) { v.tokens[1] = ""; }),
            gguf + "the added token with id 1 is an empty string");
  EXPECT_EQ(message([](Vocabulary& v) { v.model = "gpt2", v.pre = "unheard-of"; }),
            gguf + "the pre-tokenizer 'unheard-of' is not supported");
  EXPECT_EQ(message([](Vocabulary& v) { v.model = "gpt2", v.pre = "gpt-2"; }),
            gguf + "tokenizer.ggml.merges is missing");
  EXPECT_EQ(message([](Vocabulary& v) {
              v.model = "t5", v.precompiled_charsmap = "\xff\xff\xff\xff\x01";
            }),
            gguf + "precompiled_charsmap says that its trie has 4294967295 bytes, of 5 in all");
}

}  // namespace
}  // namespace nibble::text
