#include "models/exchange/hf_folder.h"

#include <fmt/format.h>

#include "models/companion_files.h"

namespace nibble::models {

HfFolder::HfFolder(const std::filesystem::path& target, std::int64_t shards)
    : folder_(io::AtomicFolder::create(target)), shards_(shards) {}

HfFolder::~HfFolder() {
  try {
    if (!committed_) {
      folder_.discard();
    }
  } catch (const core::Error&) {  // it stays hidden; the next one removes it
  }
}

void HfFolder::write_shard(const std::vector<io::NamedTensor>& tensors) {
  const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", ++written_, shards_);
  io::write_safetensors(folder_.path() / name, tensors, {{"format", "pt"}});
  for (const io::NamedTensor& tensor : tensors) {
    weight_map_[tensor.name] = name;
    bytes_ += tensor.tensor.bytes();
  }
}

void HfFolder::write_json(std::string_view name, const core::Json& json) {
  io::write_file_atomically(folder_.path() / name, json.dump(2) + "\n");
}

void HfFolder::commit(const Model& model) {
  write_json("model.safetensors.index.json",
             {{"metadata", {{"total_size", bytes_}}}, {"weight_map", weight_map_}});
  copy_companions(model, folder_.path());
  committed_ = true;
  folder_.commit();
}

}  // namespace nibble::models
