#pragma once

#include <map>

#include "eval/strategy/tune_strategy.h"

namespace nibble::eval {

struct PartTime {
  double microseconds = 0;
  double limit_microseconds = 0;
};

/// The times of the layers of each part in one step, added up. Throws as engine::explain_kernels.
std::map<models::LayerPart, PartTime> part_times(const models::Network& network,
                                                 const StrategyOptions& options);

}  // namespace nibble::eval
