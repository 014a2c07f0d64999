#pragma once

#include "models/family.h"

/// Phi-3, Phi-3.5 and Phi-4 (arXiv 2404.14219, 2412.08905): Llama with q|k|v in one layer and
/// gate|up in one, and LongRoPE where the context is long. Phi-3-small and mixtures of experts are
/// other families.
namespace nibble::models::phi3 {

Family phi3();

}  // namespace nibble::models::phi3
