#pragma once

#include "models/family.h"

/// Qwen3's mixtures of experts (arXiv 2505.09388): Qwen3 whose layers have experts, all of them or
/// some. Qwen2's (qwen2_moe), which have a shared expert beside them, are another family.
namespace nibble::models::qwen3_moe {

Family qwen3_moe();

}  // namespace nibble::models::qwen3_moe
