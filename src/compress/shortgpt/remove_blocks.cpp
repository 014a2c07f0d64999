#include "compress/shortgpt/remove_blocks.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "compress/shortgpt/block_influence.h"
#include "io/file_descriptor.h"
#include "models/fewer_blocks.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;

std::string report(std::span<const double> influence, std::span<const std::int64_t> removed) {
  std::string line = "influence of blocks on the calibration text:";
  for (std::size_t block = 0; block < influence.size(); ++block) {
    const bool goes =
        std::binary_search(removed.begin(), removed.end(), static_cast<std::int64_t>(block));
    line += fmt::format("{} {} {:.4f}{}", block == 0 ? "" : ",", block, influence[block],
                        goes ? " (removed)" : "");
  }
  return line;
}

}  // namespace

std::vector<std::int64_t> least_influential(std::span<const double> influence, std::int64_t count) {
  std::vector<std::int64_t> blocks(influence.size());
  std::iota(blocks.begin(), blocks.end(), 0);
  std::stable_sort(blocks.begin(), blocks.end(), [&](std::int64_t a, std::int64_t b) {
    return influence[static_cast<std::size_t>(a)] < influence[static_cast<std::size_t>(b)];
  });
  blocks.resize(static_cast<std::size_t>(count));
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

std::shared_ptr<models::Model> without_least_influential(const models::Model& model,
                                                         std::int64_t count,
                                                         CalibrationOptions calibration,
                                                         core::ProgressSink& progress) {
  const std::int64_t blocks = std::ssize(model.network.decoder.blocks);
  core::require(!model.network.has_encoder(), ErrorKind::kUsage,
                "pass 'shortgpt' removes blocks of decoders; {} has an encoder",
                io::shown(model.path));
  core::require(count < blocks, ErrorKind::kUsage,
                "pass 'shortgpt' is to remove {} blocks; {} has {}, and one at least must stay",
                count, io::shown(model.path), blocks);
  core::require(model.source != nullptr, ErrorKind::kUsage,
                "pass 'shortgpt' needs a model that was opened from files");
  calibration.samples = std::min(calibration.samples, kInfluenceWindows);
  const CalibrationInputs inputs = calibration_inputs(model, calibration, progress);
  ops::cpu::CpuOps ops({calibration.threads, ops::ActivationPrecision::kFloat});
  const std::vector<double> influence = block_influence(model.network, inputs, ops);
  const std::vector<std::int64_t> removed = least_influential(influence, count);
  progress.message(report(influence, removed));
  return models::without_blocks(model, removed);
}

}  // namespace nibble::compress
