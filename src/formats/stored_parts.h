#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"
#include "formats/packed_weight.h"

namespace nibble::formats {

/// One tensor of a compressed weight, as it is stored.
struct StoredPart {
  std::string_view name;  // "codes"; in a checkpoint "<layer>.codes"
  core::Tensor PackedWeight::*tensor = nullptr;
  core::DType dtype = core::DType::kU8;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::optional<core::DType> older = {};  // that of files of earlier versions
  int bits = 0;  // columns are bytes that hold `codes` numbers of so many bits, LSB first; 0: not
  std::int64_t codes = 0;
};

/// The one table of what a scheme stores for a weight of n outputs and k inputs, in the order of
/// packed_weight.h. The scheme must be valid and fit the shape. `kept`: groups that the rows, or
/// tiles, of block-sparse rows store; by default all of them.
std::vector<StoredPart> stored_parts(const Scheme& scheme, std::int64_t n, std::int64_t k,
                                     std::optional<std::int64_t> kept = std::nullopt);

/// The bytes of all of them; the most, for block-sparse rows.
std::int64_t stored_bytes(const Scheme& scheme, std::int64_t n, std::int64_t k);

}  // namespace nibble::formats
