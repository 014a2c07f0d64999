#include "text/pretokenize/patterns.h"

#include <array>

namespace nibble::text {
namespace {

// GPT-2's pattern without its last alternative: spaces that nothing else takes stay as they are.
constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kDigits = R"(\p{N}+)";
constexpr std::string_view kUpToThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kThreeAsciiDigits = R"([0-9][0-9][0-9])";

constexpr std::array kGpt2 = {kGpt2Words};
constexpr std::array kDigitsThenGpt2 = {kDigit, kGpt2Words};
constexpr std::array kLlama3 = {kLlama3Pattern};
constexpr std::array kQwen2 = {kQwen2Pattern};

constexpr std::array<std::string_view, 4> kDefault = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Words,
                                                      kDigits, kThreeAsciiDigits};
constexpr std::array<std::string_view, 3> kFalcon = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Words,
                                                     kThreeAsciiDigits};

// CJK ideographs; Samaritan to the end of them; Hangul to the end of its blocks.
constexpr std::string_view kDeepSeekEastAsian =
    R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
constexpr std::array<std::string_view, 5> kDeepSeekCoder = {
    R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekEastAsian, kDigit};

// The letters with case that DeepSeek LLM's own pattern lists.
constexpr std::string_view kDeepSeekCased =
    R"(\s?[A-Za-z)"
    R"(\x{41}-\x{5a}\x{61}-\x{7a}\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf})"
    R"(\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386})"
    R"(\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f})"
    R"(\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba})"
    R"(\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15})"
    R"(\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b})"
    R"(\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4})"
    R"(\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4})"
    R"(\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124})"
    R"(\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f})"
    R"(\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
    R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f})"
    R"(\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17})"
    R"(\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3})"
    R"(\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df})"
    R"(\x{1e900}-\x{1e943})"
    R"(]+)";
constexpr std::array<std::string_view, 6> kDeepSeekLlm = {
    R"([\r\n])",
    kDeepSeekCased,
    R"(\s?[!-\/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)",
    R"(\s+$)",
    kDeepSeekEastAsian,
    kDigits};

constexpr std::array<std::string_view, 3> kDeepSeekV3 = {
    kUpToThreeDigits, R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)",
    R"([!"#$%&'()*+,\-.\/:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::array<std::string_view, 1> kBloom = {
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)"};
constexpr std::array<std::string_view, 2> kViking = {kBloom[0], kDigit};

// Words in which an upper-case run may precede a lower-case one, as in o200k and Tekken.
constexpr std::array<std::string_view, 1> kGpt4o = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n\/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::array<std::string_view, 1> kTekken = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n\/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::array<std::string_view, 1> kQwen35 = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::array<std::string_view, 1> kBailing = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr std::array<std::string_view, 1> kSeedCoder = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+)"
    R"(|\s+(?!\S)|\s+)"};

constexpr std::array kNamedSplits = {
    NamedSplit{.name = "default", .patterns = kDefault},
    NamedSplit{.name = "gpt-2", .patterns = kGpt2},
    NamedSplit{.name = "phi-2", .patterns = kGpt2},
    NamedSplit{.name = "mpt", .patterns = kGpt2},
    NamedSplit{.name = "olmo", .patterns = kGpt2},
    NamedSplit{.name = "jais", .patterns = kGpt2},
    NamedSplit{.name = "trillion", .patterns = kGpt2},
    NamedSplit{.name = "modern-bert", .patterns = kGpt2},
    NamedSplit{.name = "granite-docling", .patterns = kGpt2},
    NamedSplit{.name = "starcoder", .patterns = kDigitsThenGpt2},
    NamedSplit{.name = "refact", .patterns = kDigitsThenGpt2},
    NamedSplit{.name = "command-r", .patterns = kDigitsThenGpt2},
    NamedSplit{.name = "smollm", .patterns = kDigitsThenGpt2},
    NamedSplit{.name = "codeshell", .patterns = kDigitsThenGpt2},
    NamedSplit{.name = "exaone", .patterns = kDigitsThenGpt2},
    NamedSplit{.name = "minerva-7b", .patterns = kDigitsThenGpt2},
    NamedSplit{.name = "falcon", .patterns = kFalcon},
    NamedSplit{.name = "llama-bpe", .patterns = kLlama3, .ignore_merges = true, .adds_bos = true},
    NamedSplit{.name = "llama3", .patterns = kLlama3, .ignore_merges = true, .adds_bos = true},
    NamedSplit{.name = "llama-v3", .patterns = kLlama3, .ignore_merges = true, .adds_bos = true},
    NamedSplit{.name = "falcon3", .patterns = kLlama3, .ignore_merges = true, .adds_bos = true},
    NamedSplit{.name = "falcon-h1", .patterns = kLlama3, .ignore_merges = true, .adds_bos = true},
    NamedSplit{.name = "pixtral", .patterns = kLlama3, .ignore_merges = true, .adds_bos = true},
    NamedSplit{.name = "lfm2", .patterns = kLlama3, .ignore_merges = true, .adds_bos = true},
    NamedSplit{.name = "dbrx", .patterns = kLlama3},
    NamedSplit{.name = "smaug-bpe", .patterns = kLlama3},
    NamedSplit{.name = "chatglm-bpe", .patterns = kLlama3},
    NamedSplit{.name = "glm4", .patterns = kLlama3},
    NamedSplit{.name = "qwen2", .patterns = kQwen2, .nfc = true},
    NamedSplit{.name = "deepseek-r1-qwen", .patterns = kQwen2},
    NamedSplit{.name = "stablelm2", .patterns = kQwen2},
    NamedSplit{.name = "megrez", .patterns = kQwen2},
    NamedSplit{.name = "hunyuan", .patterns = kQwen2},
    NamedSplit{.name = "grok-2", .patterns = kQwen2},
    NamedSplit{.name = "qwen35", .patterns = kQwen35, .nfc = true},
    NamedSplit{.name = "deepseek-coder", .patterns = kDeepSeekCoder},
    NamedSplit{.name = "deepseek-llm", .patterns = kDeepSeekLlm},
    NamedSplit{.name = "deepseek-v3", .patterns = kDeepSeekV3},
    NamedSplit{.name = "hunyuan-dense", .patterns = kDeepSeekV3},
    NamedSplit{.name = "bloom", .patterns = kBloom},
    NamedSplit{.name = "poro-chat", .patterns = kBloom},
    NamedSplit{.name = "gpt3-finnish", .patterns = kBloom},
    NamedSplit{.name = "viking", .patterns = kViking},
    NamedSplit{.name = "tekken", .patterns = kTekken, .ignore_merges = true, .adds_bos = true},
    NamedSplit{.name = "gpt-4o", .patterns = kGpt4o},
    NamedSplit{.name = "llama4", .patterns = kGpt4o},
    NamedSplit{.name = "bailingmoe", .patterns = kBailing},
    NamedSplit{.name = "seed-coder", .patterns = kSeedCoder},
};

}  // namespace

const NamedSplit* find_named_split(std::string_view name) {
  for (const NamedSplit& split : kNamedSplits) {
    if (split.name == name) {
      return &split;
    }
  }
  return nullptr;
}

}  // namespace nibble::text
