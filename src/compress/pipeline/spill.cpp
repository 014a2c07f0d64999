#include "compress/pipeline/spill.h"

#include <algorithm>

#include "core/byte_size.h"
#include "core/error.h"

namespace nibble::compress {

std::optional<std::filesystem::path> spill_folder(const models::Network& network,
                                                  const BlockDemand& demand, std::int64_t memory,
                                                  const std::filesystem::path& scratch,
                                                  core::ProgressSink& progress) {
  if (memory == 0) {
    return std::nullopt;
  }
  const std::int64_t streams = demand.keeps_original ? 2 : 1;
  const std::int64_t states = 4 * streams * demand.all_tokens * network.config.hidden;
  const std::int64_t block = block_memory(network, demand);
  const std::int64_t measuring = curvature_measuring_memory(network, demand);
  if (std::max(block, measuring) > memory) {
    progress.message(fmt::format(
        "{} about {}, more than --memory {}",
        measuring > block ? "measuring the curvature needs" : "one block needs",
        core::format_byte_size(std::max(block, measuring)), core::format_byte_size(memory)));
  }
  if (states <= memory - block) {
    return std::nullopt;
  }
  auto folder = scratch.empty() ? std::filesystem::temp_directory_path() : scratch;
  progress.message(
      fmt::format("hidden states of the calibration windows ({}) lie in a temporary file in {}",
                  core::format_byte_size(states), core::printable(folder.string())));
  return folder;
}

}  // namespace nibble::compress
