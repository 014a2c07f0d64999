#include "core/tensor.h"

#include <cstdlib>
#include <cstring>
#include <limits>

#include <sys/mman.h>

#include "core/memory.h"

namespace nibble::core {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kMappedBytes = 1 << 20;

template <typename T>
void convert(const void* source, std::int64_t count, float* target) {
  const auto* values = static_cast<const T*>(source);
  for (std::int64_t i = 0; i < count; ++i) {
    target[i] = to_float(values[i]);
  }
}

// `bytes` zeros; null where there are not so many. Many bytes come straight from the system and go
// back there when they are freed: in the heap small things that stay would be cut from the room
// that large ones leave, and the next large one would not fit there any more.
std::shared_ptr<void> zeroed(std::size_t bytes) {
  const auto count = static_cast<std::int64_t>(bytes);
  if (count >= kMappedBytes) {
    void* const mapped = map_zeros(count);
    return mapped == nullptr
               ? nullptr
               : std::shared_ptr<void>(mapped, [bytes](void* at) { munmap(at, bytes); });
  }
  if (!machine_has(count)) {
    return nullptr;
  }
  void* const memory = std::aligned_alloc(kAlignment, bytes);
  if (memory == nullptr) {
    return nullptr;
  }
  std::memset(memory, 0, bytes);
  return {memory, std::free};
}

}  // namespace

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    require(extent >= 0, ErrorKind::kInvalidModel, "shape {} has a negative dimension",
            printable(shape));
    require(extent == 0 || count <= std::numeric_limits<std::int64_t>::max() / 16 / extent,
            ErrorKind::kInvalidModel, "shape {} has too many elements", printable(shape));
    count *= extent;
  }
  return count;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Tensor Tensor::zeros(DType dtype, Shape shape) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.elements_ = element_count(shape);
  tensor.shape_ = std::move(shape);
  const auto bytes = static_cast<std::size_t>(tensor.bytes());
  const std::size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;  // never 0
  std::shared_ptr<void> memory = zeroed(rounded);
  require(memory != nullptr, ErrorKind::kOutOfMemory,
          "cannot allocate {} bytes for a tensor of shape {}", bytes, printable(tensor.shape_));
  tensor.data_ = memory.get();
  tensor.mutable_data_ = memory.get();
  tensor.owner_ = std::move(memory);
  return tensor;
}

Tensor Tensor::view(DType dtype, Shape shape, const void* data, std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.elements_ = element_count(shape);
  tensor.shape_ = std::move(shape);
  tensor.data_ = data;
  tensor.owner_ = std::move(owner);
  return tensor;
}

std::byte* Tensor::mutable_raw() {
  require(mutable_data_ != nullptr, ErrorKind::kFailed, "tensor of shape {} is read only",
          printable(shape_));
  return static_cast<std::byte*>(mutable_data_);
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t end) const {
  require(rank() >= 1 && begin >= 0 && begin <= end && end <= shape_[0], ErrorKind::kFailed,
          "rows {} to {} of a tensor of shape {}", begin, end, printable(shape_));
  const std::int64_t per_row = shape_[0] == 0 ? 0 : elements_ / shape_[0];
  Tensor part = *this;
  part.shape_[0] = end - begin;
  part.elements_ = (end - begin) * per_row;
  const std::int64_t offset = begin * per_row * size_of(dtype_);
  part.data_ = raw() + offset;
  if (mutable_data_ != nullptr) {
    part.mutable_data_ = static_cast<std::byte*>(mutable_data_) + offset;
  }
  return part;
}

Tensor Tensor::reshaped(Shape shape) const {
  require(element_count(shape) == elements_, ErrorKind::kFailed, "cannot reshape {} to {}",
          printable(shape_), printable(shape));
  Tensor result = *this;
  result.shape_ = std::move(shape);
  return result;
}

void convert_to_float32(DType dtype, const void* source, std::int64_t count, float* target) {
  switch (dtype) {
    case DType::kF64: {
      const auto* values = static_cast<const double*>(source);
      for (std::int64_t i = 0; i < count; ++i) {
        target[i] = static_cast<float>(values[i]);
      }
      return;
    }
    case DType::kF32:
      std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::kF16:
      convert<Fp16>(source, count, target);
      return;
    case DType::kBF16:
      convert<Bf16>(source, count, target);
      return;
    default:
      fail(ErrorKind::kFailed, "cannot read {} as float32", name_of(dtype));
  }
}

std::vector<float> to_float32(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  convert_to_float32(tensor.dtype(), tensor.raw(), tensor.elements(), values.data());
  return values;
}

Tensor from_float32(std::span<const float> values, Shape shape, DType dtype) {
  Tensor tensor = Tensor::zeros(dtype, std::move(shape));
  require(tensor.elements() == static_cast<std::int64_t>(values.size()), ErrorKind::kFailed,
          "{} values for a tensor of shape {}", values.size(), printable(tensor.shape()));
  switch (dtype) {
    case DType::kF32:
      std::copy(values.begin(), values.end(), tensor.mutable_data<float>().begin());
      break;
    case DType::kF16:
      std::transform(values.begin(), values.end(), tensor.mutable_data<Fp16>().begin(), to_fp16);
      break;
    case DType::kBF16:
      std::transform(values.begin(), values.end(), tensor.mutable_data<Bf16>().begin(), to_bf16);
      break;
    default:
      fail(ErrorKind::kFailed, "cannot store float32 as {}", name_of(dtype));
  }
  return tensor;
}

}  // namespace nibble::core
