#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/calibration/calibration_inputs.h"
#include "compress/calibration/window_store.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::tune {

/// The windows of a training run, all of one length: those that are learned, and those that only
/// judge what was learned: the last sixteenth, at least one.
class WindowBatches {
 public:
  /// Throws kUsage for fewer than two windows.
  WindowBatches(const compress::CalibrationWindows& windows, std::int64_t batch);

  std::int64_t steps() const;  // of an epoch
  std::int64_t tokens() const { return window_tokens_; }
  std::int64_t learned() const { return learned_; }

  /// The windows of each step of an epoch (0, 1, ...), in an order of its own.
  std::vector<std::vector<std::int64_t>> epoch(std::int64_t epoch, std::uint64_t seed) const;
  /// Those that judge, as many at a time.
  std::vector<std::vector<std::int64_t>> judges() const;

  compress::CalibrationPack pack(std::span<const std::int64_t> windows) const;

  /// The next token of each token of a pack; -1 for the last one of a window.
  static std::vector<std::int32_t> labels(const compress::CalibrationPack& pack);

 private:
  std::vector<std::vector<std::int64_t>> batches(const std::vector<std::int64_t>& windows) const;

  const compress::CalibrationWindows& windows_;
  std::int64_t batch_;
  std::int64_t window_tokens_;
  std::int64_t learned_;
};

/// The hidden states of some windows one below the other.
ops::cpu::Matrix stacked(const compress::WindowStore& store, std::span<const std::int64_t> windows,
                         ops::cpu::CpuOps& ops);

}  // namespace nibble::tune
