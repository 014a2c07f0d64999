#pragma once

#include <map>
#include <string>

#include "eval/strategy/tune_strategy.h"

namespace nibble::eval {

struct PartTime {
  double microseconds = 0;
  double limit_microseconds = 0;
};

/// How a layer runs in one step.
struct LayerUse {
  int set = 0;            // layers of one set run together
  bool by_token = false;  // once for each token that is written, with a row for each text; else
                          // once, with all tokens
  double times = 1;
};

/// By name, of the layers of all blocks. Those of a decoder behind an encoder run for each of `seq`
/// tokens, but for the keys and values of what was read.
std::map<std::string, LayerUse> uses_by_layer(const models::Network& network, std::int64_t seq);

/// The times of the layers of each part in one step, added up; of an encoder-decoder in a step that
/// reads texts and writes as many tokens, one after another. Throws as engine::explain_kernels.
std::map<models::LayerPart, PartTime> part_times(const models::Network& network,
                                                 const StrategyOptions& options);

}  // namespace nibble::eval
