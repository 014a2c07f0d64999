#include "ops/cuda/packed/unit_rows.h"

#include <algorithm>

#include "core/error.h"
#include "ops/cuda/packed/book_table.h"

namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

constexpr std::int64_t kSmallestGroup = 16;
constexpr std::int64_t kSmallGroup = 32;
constexpr int kByteBits = 8;

}  // namespace

bool wants_units(const formats::Scheme& scheme) {
  return !formats::is_dense(scheme) && !formats::is_sparse(scheme);
}

bool has_units(const formats::Scheme& scheme) {
  const bool is_known =
      formats::is_integer(scheme) || formats::has_book(scheme) || scheme.code.bits == kByteBits;
  return is_known && wants_units(scheme) && !formats::has_minima(scheme) &&
         !formats::has_supers(scheme) && scheme.scale.group % kSmallestGroup == 0 &&
         scheme.activation.group % kSmallestGroup == 0;
}

UnitFormat unit_format_of(const formats::Scheme& scheme) {
  core::require(has_units(scheme), core::ErrorKind::kUsage,
                "{} has no kernels on a GPU yet; use --device cpu", scheme);
  UnitFormat format;
  if (scheme.scale.group % kSmallGroup != 0 || scheme.activation.group % kUnitInputs != 0) {
    format.groups = kUnitInputs / kSmallestGroup;
  } else {
    format.groups = scheme.scale.group % kUnitInputs == 0 ? 1 : kUnitInputs / kSmallGroup;
  }
  if (formats::is_integer(scheme)) {
    if (scheme.code.bits == 8) {
      format.codes = !formats::has_zeros(scheme) ? CodeKind::kInt8 : CodeKind::kInt8WithZeros;
    } else {
      format.codes = !formats::has_zeros(scheme) ? CodeKind::kInt4 : CodeKind::kInt4WithZeros;
    }
    return format;
  }
  format.codes = formats::has_book(scheme) ? CodeKind::kBook : CodeKind::kBytes;
  format.scales =
      scheme.scale.type == formats::ScaleType::kE8m0 ? ScaleKind::kBf16 : ScaleKind::kF16;
  return format;
}

std::int64_t UnitRows::count() const {
  std::int64_t sum = 0;
  for (const PackedWeight* weight : weights) {
    sum += weight->n;
  }
  return sum;
}

UnitRows::Place UnitRows::place(std::int64_t row) const {
  if (pairs) {
    return {static_cast<std::size_t>(row / kPairRows % 2),
            row / (2 * kPairRows) * kPairRows + row % kPairRows};
  }
  std::size_t weight = 0;
  while (row >= weights[weight]->n) {
    row -= weights[weight++]->n;
  }
  return {weight, row};
}

float matrix_scale(const PackedWeight& weight) {
  return weight.scheme.scale.type == formats::ScaleType::kE4m3 ? weight.global.data<float>()[0]
                                                               : 1.0f;
}

void write_tables(const UnitRows& rows, std::int64_t first, std::span<std::int8_t> tables,
                  std::span<float> factors) {
  const std::int64_t count = std::min(std::ssize(factors), rows.count() - first);
  formats::BookValues known;  // most schemes have one book for all rows
  Int8Table entries;
  for (std::int64_t r = 0; r < count; ++r) {
    const UnitRows::Place place = rows.place(first + r);
    const PackedWeight& weight = *rows.weights[place.weight];
    const formats::BookValues book = book_of(weight, place.row);
    if (book != known) {
      entries = book_entries(book);
      known = book;
    }
    write_parts(entries.entries, tables.subspan(static_cast<std::size_t>(r) * 16).first<16>());
    factors[static_cast<std::size_t>(r)] = entries.unit * matrix_scale(weight);
  }
}

}  // namespace nibble::ops::cuda
