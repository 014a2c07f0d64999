#include <memory>
#include <utility>

#include <fmt/format.h>

#include "characters/utf8.h"
#include "core/json.h"
#include "scaling/scaling_case.h"
#include "text/decode/decoder.h"
#include "text/normalize/normalizer.h"
#include "text/pretokenize/patterns.h"
#include "text/pretokenize/pre_tokenizer.h"
#include "text/stream_decoder.h"
#include "text/test_data.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace nibble::scaling {
namespace {

using core::Json;
using TokenizerPtr = std::shared_ptr<const text::Tokenizer>;

// Some copies of it stay in the caches of a core: growth beyond them says nothing of the algorithm.
constexpr std::size_t kMostText = std::size_t{1} << 17;
constexpr std::size_t kLongestToken = 1024;

Json pattern(std::string_view kind, std::string_view text) {
  return {{std::string(kind), std::string(text)}};
}

std::vector<Json> normalizers() {
  const std::string long_start = std::string(kLongestToken - 1, 'a') + "b";
  std::vector<Json> all;
  for (const char* type :
       {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"}) {
    all.push_back({{"type", type}});
  }
  all.push_back({{"type", "BertNormalizer"},
                 {"clean_text", true},
                 {"handle_chinese_chars", true},
                 {"strip_accents", true},
                 {"lowercase", true}});
  all.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  all.push_back({{"type", "Prepend"}, {"prepend", "_"}});
  for (const Json& found : {pattern("String", " "), pattern("String", long_start),
                            pattern("Regex", " {2,}"), pattern("Regex", R"(\s+$)")}) {
    all.push_back({{"type", "Replace"}, {"pattern", found}, {"content", "__"}});
  }
  return all;
}

std::vector<Json> pre_tokenizers() {
  std::vector<Json> all;
  for (const char* type : {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}) {
    all.push_back({{"type", type}});
  }
  all.push_back({{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}});
  all.push_back({{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}});
  all.push_back({{"type", "Digits"}, {"individual_digits", false}});
  for (const char* behavior :
       {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}) {
    all.push_back({{"type", "Punctuation"}, {"behavior", behavior}});
    all.push_back({{"type", "Split"},
                   {"pattern", pattern("String", "a")},
                   {"behavior", behavior},
                   {"invert", false}});
  }
  for (const char* expression : {R"(\s+$)", R"(\w+|[^\w\s]+)"}) {
    all.push_back({{"type", "Split"},
                   {"pattern", pattern("Regex", expression)},
                   {"behavior", "Isolated"},
                   {"invert", true}});
  }
  return all;
}

Json sequence(std::vector<Json> decoders) {
  return {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
}

std::vector<Json> decoders() {
  const Json fuse = {{"type", "Fuse"}};
  const Json replace = {{"type", "Replace"}, {"pattern", pattern("String", " ")}, {"content", "_"}};
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1000000}, {"stop", 1000000}};
  return {
      {{"type", "ByteLevel"}},
      {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}},
      {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}},
      {{"type", "ByteFallback"}},
      strip,
      replace,
      sequence({fuse, strip}),
      sequence({fuse, replace, fuse, {{"type", "WordPiece"}, {"prefix", ""}, {"cleanup", true}}}),
      Json()};
}

std::string short_name(const Json& part) {
  const std::string text = part.dump(-1, ' ', true);
  return text.size() > 90 ? text.substr(0, 87) + "..." : text;
}

// A case for each bad text; `use` makes the work from the text.
template <typename Use>
void add_for_texts(Cases& cases, const std::string& path, Use use) {
  for (const TextKind& kind : bad_texts()) {
    cases.push_back({fmt::format("{}: {}", path, kind.name),
                     [use, make = kind.make](std::size_t size) { return use(make(size)); },
                     kMostText});
  }
}

