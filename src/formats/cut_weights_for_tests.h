#pragma once

#include <cstdint>
#include <vector>

#include "core/float16.h"
#include "formats/format.h"
#include "formats/stored_parts.h"

/// Weights [rows, inputs] for tests that cut them.
namespace nibble::formats {

/// Of blocks as GGUF files have them, which are read and not made: each byte is its place's, and
/// numbers in 16 bits lie between 1 and 2.
inline PackedWeight weight_of_blocks(const char* scheme, std::int64_t rows, std::int64_t inputs) {
  PackedWeight weight;
  weight.scheme = parse_scheme(scheme);
  weight.n = rows;
  weight.k = inputs;
  for (const StoredPart& part : stored_parts(weight.scheme, weight.n, weight.k)) {
    core::Tensor tensor = core::Tensor::zeros(part.dtype, {part.rows, part.columns});
    for (std::int64_t i = 0; i < part.rows * part.columns; ++i) {
      if (part.dtype == core::DType::kF16) {
        tensor.mutable_data<core::Fp16>()[static_cast<std::size_t>(i)].bits =
            static_cast<std::uint16_t>(0x3c00 + i % 1024);
      } else {
        tensor.mutable_raw()[i] = static_cast<std::byte>(i * 7 % 64);
      }
    }
    weight.*part.tensor = tensor;
  }
  return weight;
}

/// Of a learned book for each row, or one for all.
inline PackedWeight weight_with_book(const char* scheme, std::int64_t rows, std::int64_t inputs) {
  const Scheme parsed = parse_scheme(scheme);
  PackedWeightBuilder builder(parsed, rows, inputs);
  const auto size = static_cast<std::size_t>(book_size(parsed));
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<float> book(size);
    for (std::size_t i = 0; i < size; ++i) {
      book[i] = static_cast<float>(i) - 3.0f - 0.25f * static_cast<float>(row);
    }
    if (row == 0 || parsed.code.book == Book::kPerRow) {
      builder.set_book(row, book);
    }
    for (std::int64_t group = 0; group < groups_per_row(parsed, inputs); ++group) {
      builder.set_group(row, group, {0.5f + static_cast<float>(row + group), 0});
    }
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(inputs));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<std::uint8_t>((i * 5 + static_cast<std::size_t>(row)) % size);
    }
    builder.set_codes(row, codes);
  }
  return builder.finish();
}

inline std::vector<float> decoded(const PackedWeight& weight, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(weight.k));
  decode_row(weight, row, values);
  return values;
}

}  // namespace nibble::formats
