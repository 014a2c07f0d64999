#pragma once

#include "models/family.h"

/// GPT-2 (Radford et al. 2019): pre-norm, learned positions, fused query|key|value.
namespace nibble::models::gpt2 {

Family gpt2();

}  // namespace nibble::models::gpt2
