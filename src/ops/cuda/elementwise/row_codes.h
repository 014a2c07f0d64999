#pragma once

#include "ops/cuda/elementwise/input_target.h"

namespace nibble::ops::cuda {

/// Whether a target is for integers of 8 or 4 bits in bytes, symmetric and not clipped, with one
/// scale for each row, or for all where it stands with the layer.
inline bool takes_row_codes(const InputTarget& target) {
  return target.form == InputForm::kByteTiles && target.has_integers() &&
         (target.bits == 8 || target.bits == 4) && target.symmetric && target.group == 0 &&
         target.clip == 1.0f && target.zeros == nullptr;
}

}  // namespace nibble::ops::cuda
