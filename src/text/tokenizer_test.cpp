// What the files around a vocabulary say, streams, odd input, and threads.

#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "characters/utf8.h"
#include "core/error.h"
#include "text/stream_decoder.h"
#include "text/test_data.h"

namespace nibble::text {
namespace {

namespace fs = std::filesystem;
using core::Json;
using Ids = std::vector<std::int32_t>;

std::shared_ptr<const Tokenizer> golden(const std::string& name, const Json& config = nullptr) {
  const std::string file = testing::read_file(testing::golden("tokenizers/" + name + ".json"));
  return Tokenizer::from_json(file, config.is_null() ? "" : config.dump(), name);
}

// A folder that is removed again.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("nibble_text_test_" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder& write(const std::string& name, const std::string& content) {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return *this;
  }
  Folder& copy(const fs::path& from, const std::string& name) {
    return write(name, testing::read_file(from));
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST(Config, NamesBecomeIds) {
  const auto tokenizer =
      golden("llama2",
             {{"bos_token", "<s>"},
              {"eos_token", {{"content", "</s>"}, {"lstrip", false}}},
              {"pad_token", nullptr},
              {"unk_token", "<unk>"},
              {"chat_template",
               {{{"name", "tool"}, {"template", "T"}}, {{"name", "default"}, {"template", "D"}}}}});
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_EQ(tokenizer->pad(), std::nullopt);
  EXPECT_EQ(tokenizer->unk(), 0);
  EXPECT_EQ(tokenizer->end_tokens(), Ids{2});
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->chat_template(), "D");
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_FALSE(tokenizer->is_special(300));
}

TEST(Config, AddBosAndEosDecideOverTheTemplate) {
  const auto ids = [](const Json& flags) {
    Json config = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    config.update(flags);
    return golden("llama2", config)->encode("", {.add_special = true});
  };
  EXPECT_EQ(ids(Json::object()), Ids{1});
  EXPECT_EQ(ids({{"add_bos_token", false}}), Ids{});
  EXPECT_EQ(ids({{"add_bos_token", true}, {"add_eos_token", true}}), (Ids{1, 2}));
  const auto without_template = [](const Json& config) {
    return golden("qwen2", config)->encode("", {.add_special = true});
  };
  EXPECT_EQ(without_template({{"bos_token", "<s>"}}), Ids{});
  EXPECT_EQ(
      without_template({{"bos_token", "<s>"}, {"tokenizer_class", "LlamaTokenizerFast"}}).size(),
      1U);
  EXPECT_THROW(without_template({{"add_bos_token", true}}), core::Error);
}

TEST(Config, AddedTokensDecoderChangesFlagsAndAddsTokens) {
  const auto plain = golden("qwen2");
  const std::int32_t eot = *plain->id_of("<|eot|>");
  const auto next = static_cast<std::int32_t>(plain->vocab_size());
  const auto tokenizer = golden(
      "qwen2",
      {{"added_tokens_decoder",
        {{std::to_string(eot), {{"content", "<|eot|>"}, {"special", false}, {"rstrip", true}}},
         {std::to_string(next), {{"content", "<|im_end|>"}, {"special", true}}}}}});
  EXPECT_EQ(tokenizer->encode("<|eot|>  <|im_end|>"), (Ids{eot, next}));
  EXPECT_EQ(tokenizer->decode(Ids{eot, next}), "<|eot|>");
  EXPECT_EQ(tokenizer->vocab_size(), next + 1);
  EXPECT_TRUE(std::ranges::count(tokenizer->end_tokens(), next) == 1);
  EXPECT_THROW(golden("qwen2", {{"added_tokens_decoder", {{"7", {{"content", "<|eot|>"}}}}}}),
               core::Error);
}

TEST(Folder, FilesInOrderOfPreference) {
  Folder folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhe\n##llo\r\nworld\n");
  auto tokenizer = Tokenizer::from_folder(folder.path());
  EXPECT_EQ(tokenizer->encode("Hello World!", {.add_special = true}), (Ids{2, 5, 6, 7, 1, 3}));
  EXPECT_EQ(tokenizer->decode(Ids{2, 5, 6, 7, 3}), "hello world");
  EXPECT_EQ(tokenizer->mask(), 4);

  folder.write("vocab.json", R"({"h":0,"i":1,"hi":2,"\u0120":3,"<|endoftext|>":4})")
      .write("merges.txt", "#version: 0.2\nh i\n");
  tokenizer = Tokenizer::from_folder(folder.path());
  EXPECT_EQ(tokenizer->encode("hi hi<|endoftext|>"), (Ids{2, 3, 2, 4}));
  EXPECT_EQ(tokenizer->eos(), 4);

  folder.copy(testing::golden("sentencepiece/bpe.model"), "tokenizer.model");
  tokenizer = Tokenizer::from_folder(folder.path());
  EXPECT_EQ(tokenizer->encode("", {.add_special = true}), Ids{*tokenizer->bos()});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Hello, wörld ▁ \n")), "Hello, wörld   \n");

  folder.copy(testing::golden("tokenizers/llama3.json"), "tokenizer.json")
      .write("generation_config.json", R"({"eos_token_id": [3, 5], "pad_token_id": 5})")
      .write("special_tokens_map.json", R"({"bos_token": "<s>"})")
      .write("chat_template.jinja", "{{ messages }}");
  tokenizer = Tokenizer::from_folder(folder.path());
  EXPECT_EQ(tokenizer->bos(), tokenizer->id_of("<s>"));
  EXPECT_EQ(tokenizer->eos(), 3);
  EXPECT_EQ(tokenizer->pad(), 5);
  EXPECT_EQ(tokenizer->chat_template(), "{{ messages }}");
  EXPECT_TRUE(std::ranges::is_sorted(tokenizer->end_tokens()));
}

TEST(Folder, WhatIsMissingOrUnknownIsSaid) {
  Folder folder;
  const auto kind = [&] {
    try {
      Tokenizer::from_folder(folder.path());
    } catch (const core::Error& error) {
      return error.kind();
    }
    return core::ErrorKind::kFailed;
  };
  EXPECT_EQ(kind(), core::ErrorKind::kIo);
  folder.copy(testing::golden("sentencepiece/unigram.model"), "tokenizer.model")
      .write("tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  EXPECT_EQ(kind(), core::ErrorKind::kInvalidModel);
  fs::create_directory(folder.path() / "tokenizer.json");
  EXPECT_EQ(kind(), core::ErrorKind::kIo);
}

TEST(SpecialTokens, AreOnlyParsedWhenAsked) {
  const auto tokenizer = golden("llama3");
  const std::int32_t eot = *tokenizer->id_of("<|eot|>");
  EXPECT_EQ(tokenizer->encode("<|eot|>"), Ids{eot});
  const Ids plain = tokenizer->encode("<|eot|>", {.parse_special = false});
  EXPECT_EQ(std::ranges::count(plain, eot), 0);
  EXPECT_EQ(tokenizer->decode(plain), "<|eot|>");
}

TEST(SpecialTokens, GgufControlTokensCannotBeSpelled) {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "llama-bpe";
  v.tokens = {"a", "b", "ab", "c"};
  v.token_types = {1, 1, 1, 3};
  v.merges = {"a b"};
  const auto tokenizer = Tokenizer::from_vocabulary(v);
  EXPECT_EQ(tokenizer->encode("ab c"), (Ids{2, 3}));
  EXPECT_EQ(tokenizer->encode("abc c", {.parse_special = false}), Ids{2});
}

TEST(Pieces, AreTheBytesOfTokens) {
  const auto byte_level = golden("llama3");
  EXPECT_EQ(byte_level->piece(*byte_level->id_of("\u0120the")), " the");
  EXPECT_EQ(byte_level->piece(*byte_level->id_of("\u00c3")), "\xc3");
  EXPECT_EQ(byte_level->piece(*byte_level->id_of("<s>")), "<s>");
  const auto llama = golden("llama2");
  EXPECT_EQ(llama->piece(*llama->id_of("<0xE2>")), "\xe2");
  EXPECT_EQ(llama->piece(*llama->id_of("\u2581the")), " the");
  EXPECT_EQ(llama->piece(-1), "");
  EXPECT_EQ(llama->piece(1 << 30), "");
}

std::string stream(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string part = decoder.push(id);
    EXPECT_TRUE(characters::is_valid_utf8(part));
    text += part;
  }
  return text + decoder.flush();
}

TEST(Streams, AnyIdsGiveWhatDecodeGives) {
  std::mt19937 generator(3);
  for (const std::string name :
       {"llama2", "llama3", "roberta", "bert", "t5", "unigram_bytes", "word_level", "clip_like"}) {
    const auto tokenizer = golden(name);
    for (int round = 0; round < 100; ++round) {
      Ids ids(generator() % 40);
      for (std::int32_t& id : ids) {
        id =
            static_cast<std::int32_t>(generator() % static_cast<unsigned>(tokenizer->vocab_size()));
      }
      EXPECT_EQ(stream(tokenizer, ids), tokenizer->decode(ids)) << name;
    }
  }
}

TEST(Streams, EveryByteAlone) {
  const auto tokenizer = golden("llama3");
  for (int byte = 0; byte < 256; ++byte) {
    Ids ids;
    for (std::int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      if (tokenizer->piece(id) == std::string(1, static_cast<char>(byte))) {
        ids = {id, id, id};
      }
    }
    ASSERT_EQ(ids.size(), 3U) << byte;
    EXPECT_EQ(stream(tokenizer, ids), tokenizer->decode(ids));
  }
}

TEST(Streams, CharactersComeWhole) {
  const auto tokenizer = golden("llama3");
  const std::string text = "🙂 👩‍👩‍👧 naïve 漢字";
  const Ids ids = tokenizer->encode(text);
  ASSERT_GT(ids.size(), 20U);
  EXPECT_EQ(stream(tokenizer, ids), text);
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(ids[0]), "");
  EXPECT_EQ(decoder.flush(), "\ufffd");
}

