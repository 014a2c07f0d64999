#pragma once

#include "models/network.h"

/// The order of the inputs of an MLP's last layer (GPTQ's act-order, Atom), moved to the outputs of
/// the layers before it. What stands between takes each value by itself, so the sums are those of
/// the same numbers at the same places, and nothing is left to be put in order while the model
/// runs.
namespace nibble::models {

/// Whether the order of `down` can be moved: it has one, both are whole (ranks divide the outputs
/// of `up`), neither has an adapter, which counts on its own order, and outputs of `up` are stored
/// one by one in codes.
bool can_move_order(const Mlp& mlp);

/// The layers of an MLP whose order can be moved: `up` in memory of its own, with the outputs of
/// each of gate and up in the order of down's inputs; `down` without an order. They keep names and
/// ids.
ops::LinearSet up_in_order_of_down(const Mlp& mlp);
ops::LinearSet down_without_order(const Mlp& mlp);

}  // namespace nibble::models
