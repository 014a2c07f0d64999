#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "core/json.h"
#include "text/load/loaders.h"
#include "text/tokenizer.h"

namespace nibble::text {
namespace {

using core::ErrorKind;
namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{1} << 28;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string read_file(const fs::path& path) {
  const std::string name = core::printable(path.string());
  std::error_code error;
  core::require(fs::is_regular_file(path, error), ErrorKind::kIo, "{}: not a regular file", name);
  const std::uintmax_t size = fs::file_size(path, error);
  core::require(!error, ErrorKind::kIo, "{}: {}", name,
                core::lazily([&] { return error.message(); }));
  core::require(size <= kMaxFileBytes, ErrorKind::kInvalidModel, "{}: {} bytes, more than {}", name,
                size, kMaxFileBytes);
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(static_cast<std::size_t>(size), '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  core::require(stream.good() || (size == 0 && stream.is_open()), ErrorKind::kIo,
                "{}: cannot be read: {}", name, std::strerror(errno));
  return bytes;
}

TokenizerConfig read_config(const fs::path& folder) {
  const auto content = [&](const char* name) { return read_file(folder / name); };
  TokenizerConfig config;
  if (is_there(folder / "tokenizer_config.json")) {
    config = read_tokenizer_config(content("tokenizer_config.json"), "tokenizer_config.json");
  }
  if (is_there(folder / "special_tokens_map.json")) {
    merge_special_tokens_map(config, content("special_tokens_map.json"), "special_tokens_map.json");
  }
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (is_there(folder / name)) {
      merge_generation_ids(config, content(name), name);
    }
  }
  if (is_there(folder / "chat_template.jinja")) {
    config.chat_template = content("chat_template.jinja");
  }
  return config;
}

TokenizerParts load_folder(const fs::path& folder) {
  const TokenizerConfig config = read_config(folder);
  const auto content = [&](const char* name) { return read_file(folder / name); };
  if (is_there(folder / "tokenizer.json")) {
    return load_tokenizer_json(content("tokenizer.json"), config, "tokenizer.json");
  }
  if (is_there(folder / "tokenizer.model")) {
    return load_sentencepiece(content("tokenizer.model"), config, "tokenizer.model");
  }
  if (is_there(folder / "vocab.json") && is_there(folder / "merges.txt")) {
    return load_vocab_and_merges(content("vocab.json"), content("merges.txt"), config,
                                 "vocab.json/merges.txt");
  }
  if (is_there(folder / "encoder.json") &&
      is_there(folder / "vocab.bpe")) {  // OpenAI's names for the same
    return load_vocab_and_merges(content("encoder.json"), content("vocab.bpe"), config,
                                 "encoder.json/vocab.bpe");
  }
  if (is_there(folder / "vocab.txt")) {
    return load_vocab_txt(content("vocab.txt"), config, "vocab.txt");
  }
  core::fail(ErrorKind::kIo,
             "{}: no tokenizer: put tokenizer.json, tokenizer.model, vocab.json with merges.txt, "
             "or vocab.txt there",
             core::printable(folder.string()));
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::from_folder(const fs::path& folder) {
  return std::make_shared<const Tokenizer>(load_folder(folder));
}

std::shared_ptr<const Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json,
                                                      std::string_view config_json,
                                                      std::string_view what) {
  const TokenizerConfig config = read_tokenizer_config(config_json, "tokenizer_config.json");
  return std::make_shared<const Tokenizer>(load_tokenizer_json(tokenizer_json, config, what));
}

std::shared_ptr<const Tokenizer> Tokenizer::from_sentencepiece(std::string_view model_bytes,
                                                               std::string_view config_json,
                                                               std::string_view what) {
  const TokenizerConfig config = read_tokenizer_config(config_json, "tokenizer_config.json");
  return std::make_shared<const Tokenizer>(load_sentencepiece(model_bytes, config, what));
}

std::shared_ptr<const Tokenizer> Tokenizer::from_vocabulary(const Vocabulary& vocabulary) {
  return std::make_shared<const Tokenizer>(load_gguf_vocabulary(vocabulary));
}

}  // namespace nibble::text
