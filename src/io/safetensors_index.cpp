#include "io/safetensors_index.h"

#include <system_error>

#include "core/error.h"
#include "core/json.h"
#include "io/file_descriptor.h"
#include "io/json_file.h"

namespace nibble::io {
namespace {

namespace fs = std::filesystem;

using core::ErrorKind;
using core::printable;
using core::require;

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
}

// A Hugging Face cache keeps a model as snapshots/<revision>/<file>, each a link to a file of
// blobs/ beside snapshots/.
bool is_hub_cache_blob(const fs::path& folder, const fs::path& file) {
  const fs::path snapshots = folder.parent_path();
  return snapshots.filename() == "snapshots" && file.parent_path().filename() == "blobs" &&
         file.parent_path().parent_path() == snapshots.parent_path();
}

fs::path find_shard(const fs::path& folder, const std::string& name, const std::string& what) {
  require(is_plain_file_name(name), ErrorKind::kInvalidModel,
          "{}: the shard '{}' is not the name of a file beside the index", what, printable(name));
  std::error_code error;
  const fs::path path = folder / name;
  const fs::path real = fs::canonical(path, error);  // follows links; fails on a circle of them
  require(!error, ErrorKind::kInvalidModel, "{}: the shard '{}' cannot be opened: {}", what,
          printable(name), core::lazily([&] { return error.message(); }));
  require(real.parent_path() == folder || is_hub_cache_blob(folder, real), ErrorKind::kInvalidModel,
          "{}: the shard '{}' is a link that leaves the model's folder", what, printable(name));
  return path;
}

}  // namespace

SafetensorsIndex load_safetensors_index(const fs::path& path) {
  const core::Json json = load_json_file(path);
  const std::string what = shown(path);
  require(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object() &&
              !json["weight_map"].empty(),
          ErrorKind::kInvalidModel, "{}: 'weight_map' must be an object that names the shards",
          what);
  std::error_code error;
  const fs::path folder = fs::canonical(fs::absolute(path).parent_path(), error);
  require(!error, ErrorKind::kIo, "cannot open the folder of '{}': {}", what,
          core::lazily([&] { return error.message(); }));
  SafetensorsIndex index;
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    require(shard.is_string(), ErrorKind::kInvalidModel,
            "{}: the shard of '{}' in 'weight_map' must be a string", what, printable(tensor));
    const auto& name = shard.get_ref<const std::string&>();
    const auto [at, added] = index.shards.try_emplace(name);
    if (added) {
      at->second.path = find_shard(folder, name, what);
    }
    at->second.tensors.push_back(tensor);
  }
  return index;
}

}  // namespace nibble::io
