#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/calibration/calibration.h"
#include "core/progress.h"
#include "models/model.h"

namespace nibble::compress {

/// Windows that the influence of blocks is measured on, at most.
inline constexpr std::int64_t kInfluenceWindows = 32;

/// The numbers of the `count` blocks of least influence, ascending; of equals the first.
std::vector<std::int64_t> least_influential(std::span<const double> influence, std::int64_t count);

/// The model without the `count` blocks of least influence (block_influence()) on the first
/// calibration windows; ShortGPT measures once and removes them all. Says through `progress` which
/// go. Throws kUsage for models with an encoder, for models made in memory, where no block would be
/// left, and as models::without_blocks().
std::shared_ptr<models::Model> without_least_influential(const models::Model& model,
                                                         std::int64_t count,
                                                         CalibrationOptions calibration,
                                                         core::ProgressSink& progress);

}  // namespace nibble::compress
