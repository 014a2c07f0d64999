#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "core/error.h"

namespace nibble::capi {

/// Structs of later versions are no larger.
inline constexpr std::size_t kMostStructBytes = 4096;

/// What a caller has set, over `defaults`: fields beyond its struct_size stay as they are there. A
/// new field goes to the end of a struct, behind no padding, and its 0 means the default. Throws
/// kUsage for a size that is none, and for a struct of a later version that asks for what is not
/// known here.
template <typename Options>
Options options_of(const Options* given, const Options& defaults) {
  static_assert(std::is_trivially_copyable_v<Options>);
  Options options = defaults;
  if (given == nullptr) {
    return options;
  }
  const std::size_t size = given->struct_size;
  core::require(size >= sizeof(std::size_t) && size <= kMostStructBytes, core::ErrorKind::kUsage,
                "the struct_size of the options is {}; their _init function sets it", size);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t at = sizeof(Options); at < size; ++at) {
    core::require(bytes[at] == 0, core::ErrorKind::kUsage,
                  "the options have a field that this version of the library does not know");
  }
  std::memcpy(&options, given, std::min(size, sizeof(Options)));
  options.struct_size = sizeof(Options);
  return options;
}

/// Fills as much as the caller's struct has room for; the rest becomes 0.
template <typename Options>
void fill(Options* options, std::size_t size, Options values) {
  if (options == nullptr || size < sizeof(std::size_t)) {
    return;
  }
  std::memset(static_cast<void*>(options), 0, size);
  values.struct_size = size;
  std::memcpy(options, &values, std::min(size, sizeof(Options)));
}

}  // namespace nibble::capi
