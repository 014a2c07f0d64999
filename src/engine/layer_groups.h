#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/network.h"
#include "ops/linear_problem.h"

/// The linear layers of a model as their kernels meet them, equal ones together.
namespace nibble::engine {

/// Parts [first, first + count) of a set, which run as one layer.
struct LayerPlace {
  const ops::LinearSet* set = nullptr;
  std::size_t first = 0;
  std::size_t count = 0;
  std::int64_t block = -1;  // -1: the output layer
  bool alone = true;        // all of the set, without adapters
};

/// Layers of the same names in their blocks, of one scheme and size.
struct LayerGroup {
  std::string name;            // "layers 0-31 q_proj|k_proj|v_proj"
  ops::LinearProblem problem;  // with the epilogue that the forward pass asks for
  std::vector<LayerPlace> places;
};

/// How a device cuts sets into layers.
struct LayerCuts {
  /// Parts from `first` on that run as one.
  std::function<std::size_t(const ops::LinearSet&, std::size_t first)> joint_parts;
  /// Parts [first, last) as one layer.
  std::function<ops::LinearProblem(const ops::LinearSet&, std::size_t first, std::size_t last)>
      problem;
};

/// All layers of a network in the order in which they run; with a name ("model.layers.0.mlp.up"),
/// only the one that holds this part. Throws kUsage for a name that no part has.
std::vector<LayerGroup> layer_groups(const models::Network& network, const LayerCuts& cuts,
                                     std::string_view only);

}  // namespace nibble::engine
