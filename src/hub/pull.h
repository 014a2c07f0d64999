#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/progress.h"
#include "hub/repository.h"
#include "hub/settings.h"

namespace nibble::hub {

/// What a pull brought.
struct PullResult {
  std::filesystem::path snapshot;  // the model's folder
  std::string commit;
  std::vector<std::string> files;  // by the names in the snapshot
  std::int64_t bytes = 0;          // of them all
  std::int64_t downloaded = 0;     // that came over the network now
};

/// Brings a model of the hub into the cache (hub/cache.h), as huggingface_hub does: files that are
/// there are not asked for again. Names appear in the snapshot when the bytes of all files are
/// there and have their checksums, the revision's commit last. `files`: these alone, exactly;
/// empty: what Nibble reads (hub/file_choice.h).
///
/// Throws kIo (network, no such model or no right to it, disk full), kIntegrity (checksum),
/// kInvalidModel (answers that make no sense, no safetensors), kUsage (offline, no such file).
PullResult pull(const Repository& repository, const Settings& settings,
                const std::vector<std::string>& files, core::ProgressSink& progress);

}  // namespace nibble::hub
