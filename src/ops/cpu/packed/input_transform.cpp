#include "ops/cpu/packed/input_transform.h"

namespace nibble::ops::cpu {

InputTransform::InputTransform(const formats::Scheme& scheme, std::int64_t k) {
  if (scheme.hadamard != 0) {
    hadamard_ = std::make_shared<const formats::Hadamard>(formats::hadamard_size(scheme, k));
  }
}

void InputTransform::apply(std::span<float> row) const {
  if (hadamard_) {
    hadamard_->apply(row);
  }
}

bool operator==(const InputTransform& a, const InputTransform& b) {
  return (a.hadamard_ ? a.hadamard_->size() : 0) == (b.hadamard_ ? b.hadamard_->size() : 0);
}

}  // namespace nibble::ops::cpu
