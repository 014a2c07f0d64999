#include "ops/input_transform.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace nibble::ops {
namespace {

std::int64_t size_of(const std::shared_ptr<const formats::Hadamard>& hadamard) {
  return hadamard ? hadamard->size() : 0;
}

template <typename T>
void gather(const core::Tensor& permutation, std::span<T> row) {
  if (permutation.empty()) {
    return;
  }
  thread_local std::vector<T> before;
  before.assign(row.begin(), row.end());
  const auto order = permutation.data<std::int32_t>();
  std::transform(order.begin(), order.end(), row.begin(),
                 [](std::int32_t input) { return before[static_cast<std::size_t>(input)]; });
}

}  // namespace

InputTransform::InputTransform(const formats::Scheme& scheme, std::int64_t k) {
  if (scheme.inputs.hadamard == 0) {
    return;
  }
  const std::int64_t size = formats::hadamard_size(scheme, k);
  head_ = formats::head_inputs(scheme, k);
  hadamard_ = std::make_shared<const formats::Hadamard>(size);
  if (head_ % size != 0) {
    last_ = std::make_shared<const formats::Hadamard>(head_ % size);
  }
}

InputTransform::InputTransform(const formats::PackedWeight& weight)
    : InputTransform(weight.scheme, weight.k) {
  permutation_ = weight.permutation;
}

InputTransform::InputTransform(core::Tensor permutation) : permutation_(std::move(permutation)) {}

void InputTransform::reorder(std::span<float> row) const {
  gather(permutation_, row);
}

void InputTransform::reorder(std::span<double> row) const {
  gather(permutation_, row);
}

void InputTransform::apply(std::span<float> row) const {
  gather(permutation_, row);
  if (hadamard_) {
    const auto whole = static_cast<std::size_t>(head_ - size_of(last_));
    hadamard_->apply(row.first(whole));
    if (last_) {
      last_->apply(row.subspan(whole, static_cast<std::size_t>(last_->size())));
    }
  }
}

bool operator==(const InputTransform& a, const InputTransform& b) {
  if (size_of(a.hadamard_) != size_of(b.hadamard_) || a.head_ != b.head_ ||
      a.permutation_.empty() != b.permutation_.empty()) {
    return false;
  }
  if (a.permutation_.empty() || a.permutation_.raw() == b.permutation_.raw()) {
    return true;
  }
  const auto left = a.permutation_.data<std::int32_t>();
  const auto right = b.permutation_.data<std::int32_t>();
  return std::equal(left.begin(), left.end(), right.begin(), right.end());
}

}  // namespace nibble::ops
