#include "formats/int/step_loops.h"

namespace nibble::formats {

StepCodes step_codes(const Scheme& scheme) {
  const int bits = value_bits(scheme);
  if (has_minima(scheme)) {
    return {0, (1 << bits) - 1};
  }
  const int middle = 1 << (scheme.code.bits - 1);
  const int lowest = 1 << (bits - 1);
  const bool mirrored = !has_zeros(scheme) && bits == 8;
  return {mirrored ? 1 : middle - lowest, middle + lowest - 1};
}

}  // namespace nibble::formats