TEST(RoundTrips, RandomTextIsKept) {
  std::mt19937 generator(11);
  for (const std::string name : {"llama2", "llama2_metaspace", "llama3", "deepseek", "gpt4o"}) {
    const auto tokenizer = golden(name);
    for (int round = 0; round < 50; ++round) {
      std::string text;
      for (int i = 0; i < 60; ++i) {
        constexpr std::array<std::pair<char32_t, unsigned>, 4> kPlanes = {
            {{0x20, 0x5f}, {0xa1, 0x500}, {0x4e00, 0x1000}, {0x1f300, 0x300}}};
        const auto& [first, count] = kPlanes[generator() % kPlanes.size()];
        characters::append_utf8(text, first + static_cast<char32_t>(generator() % count));
      }
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, {.parse_special = false})), text) << name;
    }
  }
}

// A prompt is refused by its bytes: the bound must hold for what becomes the fewest ids.
TEST(OddInput, NoIdStandsForMoreBytesThanIsSaid) {
  std::vector<std::string> units = {
      " ",          "\n",     "a",     "the ", "\u212a", "\u1100\u1161\u11a8", "\u03b9\u0308\u0301",
      "\U0001d400", "\u2126", "\u0301"};
  for (const std::string name :
       {"added_zoo", "bert", "clip_like", "continuing_prefix", "deepseek", "gpt4o", "llama2",
        "llama2_metaspace", "llama3", "qwen2", "roberta", "t5", "unigram_bytes", "word_level"}) {
    const auto tokenizer = golden(name);
    const auto bound = tokenizer->most_bytes_of_a_token();
    const bool keeps_all = name == "deepseek" || name == "gpt4o" || name == "llama2" ||
                           name == "llama3" || name == "qwen2";
    const bool loses_some = name == "bert" || name == "t5" || name == "word_level";
    EXPECT_TRUE(!keeps_all || bound) << name;
    EXPECT_TRUE(!loses_some || !bound) << name;
    std::vector<std::string> all = units;
    for (std::int32_t id = 0; bound && id < tokenizer->vocab_size(); ++id) {
      all.push_back(tokenizer->piece(id));
    }
    for (const std::string& unit : bound ? all : std::vector<std::string>()) {
      std::string text;
      for (int i = 0; i < 40; ++i) {
        text += unit;
      }
      EXPECT_LE(text.size(), tokenizer->encode(text).size() * *bound) << name << " " << unit;
    }
  }
}

