#pragma once

#include <algorithm>
#include <vector>

#include "ops/cuda/cuda_ops.h"

/// How all operators make the input of linear layers.
namespace nibble::ops::cuda {

// One simple form comes straight from the operator; all else by way of a matrix, which layers of
// few tokens may put in their order themselves.
template <typename ToTarget, typename ToMatrix, typename Writes>
CudaOps::Input CudaOps::make_input(const Wanted& wanted, const ToTarget& to_target,
                                   const ToMatrix& to_matrix, const Writes& writes) {
  const Layers& layers = layers_of(wanted.set);
  const std::int64_t m = wanted.m;
  std::vector<InputKey> keys;
  for (const LinearLayer& part : layers.parts) {
    const InputKey key = part.key(m);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      keys.push_back(key);
    }
  }
  Input input;
  input.m_ = m;
  input.type_ = wanted.type;
  const InputKey& front = keys.front();
  if (keys.size() == 1 && (wanted.ordered ? front.is_direct_in_order() : front.is_direct()) &&
      layers.adapters.empty() && writes(front)) {
    input.forms_.emplace_back(pool_, front, m, layers.k);
    to_target(input.forms_.front().target());
    return input;
  }
  input.matrix_ = to_matrix();
  const std::uint16_t* const order = order_of(layers);
  if (!wanted.ordered && order != nullptr && read_rows(layers, m, std::nullopt)) {
    input.rows_ = {input.matrix_->data(), nullptr, order};
    return input;
  }
  for (const InputKey& key : keys) {
    if (!key.matrix) {
      DeviceInput& form = input.forms_.emplace_back(pool_, key, m, layers.k);
      if (wanted.ordered) {
        form.round(input.matrix_->data(), stream());
      } else if (key.is_direct_in_order()) {
        form.round_in_order(input.matrix_->data(), stream());
      } else {
        form.round(transformed(input, key.transform).data(), stream());
      }
    }
  }
  return input;
}

template <typename AddNorm, typename Add>
CudaOps::Input CudaOps::add_norm_by(Matrix& x, const Norm& norm, const LinearSet& set,
                                    const AddNorm& add_norm, const Add& add) {
  if (!x.is_half() && order_of(layers_of(set)) != nullptr) {
    add();
    return CudaOps::norm(x, norm, set);
  }
  const NormWeights& weights = weights_of(norm);
  return make_input(
      {set, x.rows(), x.type()}, [&](const InputTarget& target) { add_norm(weights, target); },
      [&] {
        add();
        return norm_into(x, norm, MatrixType::kFloat32);
      });
}

}  // namespace nibble::ops::cuda
