#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "models/model.h"

namespace nibble::models {

/// A new folder of a Hugging Face model: safetensors, an index, config.json and what lies beside
/// them. It appears under its name on commit(), and nothing of it stays without.
class HfFolder {
 public:
  /// `shards`: files of weights that will be written. Throws kIo where `target` exists.
  HfFolder(const std::filesystem::path& target, std::int64_t shards);
  ~HfFolder();
  HfFolder(const HfFolder&) = delete;
  HfFolder& operator=(const HfFolder&) = delete;

  void write_shard(const std::vector<io::NamedTensor>& tensors);
  void write_json(std::string_view name, const core::Json& json);
  /// After all shards.
  void commit(const Model& model);

 private:
  io::AtomicFolder folder_;
  std::int64_t shards_;
  std::int64_t written_ = 0;
  std::int64_t bytes_ = 0;
  core::Json weight_map_ = core::Json::object();
  bool committed_ = false;
};

}  // namespace nibble::models
