#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "formats/scheme.h"
#include "models/layer_part.h"

/// Which types of numbers the parts of a model's layers have: the choice, given measurements.
namespace nibble::engine {

/// What a type costs and gives one part, while the other parts are float.
struct PartOption {
  std::optional<formats::Scheme> scheme;  // nullopt: float
  double microseconds = 0.0;              // of all layers of the part in one step
  double limit_microseconds = 0.0;        // of the device, as KernelTime; 0: not known
  double loss = 0.0;                      // of the model; what float loses is 0
};
using PartOptions = std::map<models::LayerPart, std::vector<PartOption>>;

/// One option for each part. Times and losses are sums: parts are separable to first order.
struct Strategy {
  models::PartSchemes schemes;
  double microseconds = 0.0;
  double loss = 0.0;
};

/// All strategies that lose at most `max_loss`, the fastest first; of equally fast ones the one
/// that loses less, then the one whose options stand earlier. Losses below 0 count as 0, and
/// options whose loss is not finite are left out.
std::vector<Strategy> rank_strategies(const PartOptions& options, double max_loss);

/// Strategies that are tried at the most.
inline constexpr int kMostTrials = 8;

/// The first of the ranked ones that `holds` when the whole model is measured; all float where
/// kMostTrials do not, or where all float comes first.
Strategy first_that_holds(const std::vector<Strategy>& ranked,
                          const std::function<bool(const Strategy&)>& holds);

}  // namespace nibble::engine
