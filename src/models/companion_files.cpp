#include "models/companion_files.h"

#include <algorithm>
#include <cctype>

#include "io/atomic_file.h"

namespace nibble::models {
namespace {

// Weights, which are replaced, their layouts, configurations of them, and the model card.
bool replaced(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  return name == "config.json" || name == "quantize_config.json" || name == "quant_config.json" ||
         is_model_card(name) || ends(".safetensors") || ends(".safetensors.index.json") ||
         ends(".bin") || ends(".pt") || ends(".pth") || ends(".gguf") || ends(".nibble") ||
         name.starts_with(".");
}

// A folder of sentence-transformers' modules.json: "1_Pooling".
bool is_module(const std::filesystem::directory_entry& entry) {
  return entry.is_directory() && std::filesystem::exists(entry.path() / "config.json") &&
         std::filesystem::exists(entry.path().parent_path() / "modules.json");
}

}  // namespace

bool is_model_card(std::string_view name) {
  return std::equal(
      name.begin(), name.end(), kModelCardFile.begin(), kModelCardFile.end(),
      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

void copy_companions(const Model& model, const std::filesystem::path& folder) {
  for (const auto& [name, text] : model.companions) {
    io::write_file_atomically(folder / name, text);
  }
  if (!std::filesystem::is_directory(model.path)) {
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(model.path)) {
    if (entry.is_regular_file() && !replaced(entry.path())) {
      std::filesystem::copy_file(entry.path(), folder / entry.path().filename(),
                                 std::filesystem::copy_options::overwrite_existing);
    } else if (is_module(entry)) {
      const std::filesystem::path target = folder / entry.path().filename();
      std::filesystem::create_directory(target);
      std::filesystem::copy_file(entry.path() / "config.json", target / "config.json",
                                 std::filesystem::copy_options::overwrite_existing);
    }
  }
}

}  // namespace nibble::models
