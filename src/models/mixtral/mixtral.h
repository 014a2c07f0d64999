#pragma once

#include "models/family.h"

/// Mixtral: Llama attention with a mixture of gated MLPs (arXiv 2401.04088).
namespace nibble::models::mixtral {

Family mixtral();

}  // namespace nibble::models::mixtral
