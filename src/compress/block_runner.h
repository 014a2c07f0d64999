#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compress/calibration.h"
#include "compress/statistics.h"
#include "models/decoder.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// The calibration windows on their way through the model, one block at a time. Activations are
/// float32 but where a scheme quantizes them: those of a compressed block are then quantized as
/// they will be when the model runs.
class BlockRunner {
 public:
  /// Embeds the windows.
  BlockRunner(const models::Decoder& decoder, const CalibrationWindows& windows,
              ops::cpu::CpuOps& ops);

  /// Statistics of the inputs of every set of `block`, by set id. The windows stay where they are.
  std::map<int, InputStatistics> observe(std::int64_t layer, const models::Block& block,
                                         StatisticsKind kind);

  /// Moves the windows through `block`.
  void advance(std::int64_t layer, const models::Block& block);

 private:
  ops::cpu::Matrix run(std::int64_t layer, const models::Block& block, std::size_t window,
                       ops::cpu::Matrix& x);

  const models::Decoder& decoder_;
  const CalibrationWindows& windows_;
  ops::cpu::CpuOps& ops_;
  std::vector<std::vector<std::int32_t>> positions_;
  std::vector<ops::cpu::Matrix> hidden_;  // one [tokens, hidden] for each window
};

}  // namespace nibble::compress
