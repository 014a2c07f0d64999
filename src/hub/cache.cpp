#include "hub/cache.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"
#include "core/json.h"
#include "io/atomic_file.h"
#include "io/file_descriptor.h"
#include "io/json_file.h"
#include "io/text_file.h"

namespace nibble::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxRefBytes = 256;
constexpr std::string_view kModels = "models--";

bool is_there(const fs::path& path) {  // behind links
  std::error_code error;
  return fs::exists(path, error);
}

template <typename IsWanted>
bool has_file(const fs::path& folder, IsWanted is_wanted) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_wanted(entry->path().filename().native()) && is_there(entry->path())) {
      return true;
    }
  }
  return false;
}

bool has_weights(const fs::path& snapshot) {
  const fs::path index = snapshot / "model.safetensors.index.json";
  if (!is_there(index)) {
    return has_file(snapshot,
                    [](const std::string& name) { return name.ends_with(".safetensors"); });
  }
  const core::Json json = io::load_json_file(index);
  const auto map = json.find("weight_map");
  return map != json.end() && map->is_object() &&
         std::all_of(map->begin(), map->end(), [&](const core::Json& file) {
           return file.is_string() && is_there(snapshot / file.get<std::string>());
         });
}

// Of any kind: who fetched the configuration alone has none.
bool has_tokenizer(const fs::path& snapshot) {
  return has_file(snapshot, [](const std::string& name) {
    return name == "tokenizer.json" || name.starts_with("vocab.") || name.ends_with(".model");
  });
}

}  // namespace

CachedModel::CachedModel(const fs::path& cache, const Repository& repository)
    : repository_(repository),
      folder_(cache / repository.folder()),
      locks_(cache / ".locks" / repository.folder()) {}

std::optional<std::string> CachedModel::commit() const {
  if (is_commit(repository_.revision)) {
    return repository_.revision;
  }
  const fs::path ref = folder_ / "refs" / repository_.revision;
  if (!is_there(ref)) {
    return std::nullopt;
  }
  const std::string text = io::read_text_file(ref, kMaxRefBytes);
  const std::string commit = text.substr(0, text.find_last_not_of(" \n") + 1);
  return is_commit(commit) ? std::optional(commit) : std::nullopt;
}

fs::path CachedModel::snapshot(std::string_view commit) const {
  return folder_ / "snapshots" / commit;
}

fs::path CachedModel::blob(std::string_view checksum) const {
  return folder_ / "blobs" / checksum;
}

fs::path CachedModel::lock(std::string_view checksum) const {
  return locks_ / (std::string(checksum) + ".lock");
}

bool CachedModel::has(std::string_view commit, const std::string& file) const {
  return is_there(snapshot(commit) / file);
}

void CachedModel::link(std::string_view commit, const std::string& file,
                       std::string_view checksum) const {
  const fs::path name = snapshot(commit) / file;
  create_folders(name.parent_path());
  fs::path target = "../..";
  for (auto depth = std::count(file.begin(), file.end(), '/'); depth > 0; --depth) {
    target /= "..";
  }
  target = target / "blobs" / checksum;
  // Renamed into place: another process that pulls or opens the model never misses it.
  const fs::path fresh = fs::path(name) += fmt::format(".{}.link", ::getpid());
  std::error_code error;
  fs::remove(fresh, error);  // what a process of this number left when it was killed
  fs::create_symlink(target, fresh, error);
  if (!error) {
    fs::rename(fresh, name, error);
  }
  if (error) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
    io::fail_with_errno("create", name, error.value());
  }
}

void CachedModel::write_ref(std::string_view commit) const {
  if (is_commit(repository_.revision)) {
    return;
  }
  const fs::path ref = folder_ / "refs" / repository_.revision;
  create_folders(ref.parent_path());
  io::write_file_atomically(ref, commit);
}

std::optional<fs::path> find_snapshot(const fs::path& cache, const Repository& repository) {
  const CachedModel model(cache, repository);
  const auto commit = model.commit();
  if (!commit || !model.has(*commit, "config.json")) {
    return std::nullopt;
  }
  const fs::path snapshot = model.snapshot(*commit);
  return has_weights(snapshot) && has_tokenizer(snapshot) ? std::optional(snapshot) : std::nullopt;
}

std::optional<std::string> repository_of(const fs::path& folder) {
  const fs::path path = fs::absolute(folder / ".").lexically_normal().parent_path();
  const fs::path snapshots = path.parent_path();
  const std::string name = snapshots.parent_path().filename().string();
  if (!is_commit(path.filename().native()) || snapshots.filename() != "snapshots" ||
      !name.starts_with(kModels)) {
    return std::nullopt;
  }
  std::string repository = name.substr(kModels.size());
  if (const std::size_t dashes = repository.find("--"); dashes != std::string::npos) {
    repository.replace(dashes, 2, "/");
  }
  return repository;
}

void create_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    io::fail_with_errno("create", folder, error.value());
  }
}

}  // namespace nibble::hub
