#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "models/model.h"

namespace nibble::models {

/// A decoder that was opened from files, without the blocks of these numbers: the others move up,
/// in their names too, and config_json counts them. `removed` ascends and leaves a block. Throws
/// kUsage for models of which a block's number says what it is (windows, experts in some blocks
/// only), where that would change.
std::shared_ptr<Model> without_blocks(const Model& model, std::span<const std::int64_t> removed);

}  // namespace nibble::models
