#include "tune/activation_bytes.h"

namespace nibble::tune {

std::int64_t activation_bytes(const models::Stack& stack, std::int64_t tokens) {
  constexpr std::int64_t kCopies = 3;
  std::int64_t values = 0;
  for (const models::Block& block : stack.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      values += set->k() + set->n();
    }
  }
  return 4 * kCopies * tokens * values;
}

}  // namespace nibble::tune
