#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/text_hash.h"
#include "text/load/tokenizer_config.h"

namespace nibble::text {
namespace {

using core::ErrorKind;

// Control tokens that end a turn or a text, by the families that use them.
constexpr std::array<std::string_view, 19> kEndNames = {
    "<|endoftext|>",                            // GPT-2, Qwen, Phi
    "</s>",                                     // Llama 1 and 2, Mistral
    "<|end_of_text|>",                          // Llama 3
    "<|eot_id|>",                               // Llama 3
    "<|eom_id|>",                               // Llama 3 with tools
    "<|eot|>",                                  // Llama 4
    "<|im_end|>",                               // ChatML: Qwen, SmolLM
    "<|end|>",                                  // Phi 3
    "<end_of_turn>",                            // Gemma
    "<eos>",                                    // Gemma
    "<|end_of_turn|>",                          // OpenChat
    "<|endofturn|>",                            // HyperCLOVA
    "<|return|>",                               // gpt-oss
    "<|call|>",                                 // gpt-oss
    "<|END_OF_TURN_TOKEN|>",                    // Command R
    "<EOT>",                                    // CodeLlama
    "[EOS]",                                    // Kimi
    "[EOT]",                                    // Kimi
    "<\uff5cend\u2581of\u2581sentence\uff5c>",  // DeepSeek
};

std::string_view config_class_name(std::string_view name) {
  return name.ends_with("Fast") ? name.substr(0, name.size() - 4) : name;
}

// These classes of transformers put BOS before a text unless told otherwise.
bool class_adds_bos(std::string_view name) {
  const std::string_view base = config_class_name(name);
  return base == "LlamaTokenizer" || base == "CodeLlamaTokenizer" || base == "GemmaTokenizer" ||
         base == "CohereTokenizer";
}

std::optional<std::int32_t> checked_id(std::optional<std::int64_t> id,
                                       const TokenizerParts& parts) {
  return id && *id < parts.vocab_size() ? std::optional(static_cast<std::int32_t>(*id))
                                        : std::nullopt;
}

std::optional<std::int32_t> resolve(const TokenizerParts& parts,
                                    const std::optional<std::string>& name) {
  return name ? parts.id_of(*name) : std::nullopt;
}

// In the harmony format of gpt-oss, <|end|> only ends a message.
bool end_is_no_end(const TokenizerParts& parts) {
  return parts.id_of("<|return|>") && parts.id_of("<|call|>");
}

std::vector<AddedToken> merge_flags(std::vector<AddedToken> tokens, const TokenizerConfig& config,
                                    std::string_view what) {
  std::unordered_map<std::string_view, std::size_t, core::TextHash> known;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    known.emplace(tokens[i].content, i);
  }
  std::vector<AddedToken> fresh;
  for (const AddedToken& token : config.added) {
    const auto found = known.find(token.content);
    if (found == known.end()) {
      fresh.push_back(token);
      continue;
    }
    core::require(tokens[found->second].id == token.id, ErrorKind::kInvalidModel,
                  "{}: the added token '{}' has the id {}, but {} in added_tokens_decoder", what,
                  core::printable(token.content), tokens[found->second].id, token.id);
    tokens[found->second] = token;
  }
  tokens.insert(tokens.end(), fresh.begin(), fresh.end());
  return tokens;
}

void add_named(std::vector<AddedToken>& tokens, const TokenizerConfig& config,
               const TokenTable& vocabulary) {
  std::vector<std::string> names = config.additional_special;
  for (const auto* name : {&config.bos, &config.eos, &config.pad, &config.unk, &config.sep,
                           &config.cls, &config.mask}) {
    if (*name) {
      names.push_back(**name);
    }
  }
  std::unordered_set<std::string, core::TextHash, std::equal_to<>> contents;
  std::unordered_set<std::int32_t> ids;
  for (const AddedToken& token : tokens) {
    contents.insert(token.content);
    ids.insert(token.id);
  }
  for (const std::string& name : names) {
    const auto id = vocabulary.id_of(name);
    if (id && !name.empty() && !ids.contains(*id) && contents.insert(name).second) {
      ids.insert(*id);
      AddedToken token;
      token.content = name;
      token.id = *id;
      token.special = true;
      tokens.push_back(std::move(token));
    }
  }
}

}  // namespace

