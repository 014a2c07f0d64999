#pragma once

#include <cstdint>
#include <memory>

namespace nibble::ops::gradient {

template <typename Device>
class GradientTape;

/// A matrix of a forward pass, with the gradient of the loss once backward() has come past it.
/// Copies share both.
template <typename Values>
class VariableOf {
 public:
  VariableOf() = default;
  std::int64_t rows() const { return node_->value.rows(); }
  std::int64_t columns() const { return node_->value.columns(); }
  const Values& value() const { return node_->value; }

  /// [rows, columns]; empty when the loss does not depend on this matrix.
  const Values& gradient() const { return node_->gradient; }

 private:
  template <typename Device>
  friend class GradientTape;
  friend class GradientOps;
  struct Node {
    Values value;
    Values gradient;
  };
  std::shared_ptr<Node> node_;
};

}  // namespace nibble::ops::gradient
