#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace nibble::io {

/// Stands among the types of a GGUF file where an array's elements and their type follow.
struct GgufArray {};

/// The types of metadata values, each at its number in a file.
using GgufTypes =
    std::tuple<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
               float, bool, std::string, GgufArray, std::uint64_t, std::int64_t, double>;

/// The number of a type.
template <typename T, std::size_t kNumber = 0>
constexpr std::uint32_t gguf_type() {
  if constexpr (std::is_same_v<T, std::tuple_element_t<kNumber, GgufTypes>>) {
    return kNumber;
  } else {
    return gguf_type<T, kNumber + 1>();
  }
}

}  // namespace nibble::io