std::vector<AddedToken> collect_added_tokens(std::vector<AddedToken> from_file,
                                             const TokenizerConfig& config,
                                             const TokenTable& vocabulary, std::string_view what) {
  std::vector<AddedToken> tokens = merge_flags(std::move(from_file), config, what);
  add_named(tokens, config, vocabulary);
  std::int64_t count = vocabulary.count();
  std::int64_t max_id = vocabulary.size() - 1;
  for (const AddedToken& token : tokens) {
    const auto in_vocabulary = vocabulary.id_of(token.content);
    core::require(!in_vocabulary || *in_vocabulary == token.id, ErrorKind::kInvalidModel,
                  "{}: the added token '{}' has the id {}, but {} in the vocabulary", what,
                  core::printable(token.content), token.id, in_vocabulary.value_or(0));
    const bool taken = vocabulary.has(token.id) && vocabulary.token(token.id) != token.content;
    core::require(!taken, ErrorKind::kInvalidModel,
                  "{}: the id {} of the added token '{}' belongs to another", what, token.id,
                  core::printable(token.content));
    count += vocabulary.has(token.id) ? 0 : 1;
    max_id = std::max(max_id, std::int64_t{token.id});
  }
  require_dense(count, max_id, what);
  return tokens;
}

void set_bos(TokenizerParts& parts, std::optional<bool> adds, std::string_view what) {
  const auto bos = parts.special.bos;
  Frame& single = parts.frames.single;
  const bool there = bos && !single.before.empty() && single.before.front().id == *bos;
  if (!adds || *adds == there) {
    return;
  }
  if (*adds) {
    core::require(bos.has_value(), ErrorKind::kInvalidModel,
                  "{}: add_bos_token is true, but there is no such token: name it as bos_token",
                  what);
    single.before.insert(single.before.begin(), {*bos});
  } else {
    single.before.erase(single.before.begin());
  }
  parts.frames.pair = frame_twice(single);
}

void set_eos(TokenizerParts& parts, std::optional<bool> adds, std::string_view what) {
  const auto eos = parts.special.eos;
  Frame& single = parts.frames.single;
  const bool there = eos && !single.behind.empty() && single.behind.back().id == *eos;
  if (!adds || *adds == there) {
    return;
  }
  if (*adds) {
    core::require(eos.has_value(), ErrorKind::kInvalidModel,
                  "{}: add_eos_token is true, but there is no such token: name it as eos_token",
                  what);
    single.behind.push_back({*eos});
  } else {
    single.behind.pop_back();
  }
  parts.frames.pair = frame_twice(single);
}

Frames cls_sep_frames(std::optional<std::int32_t> cls, std::optional<std::int32_t> sep,
                      PairForm form) {
  Frame single;
  if (cls) {
    single.before = {{*cls}};
  }
  if (sep) {
    single.behind = {{*sep}};
  }
  Frame pair = single;
  pair.between = single.behind;
  if (form == PairForm::kRoberta) {
    pair.between.insert(pair.between.end(), single.behind.begin(), single.behind.end());
    pair.second_type = 0;
  } else {
    for (FrameToken& token : pair.behind) {
      token.type = 1;
    }
  }
  return {single, pair};
}

void set_cls_sep_frames(TokenizerParts& parts, const TokenizerConfig& config, PairForm form) {
  parts.frames = cls_sep_frames(resolve(parts, config.cls), resolve(parts, config.sep), form);
}

void complete_end_tokens(TokenizerParts& parts) {
  auto& ends = parts.special.ends;
  if (parts.special.eos) {
    ends.push_back(*parts.special.eos);
  }
  for (const std::string_view name : kEndNames) {
    const auto id = parts.added.id_of(name);
    if (id && !(name == "<|end|>" && end_is_no_end(parts))) {
      ends.push_back(*id);
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

void apply_config(TokenizerParts& parts, const TokenizerConfig& config, std::string_view what) {
  SpecialIds& special = parts.special;
  const auto choose = [&](std::optional<std::int32_t>& id, const std::optional<std::string>& name) {
    if (const auto found = resolve(parts, name)) {
      id = found;
    }
  };
  choose(special.bos, config.bos);
  choose(special.eos, config.eos);
  choose(special.pad, config.pad);
  choose(special.unk, config.unk);
  choose(special.sep, config.sep);
  choose(special.cls, config.cls);
  choose(special.mask, config.mask);
  special.bos = special.bos ? special.bos : checked_id(config.bos_id, parts);
  special.pad = special.pad ? special.pad : checked_id(config.pad_id, parts);
  for (const std::int64_t id : config.end_ids) {
    if (const auto end = checked_id(id, parts)) {
      special.ends.push_back(*end);
      special.eos = special.eos ? special.eos : end;
    }
  }
  const bool by_class = class_adds_bos(config.tokenizer_class) && special.bos;
  set_bos(parts, config.add_bos ? config.add_bos : (by_class ? std::optional(true) : std::nullopt),
          what);
  set_eos(parts, config.add_eos, what);
  complete_end_tokens(parts);
  parts.longest_input = config.longest_input;
  parts.truncates_left = config.truncates_left;
  if (!config.chat_template.empty()) {
    parts.chat_template = config.chat_template;
  }
}

}  // namespace nibble::text
