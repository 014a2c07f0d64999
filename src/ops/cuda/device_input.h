#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "formats/code_type.h"
#include "ops/cuda/device_matrix.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/input_transform/device_transform.h"
#include "ops/cuda/outliers/outliers.h"
#include "ops/cuda/small_batch/small_batch.h"

namespace nibble::ops::cuda {

/// In which form a layer reads its input: a float matrix, or what input_target.h and
/// activation_codes.h make of one.
struct InputKey {
  bool matrix = false;
  InputForm form = InputForm::kInt8Lanes;
  const formats::CodeType* type = &formats::kIntegerCodes;
  int bits = 16;             // of integers; 16: two digits, a scale for each 128 inputs
  std::int64_t group = 128;  // inputs that share a scale; 0: all of a token
  float clip = 1.0f;
  float scale = 0.0f;  // of all inputs, where it is stored (Activation::stored_scale)
  bool symmetric = true;
  bool keeps_outliers = false;
  std::int64_t scale_step = 128;  // inputs of a stored scale, 0: all of a token
  std::int64_t tail = 0;          // the last inputs, which are INT8 with a scale for each token
  const DeviceTransform* transform = nullptr;  // before they are rounded, or none
  friend bool operator==(const InputKey&, const InputKey&) = default;

  int digits() const { return bits == 16 ? 2 : 1; }
  /// Whether codes carry a zero (formats::Activation::carries_zeros).
  bool carries_zeros() const { return bits == 8 && !symmetric; }
  /// Whether codes of 4 bits come with zeros (InputTarget::zeros).
  bool has_int4_zeros() const { return form == InputForm::kInt4Tiles && !symmetric; }
  /// Whether elementwise.h writes the codes, once the inputs are transformed.
  bool is_plain() const {
    return !type->is_recoded() && symmetric && !keeps_outliers && tail == 0 && bits != 3 &&
           scale_step == group && (group == 0 || group == kInputPadding);
  }
  /// Whether an operator can write them on its way.
  bool is_direct() const { return !matrix && transform == nullptr && is_plain(); }
  /// The same of those that put them into the layer's order (ordered_rows.h).
  bool is_direct_in_order() const {
    return !matrix && transform != nullptr && transform->order_alone() != nullptr && is_plain();
  }
  /// Whether the codes of a tail stand behind the others', with a scale for each 128 inputs in all.
  bool joins_tail() const { return tail > 0 && form == InputForm::kByteTiles; }
};

/// The input of a layer in the form that it asked for, on the device.
struct LinearInput {
  std::int64_t m = 0;
  const float* matrix = nullptr;
  FloatRows rows;                 // in the place of all else, where the layer reads them
  InputTarget target;             // group: the key's scale_step
  InputTarget tail;               // where it does not stand behind the others
  const float* shifts = nullptr;  // activation_codes.h
  OutlierLists outliers;
};

/// Bytes of m rows of k inputs in the form of a plain key.
struct InputBytes {
  std::int64_t values = 0;  // of 16 bits, or codes
  std::int64_t scales = 0;
};
InputBytes plain_input_bytes(const InputKey& key, std::int64_t m, std::int64_t k);

/// Where an operator writes such an input, without sums.
InputTarget plain_target(const InputKey& key, std::byte* values, float* scales);

/// Memory for m rows of k inputs in the form of a key.
class DeviceInput {
 public:
  DeviceInput(const std::shared_ptr<DevicePool>& pool, const InputKey& key, std::int64_t m,
              std::int64_t k);

  const InputKey& key() const { return key_; }
  /// Where an operator writes, where the key is plain.
  InputTarget target() const;
  /// Rounds x [m, k], which is transformed.
  void round(const float* x, cudaStream_t stream);
  /// Rounds x [m, k] in the layer's order, where the key is direct in it.
  void round_in_order(const float* x, cudaStream_t stream);
  /// Says that target() was filled without sums.
  void drop_sums() { sums_ = {}; }
  /// For layers that read it.
  LinearInput view() const;

 private:
  std::int64_t head() const { return k_ - key_.tail; }
  std::int64_t row_columns() const;
  std::int64_t row_bytes() const;
  std::int64_t scales_each() const;

  InputKey key_;
  std::int64_t m_;
  std::int64_t k_;
  PooledBuffer values_;  // of 16 bits, or codes
  PooledBuffer sums_;
  PooledBuffer scales_;
  PooledBuffer zeros_;
  PooledBuffer shifts_;
  PooledBuffer tail_codes_;
  PooledBuffer tail_scales_;
  PooledBuffer outlier_columns_;
  PooledBuffer outlier_values_;
  PooledBuffer outlier_counts_;
};

}  // namespace nibble::ops::cuda
