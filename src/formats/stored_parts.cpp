#include "formats/stored_parts.h"

#include "formats/bit_packing.h"
#include "formats/block_sparse.h"
#include "formats/row_unit.h"

namespace nibble::formats {
namespace {

using core::DType;

// n rows of `codes` numbers of `bits` bits.
StoredPart packed_part(std::string_view name, core::Tensor PackedWeight::*tensor, std::int64_t n,
                       std::int64_t codes, int bits) {
  return {name, tensor, DType::kU8, n, packed_bytes(codes, bits), std::nullopt, bits, codes};
}

// [rows, groups], of n rows.
void add_scales(std::vector<StoredPart>& parts, const Scheme& scheme, std::int64_t n,
                std::int64_t k, ScaleShape shape) {
  const auto [rows, groups] = shape;
  switch (scheme.scale.type) {
    case ScaleType::kNone:
      return;
    case ScaleType::kF16:
      parts.push_back({"scales", &PackedWeight::scales, DType::kF16, rows, groups});
      return;
    case ScaleType::kUnits:
      parts.push_back(packed_part("scales", &PackedWeight::scales, rows, groups, kUnitScaleBits));
      parts.push_back({"units", &PackedWeight::units, DType::kU8, n, 1});
      return;
    case ScaleType::kMultiples:
      parts.push_back({"scales", &PackedWeight::scales, DType::kI8, rows, groups});
      parts.push_back({"supers", &PackedWeight::supers, DType::kF16, n, supers_per_row(k)});
      return;
    case ScaleType::kE8m0:
      parts.push_back({"scales", &PackedWeight::scales, DType::kU8, rows, groups});
      return;
    case ScaleType::kE4m3:
      parts.push_back({"scales", &PackedWeight::scales, DType::kU8, rows, groups});
      parts.push_back({"global", &PackedWeight::global, DType::kF32, 1, 1});
      return;
  }
}

void add_minima(std::vector<StoredPart>& parts, const Scheme& scheme, std::int64_t n,
                std::int64_t k) {
  const std::int64_t groups = groups_per_row(scheme, k);
  const DType type = has_supers(scheme) ? DType::kI8 : DType::kF16;
  parts.push_back({"minima", &PackedWeight::minima, type, n, groups});
  if (has_supers(scheme)) {
    parts.push_back({"min_supers", &PackedWeight::min_supers, DType::kF16, n, supers_per_row(k)});
  }
}

void add_book(std::vector<StoredPart>& parts, const Scheme& scheme, std::int64_t n) {
  if (has_learned_book(scheme)) {
    const std::int64_t books = scheme.code.book == Book::kPerRow ? n : 1;
    parts.push_back(
        {"book", &PackedWeight::book, DType::kF16, books, book_size(scheme), DType::kF32});
  }
}

// Which two of each four inputs are stored.
StoredPart index_part(std::int64_t n, std::int64_t k) {
  constexpr int kBits = 4;
  return packed_part("indices", &PackedWeight::indices, n, k / kFour, kBits);
}

std::vector<StoredPart> block_sparse_parts(const Scheme& scheme, std::int64_t n, std::int64_t k,
                                           std::int64_t kept) {
  const int bits = scheme.code.bits;
  const std::int64_t tile = pattern_rows(scheme);
  const std::int64_t groups = kept * tile;  // of all rows
  std::vector<StoredPart> parts;
  if (has_codes(scheme)) {
    parts.push_back(packed_part("codes", &PackedWeight::codes, groups, scheme.scale.group, bits));
    add_scales(parts, scheme, n, k, {1, groups});
  } else {
    parts.push_back(
        {"values", &PackedWeight::values, scheme.code.dense, groups, scheme.scale.group});
  }
  if (has_zeros(scheme)) {
    parts.push_back(packed_part("zeros", &PackedWeight::zeros, 1, groups, bits));
  }
  add_book(parts, scheme, n);
  if (scheme.activation.stored_scale) {
    parts.push_back({"input_scale", &PackedWeight::input_scale, DType::kF32, 1, 1});
  }
  parts.push_back({"row_index", &PackedWeight::row_index, DType::kI32, 1, n / tile + 1});
  parts.push_back(
      {"groups", &PackedWeight::groups, DType::kU8, kept, group_index_bytes(scheme, k)});
  return parts;
}

}  // namespace

std::vector<StoredPart> stored_parts(const Scheme& scheme, std::int64_t n, std::int64_t k,
                                     std::optional<std::int64_t> kept) {
  if (is_dense(scheme)) {
    return {{"weight", &PackedWeight::dense, scheme.code.dense, n, k}};
  }
  if (is_block_sparse(scheme)) {
    const std::int64_t all = n / pattern_rows(scheme) * groups_per_row(scheme, k);
    return block_sparse_parts(scheme, n, k, kept.value_or(all));
  }
  if (!has_codes(scheme)) {
    const std::int64_t values = stored_weights_per_row(scheme, k);
    return {{"values", &PackedWeight::values, scheme.code.dense, n, values}, index_part(n, k)};
  }
  std::vector<StoredPart> parts;
  const int bits = scheme.code.bits;
  parts.push_back(
      packed_part("codes", &PackedWeight::codes, n, stored_weights_per_row(scheme, k), bits));
  if (keeps_two_of_four(scheme)) {
    parts.push_back(index_part(n, k));
  }
  add_scales(parts, scheme, n, k, scale_shape(scheme, n, k));
  if (has_zeros(scheme)) {
    parts.push_back(packed_part("zeros", &PackedWeight::zeros, n, groups_per_row(scheme, k), bits));
  }
  if (has_minima(scheme)) {
    add_minima(parts, scheme, n, k);
  }
  add_book(parts, scheme, n);
  if (scheme.activation.stored_scale) {
    parts.push_back({"input_scale", &PackedWeight::input_scale, DType::kF32, 1, 1});
  }
  if (stores_order(scheme)) {
    parts.push_back({"permutation", &PackedWeight::permutation, DType::kI32, 1, k});
  }
  if (const std::int64_t tail = scheme.inputs.tail; tail != 0) {
    parts.push_back({"tail_codes", &PackedWeight::tail_codes, DType::kU8, n, tail});
    parts.push_back({"tail_scales", &PackedWeight::tail_scales, DType::kF16, n, 1});
  }
  return parts;
}

std::int64_t stored_bytes(const Scheme& scheme, std::int64_t n, std::int64_t k) {
  std::int64_t bytes = 0;
  for (const StoredPart& part : stored_parts(scheme, n, k)) {
    bytes += part.rows * part.columns * core::size_of(part.dtype);
  }
  return bytes;
}

}  // namespace nibble::formats
