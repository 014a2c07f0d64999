#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace nibble::io {

/// A sharded model: which tensors lie in which file.
struct SafetensorsIndex {
  struct Shard {
    std::filesystem::path path;
    std::vector<std::string> tensors;
  };
  std::map<std::string, Shard> shards;  // by file name
};

/// Reads "model.safetensors.index.json":
///
///   {"metadata": {...}, "weight_map": {"tensor": "model-00001-of-00002.safetensors", ...}}
///
/// Throws kInvalidModel when it is malformed, a shard's name is not the plain name of a file in the
/// index's own folder, a shard is missing, or a shard is a symbolic link that leaves the folder
/// (links into the blobs of a Hugging Face cache, "../../blobs", are what that cache is made of,
/// and allowed).
SafetensorsIndex load_safetensors_index(const std::filesystem::path& path);

}  // namespace nibble::io
