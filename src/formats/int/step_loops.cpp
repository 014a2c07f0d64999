#include "formats/int/step_loops.h"

#include "formats/super_blocks.h"

namespace nibble::formats {

StepCodes step_codes(const Scheme& scheme) {
  const SuperBlockType* const type = super_block_type(scheme);
  const int bits = type == nullptr ? scheme.code.bits : type->code_bits;
  if (has_minima(scheme)) {
    return {0, (1 << bits) - 1};
  }
  const int middle = 1 << (scheme.code.bits - 1);
  const int lowest = 1 << (bits - 1);
  const bool mirrored = type == nullptr && !has_zeros(scheme) && bits == 8;
  return {mirrored ? 1 : middle - lowest, middle + lowest - 1};
}

}  // namespace nibble::formats
