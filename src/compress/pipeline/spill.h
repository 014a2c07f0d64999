#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "compress/pipeline/memory_need.h"
#include "core/progress.h"
#include "models/network.h"

namespace nibble::compress {

/// The folder for a file with the hidden states of the calibration windows, where they do not fit
/// beside the work on a block into `memory` bytes (0: they always fit); nullopt where they do.
/// `scratch` is that folder; empty: the system's temporary one. Says on `progress` that there is a
/// file, and that memory is too little for one block.
std::optional<std::filesystem::path> spill_folder(const models::Network& network,
                                                  const BlockDemand& demand, std::int64_t memory,
                                                  const std::filesystem::path& scratch,
                                                  core::ProgressSink& progress);

}  // namespace nibble::compress
