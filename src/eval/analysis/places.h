#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/analysis/analysis.h"
#include "models/network.h"

namespace nibble::eval {

/// The name of the residual stream among places.
inline constexpr std::string_view kStream = "residual stream";

/// Layers of a block that read one input.
struct NamedSet {
  std::string_view input;  // the place that they read
  const ops::LinearSet* set = nullptr;
  std::size_t first_layer = 0;  // among the layers of the block that are looked into
};

/// The layers of a block that are looked into: all but experts.
std::vector<NamedSet> named_sets(const models::Block& block);

/// Where a set stands in the list; nothing where it does not.
std::optional<std::size_t> find_set(const std::vector<NamedSet>& sets, const ops::LinearSet& set);

/// The places of a stack before anything was read; those of noise where that is told.
StackAnalysis empty_stack(std::string name, const models::Stack& stack, bool with_noise);

/// Throws kUsage.
void require_same_shape(const models::Network& model, const models::Network& quantized);

}  // namespace nibble::eval
