#pragma once

#include <memory>
#include <span>

#include "formats/hadamard.h"
#include "formats/packed_weight.h"

namespace nibble::ops::cpu {

/// What happens to a row of inputs before it meets the stored weight: an online Hadamard
/// (QuaRot, arXiv 2404.00456, section 4), or nothing.
class InputTransform {
 public:
  InputTransform() = default;
  /// What the scheme asks for, for rows of k inputs. The shape was checked (formats::validate).
  InputTransform(const formats::Scheme& scheme, std::int64_t k);

  bool is_identity() const { return hadamard_ == nullptr; }
  /// Whether inputs are mixed with one another.
  bool mixes() const { return hadamard_ != nullptr; }

  /// row [k], in place.
  void apply(std::span<float> row) const;

  friend bool operator==(const InputTransform& a, const InputTransform& b);

 private:
  std::shared_ptr<const formats::Hadamard> hadamard_;
};

}  // namespace nibble::ops::cpu
