#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "hub/repository.h"

namespace nibble::hub {

/// The folder of one model in the hub's cache, laid out as huggingface_hub has it:
///
///     models--ORG--NAME/blobs/CHECKSUM                the bytes of each file
///                       blobs/CHECKSUM.incomplete     those of one that is under way
///                       refs/main                     the commit of a branch
///                       snapshots/COMMIT/config.json  link to ../../blobs/CHECKSUM
///     .locks/models--ORG--NAME/CHECKSUM.lock          flock() of who downloads it
class CachedModel {
 public:
  CachedModel(const std::filesystem::path& cache, const Repository& repository);

  /// The commit that the cache knows for the revision; nullopt: none.
  std::optional<std::string> commit() const;

  std::filesystem::path snapshot(std::string_view commit) const;
  std::filesystem::path blob(std::string_view checksum) const;
  std::filesystem::path lock(std::string_view checksum) const;

  /// Whether a file of a commit is there, with its bytes.
  bool has(std::string_view commit, const std::string& file) const;

  /// Gives the bytes of a checksum their name in a commit. Throws kIo.
  void link(std::string_view commit, const std::string& file, std::string_view checksum) const;

  /// Says that the revision is this commit. Throws kIo.
  void write_ref(std::string_view commit) const;

 private:
  Repository repository_;
  std::filesystem::path folder_;
  std::filesystem::path locks_;
};

/// The folder of a model in the cache with all that Nibble needs to open it; nullopt: it is not
/// there, or something of it is missing.
std::optional<std::filesystem::path> find_snapshot(const std::filesystem::path& cache,
                                                   const Repository& repository);

/// "ORG/NAME" of a snapshot's folder, wherever the cache is; nullopt for other folders.
std::optional<std::string> repository_of(const std::filesystem::path& folder);

/// Throws kIo.
void create_folders(const std::filesystem::path& folder);

}  // namespace nibble::hub
