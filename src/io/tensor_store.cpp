#include "io/tensor_store.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "io/file_descriptor.h"
#include "io/gguf.h"
#include "io/pickle_refusal.h"
#include "io/safetensors.h"
#include "io/safetensors_index.h"

namespace nibble::io {
namespace {

namespace fs = std::filesystem;

using core::ErrorKind;
using core::printable;
using core::require;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

class SafetensorsStore final : public TensorStore {
 public:
  /// Adds the tensors `names` of a file.
  void add(const std::shared_ptr<const SafetensorsFile>& file,
           const std::vector<std::string>& names) {
    files_.push_back(file);
    for (const std::string& name : names) {
      total_bytes_ += file->entry(name).bytes;
      by_name_.emplace(name, file.get());
      names_.push_back(name);
    }
  }

  std::vector<std::string> names() const override { return names_; }
  bool contains(std::string_view name) const override {
    return by_name_.contains(std::string(name));
  }
  core::Shape shape(std::string_view name) const override { return file(name).entry(name).shape; }
  std::string type_name(std::string_view name) const override {
    return file(name).entry(name).type;
  }
  std::int64_t stored_bytes(std::string_view name) const override {
    return file(name).entry(name).bytes;
  }
  core::Tensor load(std::string_view name) const override { return file(name).tensor(name); }
  core::Tensor load_or_bytes(std::string_view name) const override {
    return file(name).tensor_or_bytes(name);
  }
  void release(std::string_view name) const override { file(name).release(name); }
  std::vector<fs::path> files() const override {
    std::vector<fs::path> paths;
    for (const auto& file : files_) {
      paths.push_back(file->path());
    }
    return paths;
  }
  void check_intact() const override {
    for (const auto& file : files_) {
      file->check_intact();
    }
  }
  void check_unchanged() const override {
    for (const auto& file : files_) {
      file->check_unchanged();
    }
  }
  std::int64_t total_bytes() const override { return total_bytes_; }
  const std::map<std::string, std::string>& metadata() const override {
    return files_.front()->metadata();
  }

 private:
  // The first file says in its own words that a tensor is in none of them.
  const SafetensorsFile& file(std::string_view name) const {
    const auto at = by_name_.find(std::string(name));
    require(at != by_name_.end() || files_.size() == 1, ErrorKind::kInvalidModel,
            "the model's {} files hold no tensor '{}'", files_.size(), printable(name));
    return at == by_name_.end() ? *files_.front() : *at->second;
  }

  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, const SafetensorsFile*> by_name_;
  std::int64_t total_bytes_ = 0;
};

class GgufStore final : public TensorStore {
 public:
  explicit GgufStore(std::shared_ptr<const GgufFile> file) : file_(std::move(file)) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const GgufTensor& tensor : file_->tensors()) {
      names.push_back(tensor.name);
    }
    return names;
  }
  bool contains(std::string_view name) const override { return file_->contains(name); }
  core::Shape shape(std::string_view name) const override { return file_->entry(name).shape; }
  std::string type_name(std::string_view name) const override {
    return std::string(file_->entry(name).type->name);
  }
  std::int64_t stored_bytes(std::string_view name) const override {
    return file_->entry(name).bytes;
  }
  core::Tensor load(std::string_view name) const override { return file_->tensor(name); }
  void release(std::string_view name) const override { file_->release(name); }
  std::vector<fs::path> files() const override { return {file_->path()}; }
  void check_intact() const override { file_->check_intact(); }
  void check_unchanged() const override { file_->check_unchanged(); }
  std::int64_t total_bytes() const override { return file_->data_bytes(); }
  const std::map<std::string, std::string>& metadata() const override { return no_metadata_; }
  const GgufFile* gguf() const override { return file_.get(); }

 private:
  std::shared_ptr<const GgufFile> file_;
  std::map<std::string, std::string> no_metadata_;
};

std::shared_ptr<TensorStore> open_safetensors(const fs::path& path) {
  auto store = std::make_shared<SafetensorsStore>();
  const auto file = SafetensorsFile::open(path);
  store->add(file, file->names());
  return store;
}

std::shared_ptr<TensorStore> open_shards(const fs::path& index_path) {
  const SafetensorsIndex index = load_safetensors_index(index_path);
  auto store = std::make_shared<SafetensorsStore>();
  for (const auto& [shard_name, shard] : index.shards) {
    const auto file = SafetensorsFile::open(shard.path);
    for (const std::string& name : shard.tensors) {
      require(file->contains(name), ErrorKind::kInvalidModel,
              "{}: 'weight_map' places tensor '{}' in '{}', which does not hold it",
              shown(index_path), printable(name), printable(shard_name));
    }
    std::vector<std::string> names = file->names();  // in the order of their bytes
    const std::set<std::string_view> listed(shard.tensors.begin(), shard.tensors.end());
    std::erase_if(names, [&](const std::string& name) { return !listed.contains(name); });
    store->add(file, names);
  }
  return store;
}

std::shared_ptr<TensorStore> open_gguf(const fs::path& path) {
  auto file = GgufFile::open(path);
  const auto splits = file->metadata().find_integer("split.count", 0, 65535);
  require(splits.value_or(0) <= 1, ErrorKind::kInvalidModel,
          "{}: this is one of {} pieces of a model; join them first (llama-gguf-split --merge)",
          shown(path), splits.value_or(0));
  return std::make_shared<GgufStore>(std::move(file));
}

std::shared_ptr<TensorStore> open_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kSingleFile, error)) {
    return open_safetensors(folder / kSingleFile);
  }
  if (fs::exists(folder / kIndexFile, error)) {
    return open_shards(folder / kIndexFile);
  }
  refuse_pickles_in(folder);
  core::fail(ErrorKind::kIo, "'{}' holds neither {} nor {}; name the model's file if it is another",
             shown(folder), kSingleFile, kIndexFile);
}

}  // namespace

std::shared_ptr<TensorStore> TensorStore::open(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return open_folder(path);
  }
  if (path.extension() == ".safetensors") {
    return open_safetensors(path);
  }
  if (path.extension() == ".gguf") {
    return open_gguf(path);
  }
  refuse_pickle(path);
  open_regular_file(path);  // says what is wrong with a file that cannot be opened at all
  core::fail(ErrorKind::kInvalidModel,
             "'{}' is neither a model folder nor a .safetensors or .gguf file", shown(path));
}

}  // namespace nibble::io
