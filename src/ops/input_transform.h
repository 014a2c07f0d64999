#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "formats/hadamard.h"
#include "formats/packed_weight.h"

namespace nibble::ops {

/// What happens to a row of inputs before it meets the stored weight: a change of order (Atom,
/// arXiv 2310.19102, section 4.1), then an online Hadamard of the inputs before the tail (QuaRot,
/// arXiv 2404.00456, section 4); or nothing.
class InputTransform {
 public:
  InputTransform() = default;
  /// The Hadamard of a scheme, for rows of k inputs. The shape was checked (formats::validate).
  InputTransform(const formats::Scheme& scheme, std::int64_t k);
  /// Order and Hadamard of a weight.
  explicit InputTransform(const formats::PackedWeight& weight);
  /// An order alone, I32 [.., k] or empty: input i becomes what was input permutation[i].
  explicit InputTransform(core::Tensor permutation);

  bool is_identity() const { return hadamard_ == nullptr && permutation_.empty(); }
  /// Whether inputs are mixed with one another.
  bool mixes() const { return hadamard_ != nullptr; }

  /// row [k], in place.
  void apply(std::span<float> row) const;
  /// Only where inputs are not mixed.
  void reorder(std::span<float> row) const;
  void reorder(std::span<double> row) const;

  friend bool operator==(const InputTransform& a, const InputTransform& b);

 private:
  core::Tensor permutation_;
  std::int64_t head_ = 0;                              // inputs before the tail
  std::shared_ptr<const formats::Hadamard> hadamard_;  // of each block
  std::shared_ptr<const formats::Hadamard> last_;      // of a shorter one at the end
};

}  // namespace nibble::ops
