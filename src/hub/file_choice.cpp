#include "hub/file_choice.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "core/error.h"

namespace nibble::hub {
namespace {

constexpr std::size_t kMaxNameBytes = 512;
constexpr std::string_view kWeights = ".safetensors";
constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::array<std::string_view, 5> kKept = {".json", ".txt", ".model", ".jinja",
                                                   ".tiktoken"};

bool has_end(const std::vector<std::string>& names, std::string_view end) {
  return std::any_of(names.begin(), names.end(),
                     [end](const std::string& name) { return name.ends_with(end); });
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "model-00001-of-00002.safetensors": shards of the index.
bool is_shard(std::string_view name) {
  return name.starts_with("model-") && name.find("-of-") != std::string_view::npos;
}

// In which form a repository has its weights.
enum class Weights { kOneFile, kShards, kOthers };

Weights weights_of(const std::vector<std::string>& all) {
  if (contains(all, kSingleFile)) {
    return Weights::kOneFile;
  }
  return contains(all, kIndex) ? Weights::kShards : Weights::kOthers;
}

bool is_needed_weight(std::string_view name, Weights weights) {
  if (weights == Weights::kOneFile) {
    return name == kSingleFile;
  }
  return weights == Weights::kOthers || is_shard(name);
}

// "1_Pooling/config.json", "2_Dense/model.safetensors": modules of sentence-transformers.
bool is_module(std::string_view name) {
  const std::size_t slash = name.find('/');
  const std::string_view file = name.substr(slash + 1);
  return name.front() >= '0' && name.front() <= '9' && name.find('_') < slash &&
         (file == "config.json" || file == kSingleFile);
}

bool is_companion(std::string_view name, Weights weights) {
  if (name.starts_with("LICENSE") || name.starts_with("NOTICE")) {
    return true;
  }
  if (name.ends_with(".index.json")) {  // of pickles, and of shards that are not taken
    return name == kIndex && weights == Weights::kShards;
  }
  return std::any_of(kKept.begin(), kKept.end(),
                     [name](std::string_view end) { return name.ends_with(end); });
}

bool is_needed(std::string_view name, Weights weights) {
  if (name.find('/') != std::string_view::npos) {
    return is_module(name);
  }
  return name.ends_with(kWeights) ? is_needed_weight(name, weights) : is_companion(name, weights);
}

[[noreturn]] void refuse(const std::vector<std::string>& all, std::string_view repository) {
  const auto of = [repository] { return core::printable(repository); };
  if (has_end(all, ".gguf")) {
    core::fail(
        core::ErrorKind::kInvalidModel,
        "{} holds no safetensors but GGUF files; name one with --file (nibble pull {} --file "
        "{})",
        of(), of(), core::printable(*std::find_if(all.begin(), all.end(), [](const auto& n) {
          return n.ends_with(".gguf");
        })));
  }
  if (has_end(all, ".bin") || has_end(all, ".pt") || has_end(all, ".pth")) {
    core::fail(core::ErrorKind::kInvalidModel,
               "{} holds no safetensors but pickles, which run code when they are read; convert "
               "them with transformers (save_pretrained)",
               of());
  }
  core::fail(core::ErrorKind::kInvalidModel, "{} holds no safetensors", of());
}

}  // namespace

bool is_safe_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return false;
  }
  for (const unsigned char c : name) {
    if (c < ' ' || c == 0x7f || c == '\\') {
      return false;
    }
  }
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    if (slash == std::string_view::npos) {
      return true;
    }
    name.remove_prefix(slash + 1);
  }
}

std::vector<std::string> needed_files(const std::vector<std::string>& all,
                                      std::string_view repository) {
  const Weights weights = weights_of(all);
  std::vector<std::string> needed;
  std::copy_if(all.begin(), all.end(), std::back_inserter(needed),
               [weights](const std::string& name) { return is_needed(name, weights); });
  const bool found = std::any_of(needed.begin(), needed.end(), [](const std::string& name) {
    return name.find('/') == std::string::npos && name.ends_with(kWeights);
  });
  if (!found) {
    refuse(all, repository);
  }
  return needed;
}

}  // namespace nibble::hub
