#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "core/threads.h"
#include "formats/packed_weight.h"
#include "ops/cpu/matrix.h"
#include "ops/layers.h"

namespace nibble::ops::gradient {

/// Where the gradients of trained numbers are added up during backward(). A number is known by the
/// object of the model that the forward pass reads it from, which must not move meanwhile. What is
/// not here is a constant.
class ParameterGradients {
 public:
  /// `to` has as many elements, and outlives this.
  void add(const formats::PackedWeight& weight, std::span<float> to);  // [n, k]
  void add(const std::vector<float>& vector, std::span<float> to);     // a bias; weight of a norm
  void add(const core::Tensor& table, std::span<float> to);            // embeddings, positions

  /// Empty for a constant.
  std::span<float> of(const formats::PackedWeight& weight) const { return find(&weight); }
  std::span<float> of(const std::vector<float>& vector) const { return find(&vector); }
  std::span<float> of(const core::Tensor& table) const { return find(&table); }

 private:
  std::span<float> find(const void* object) const;

  std::map<const void*, std::span<float>> gradients_;
};

/// Adds to the gradients of weights and biases of a set what its input x [m, k] and the gradient of
/// its output dy [m, n] give: dW += dy^T x, db += the column sums of dy. The same bits for any
/// number of threads.
void add_linear_parameter_gradients(const LinearSet& set, const cpu::Matrix& x,
                                    const cpu::Matrix& dy, const ParameterGradients& gradients,
                                    core::ThreadPool& pool);

/// The same of the weight and bias of a norm, for the rows x that it read.
void add_norm_parameter_gradients(const Norm& norm, const cpu::Matrix& x, const cpu::Matrix& dy,
                                  const ParameterGradients& gradients, core::ThreadPool& pool);

/// The same of a table [rows, columns], of which rows `ids` plus `offset` were read.
void add_table_gradient(const core::Tensor& table, std::span<const std::int32_t> ids,
                        std::int64_t offset, const cpu::Matrix& dy,
                        const ParameterGradients& gradients);

}  // namespace nibble::ops::gradient