void add_normalizers(Cases& cases) {
  for (const Json& json : normalizers()) {
    std::shared_ptr<const text::Normalizer> normalizer = text::normalizer_from_json(json, "probe");
    add_for_texts(cases, "normalizer " + short_name(json), [normalizer](const std::string& text) {
      return [normalizer, text = characters::to_valid_utf8(text)] { normalizer->apply(text, {}); };
    });
  }
}

void add_pre_tokenizer(Cases& cases, const std::string& name, text::PreTokenizerPtr made) {
  const std::shared_ptr<const text::PreTokenizer> pre_tokenizer = std::move(made);
  add_for_texts(cases, "pre-tokenizer " + name, [pre_tokenizer](const std::string& text) {
    return [pre_tokenizer, text = characters::to_valid_utf8(text)] {
      text::Words words;
      words.text = text;
      words.spans = {{0, text.size()}};
      pre_tokenizer->apply(words);
    };
  });
}

void add_pre_tokenizers(Cases& cases) {
  for (const Json& json : pre_tokenizers()) {
    add_pre_tokenizer(cases, short_name(json), text::pre_tokenizer_from_json(json, "probe"));
  }
  for (const char* name : {"default", "gpt-2", "starcoder", "falcon", "llama3", "qwen2", "qwen35",
                           "deepseek-coder", "deepseek-llm", "deepseek-v3", "bloom", "viking",
                           "tekken", "gpt-4o", "bailingmoe", "seed-coder"}) {
    std::vector<text::PreTokenizerPtr> steps;
    for (const std::string_view pattern : text::find_named_split(name)->patterns) {
      steps.push_back(
          text::make_split_regex(pattern, text::SplitBehavior::kIsolated, false, "probe"));
    }
    add_pre_tokenizer(cases, name, text::make_pre_tokenizer_sequence(std::move(steps)));
  }
}

void add_decoders(Cases& cases) {
  for (const Json& json : decoders()) {
    const auto decoder =
        std::make_shared<const text::Decoder>(text::decode_stages_from_json(json, "probe"));
    for (const std::string token : {" ", "a", "<0xE2>", "<0x20>", "\u2581", "##a", " n't"}) {
      cases.push_back({fmt::format("decoder {}: tokens '{}'", short_name(json), token),
                       [decoder, token](std::size_t size) {
                         return [decoder, token, size] {
                           text::Decoder::Run run(*decoder);
                           for (std::size_t i = 0; i < size; ++i) {
                             run.push(token);
                           }
                           run.finish();
                           run.take();
                         };
                       },
                       std::size_t{1} << 17});
    }
  }
}

void add_tokenizer(Cases& cases, const std::string& name, const TokenizerPtr& tokenizer) {
  add_for_texts(cases, "tokenizer " + name, [tokenizer](const std::string& text) {
    return [tokenizer, text] { (void)tokenizer->encode(text, {.add_special = true}); };
  });
  cases.push_back({fmt::format("detokenizer {}: all tokens in turn", name),
                   [tokenizer](std::size_t size) {
                     std::vector<std::int32_t> ids(size);
                     for (std::size_t i = 0; i < size; ++i) {
                       ids[i] = static_cast<std::int32_t>(
                           i * 7 % static_cast<std::size_t>(tokenizer->vocab_size()));
                     }
                     return [tokenizer, ids] {
                       (void)tokenizer->decode(ids, false);
                       text::StreamDecoder decoder(tokenizer, false);
                       for (const std::int32_t id : ids) {
                         (void)decoder.push(id);
                       }
                       (void)decoder.flush();
                     };
                   },
                   std::size_t{1} << 17});
}

std::vector<std::string> runs_of_letters() {
  std::vector<std::string> runs;
  for (std::size_t length = 1; length <= kLongestToken; length *= 2) {
    runs.push_back(std::string(length, 'a'));
  }
  return runs;
}

Json tokenizer_json(const Json& model, const Json& added = Json::array()) {
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", model}};
}

