#pragma once

#include <cstdint>
#include <string_view>

#include "core/float16.h"

namespace nibble::core {

/// Element types of dense tensors. Names follow safetensors ("F32", "BF16", ...).
enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

std::int64_t size_of(DType type);  // bytes per element
std::string_view name_of(DType type);
bool is_floating(DType type);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kF32;
};
template <>
struct DTypeOf<Fp16> {
  static constexpr DType kValue = DType::kF16;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType kValue = DType::kBF16;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType kValue = DType::kI64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType kValue = DType::kI32;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType kValue = DType::kI16;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType kValue = DType::kI8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType kValue = DType::kU8;
};

}  // namespace nibble::core
