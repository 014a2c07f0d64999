#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"

namespace nibble::core {

using Shape = std::vector<std::int64_t>;

/// Number of elements; throws kInvalidModel when a dimension is negative or the product overflows.
std::int64_t element_count(const Shape& shape);

/// "[4096, 11008]"
std::string to_string(const Shape& shape);
inline auto printable(const Shape& shape) {
  return lazily([&shape] { return to_string(shape); });
}

/// A dense row-major array of one dtype that shares its bytes with its owner: heap memory, a
/// memory-mapped file, or another tensor. No arithmetic of its own. Copies share the bytes.
class Tensor {
 public:
  Tensor() = default;

  /// Zero-filled heap memory, aligned to 64 bytes.
  static Tensor zeros(DType dtype, Shape shape);

  /// Views bytes owned by `owner` (a mapped file, say). `data` must be aligned for `dtype`.
  static Tensor view(DType dtype, Shape shape, const void* data, std::shared_ptr<const void> owner);

  template <typename T>
  static Tensor from(std::span<const T> values, const Shape& shape);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t dim(std::size_t i) const { return shape_.at(i); }
  std::size_t rank() const { return shape_.size(); }
  std::int64_t elements() const { return elements_; }
  std::int64_t bytes() const { return elements_ * size_of(dtype_); }
  bool empty() const { return data_ == nullptr; }

  const std::byte* raw() const { return static_cast<const std::byte*>(data_); }

  /// Elements, read only. Throws when T is not the dtype.
  template <typename T>
  std::span<const T> data() const;

  /// Elements, writable. Only for tensors made by zeros() or from(); throws for views.
  template <typename T>
  std::span<T> mutable_data();
  std::byte* mutable_raw();

  /// Rows [begin, end) of the first dimension, sharing the bytes.
  Tensor rows(std::int64_t begin, std::int64_t end) const;

  /// The same bytes under another shape with as many elements.
  Tensor reshaped(Shape shape) const;

 private:
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::int64_t elements_ = 0;
  const void* data_ = nullptr;
  void* mutable_data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

/// All elements as float32 (from F64, F32, F16, BF16), in memory of its own.
std::vector<float> to_float32(const Tensor& tensor);

/// Converts `count` floating elements of `dtype` at `source` to float32.
void convert_to_float32(DType dtype, const void* source, std::int64_t count, float* target);

/// `values` stored as `dtype` (F32, F16 or BF16; rounds to nearest even).
Tensor from_float32(std::span<const float> values, Shape shape, DType dtype);

template <typename T>
std::span<const T> Tensor::data() const {
  require(DTypeOf<T>::kValue == dtype_, ErrorKind::kFailed, "tensor holds {}, not {}",
          name_of(dtype_), name_of(DTypeOf<T>::kValue));
  return {static_cast<const T*>(data_), static_cast<std::size_t>(elements_)};
}

template <typename T>
std::span<T> Tensor::mutable_data() {
  require(DTypeOf<T>::kValue == dtype_, ErrorKind::kFailed, "tensor holds {}, not {}",
          name_of(dtype_), name_of(DTypeOf<T>::kValue));
  return {reinterpret_cast<T*>(mutable_raw()), static_cast<std::size_t>(elements_)};
}

template <typename T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  Tensor tensor = zeros(DTypeOf<T>::kValue, shape);
  require(tensor.elements() == static_cast<std::int64_t>(values.size()), ErrorKind::kFailed,
          "{} values for a tensor of shape {}", values.size(), printable(tensor.shape()));
  std::copy(values.begin(), values.end(), tensor.mutable_data<T>().begin());
  return tensor;
}

}  // namespace nibble::core