// Merges runs of letters into longer ones; everything else is unknown.
Json merging_bpe() {
  Json vocabulary = {{"?", 0}};
  Json merges = Json::array();
  const auto runs = runs_of_letters();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    vocabulary[runs[i]] = i + 1;
    if (i > 0) {
      merges.push_back({runs[i - 1], runs[i - 1]});
    }
  }
  return tokenizer_json({{"type", "BPE"},
                         {"unk_token", "?"},
                         {"fuse_unk", true},
                         {"vocab", vocabulary},
                         {"merges", merges}});
}

// A token for every length of a run of letters.
Json long_unigram() {
  Json vocabulary = Json::array({{"?", 0.0}});
  for (std::size_t length = 1; length <= 128; ++length) {
    vocabulary.push_back({std::string(length, 'a'), -1.0});
  }
  return tokenizer_json({{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocabulary}});
}

Json endless_word_piece() {
  Json vocabulary = {{"?", 0}, {"a", 1}};
  vocabulary["##" + std::string(kLongestToken - 3, 'a') + "b"] = 2;
  vocabulary["##a"] = 3;
  return tokenizer_json({{"type", "WordPiece"},
                         {"unk_token", "?"},
                         {"continuing_subword_prefix", "##"},
                         {"max_input_chars_per_word", INT64_MAX},
                         {"vocab", vocabulary}});
}

// Added tokens of white space that take all white space around them.
Json greedy_added_tokens() {
  const Json model = merging_bpe()["model"];
  Json added = Json::array();
  const auto add = [&](const char* content, bool left, bool right) {
    added.push_back({{"id", model["vocab"].size() + added.size()},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", left},
                     {"rstrip", right},
                     {"normalized", false},
                     {"special", false}});
  };
  add(" ", true, true);
  add("\n", true, false);
  add("\t", false, true);
  add("<s>", true, true);
  return tokenizer_json(model, added);
}

TokenizerPtr sentencepiece_bpe() {
  text::Vocabulary vocabulary;
  vocabulary.model = "llama";
  const auto add = [&](const std::string& token, float score, std::int32_t type) {
    vocabulary.tokens.push_back(token);
    vocabulary.scores.push_back(score);
    vocabulary.token_types.push_back(type);
  };
  constexpr std::int32_t kNormal = 1;
  constexpr std::int32_t kUnknown = 2;
  constexpr std::int32_t kUserDefined = 4;
  constexpr std::int32_t kUnused = 5;
  add("<unk>", 0, kUnknown);
  add("\u2581", -1, kNormal);
  add("\u2581\u2581", -2, kUnused);
  add("!", -1, kUserDefined);
  float score = 0;
  for (const std::string& run : runs_of_letters()) {
    add(run, score, run.size() % 3 == 1 ? kUnused : kNormal);
    score -= 1;
  }
  return text::Tokenizer::from_vocabulary(vocabulary);
}

}  // namespace

void add_tokenizer_cases(Cases& cases) {
  add_normalizers(cases);
  add_pre_tokenizers(cases);
  add_decoders(cases);
  const auto from_json = [](const Json& json) {
    return text::Tokenizer::from_json(json.dump(), "", "probe");
  };
  add_tokenizer(cases, "BPE", from_json(merging_bpe()));
  add_tokenizer(cases, "unigram", from_json(long_unigram()));
  add_tokenizer(cases, "WordPiece", from_json(endless_word_piece()));
  add_tokenizer(cases, "SentencePiece BPE", sentencepiece_bpe());
  add_tokenizer(cases, "greedy added tokens", from_json(greedy_added_tokens()));
  for (const char* name : {"bert", "clip_like", "deepseek", "gpt4o", "llama2", "llama2_metaspace",
                           "llama3", "qwen2", "roberta", "t5", "unigram_bytes", "word_level"}) {
    const auto file = text::testing::golden(fmt::format("tokenizers/{}.json", name));
    add_tokenizer(cases, name,
                  text::Tokenizer::from_json(text::testing::read_file(file), "", "probe"));
  }
}

}  // namespace nibble::scaling
