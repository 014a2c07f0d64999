#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/model.h"

namespace nibble::models {

/// The layers of one block, in the order in which they run.
std::vector<const ops::Linear*> layers_of(const Block& block);

/// The layers of all blocks that are compressed, routers of experts aside; all where none is.
std::vector<const ops::Linear*> layers_to_convert(const Network& network);

/// Whether the checkpoints of the model's family store the matrices of blocks [in, out].
bool stores_conv1d(const Model& model);

/// Names of tensors that hold the weights of a layer, whether they are there or not.
std::set<std::string, std::less<>> weight_names(const Model& model, const ops::Linear& layer);

/// The type for weights that were decoded: what config.json says, where that is float16 or
/// bfloat16, else float16.
core::DType float_type_of(const core::Json& config);

/// Rows become columns; F32, F16 or BF16.
core::Tensor transposed(const core::Tensor& matrix);

}  // namespace nibble::models