TEST(OddInput, LongRunsAndInvalidBytes) {
  for (const std::string name : {"llama2", "llama3", "bert", "t5", "unigram_bytes", "added_zoo"}) {
    const auto tokenizer = golden(name);
    for (const std::string unit :
         {"a", " ", "\xff", "\xe2\x82", "\xf0\x9f\x91\xa9\xe2\x80\x8d", "\n", "a ", "1"}) {
      std::string text;
      while (text.size() < 256 * 1024) {
        text += unit;
      }
      const auto ids = tokenizer->encode(text);
      EXPECT_EQ(tokenizer->encode(text + "x").empty(), false) << name << " of " << ids.size();
    }
  }
  EXPECT_EQ(golden("llama3")->decode(golden("llama3")->encode("a\xff\xe2\x82")), "a\ufffd\ufffd");
}

TEST(Threads, OneTokenizerServesMany) {
  const auto tokenizer = golden("llama3");
  const std::string text = testing::read_file(testing::golden("prose.txt"));
  const Ids expected = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::vector<Ids> results(4);
  for (Ids& result : results) {
    threads.emplace_back([&] { result = tokenizer->encode(text); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Ids& result : results) {
    EXPECT_EQ(result, expected);
  }
}

}  // namespace
}  // namespace nibble::text
