#include "ops/cuda/packed/unit_rows.h"

#include <algorithm>

#include "core/error.h"
#include "formats/trellis/trellis_code.h"
#include "ops/cuda/packed/book_table.h"
#include "ops/cuda/packed/code_kinds.h"

namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

constexpr std::int64_t kSmallestGroup = 16;
constexpr std::int64_t kSmallGroup = 32;
constexpr int kByteBits = 8;
constexpr int kBitsOfHalfTable = 3;  // whose codes look up the first half of a table

GroupOffset offset_of(const formats::Scheme& scheme) {
  return formats::has_minima(scheme)  ? GroupOffset::kShift
         : formats::has_zeros(scheme) ? GroupOffset::kZero
                                      : GroupOffset::kNone;
}

// Of a code in units: kernels that read planes take activations of 16 bits and groups of 32 n
// inputs without minima.
int unit_bits(const formats::Scheme& scheme, const UnitFormat& format) {
  const bool planes = scheme.activation.is_float() && !formats::has_minima(scheme) &&
                      format.groups <= kUnitInputs / kSmallGroup;
  return planes || scheme.code.bits > 4 ? scheme.code.bits : 4;
}

}  // namespace

Refusal layout_refusal(const formats::Scheme& scheme) {
  if (formats::is_dense(scheme)) {
    return Reason("weights are dense");
  }
  if (formats::is_block_sparse(scheme)) {
    return Reason("weights are block-sparse rows");
  }
  if (formats::keeps_two_of_four(scheme)) {
    return Reason("two of each four weights are stored");
  }
  if (formats::has_trellis(scheme)) {
    return Reason("weights are trellis codes");
  }
  return std::nullopt;
}

Refusal unit_refusal(const formats::Scheme& scheme) {
  if (const Refusal refused = layout_refusal(scheme)) {
    return refused;
  }
  if (!formats::is_integer(scheme) && !formats::has_book(scheme) && scheme.code.bits != kByteBits) {
    return Reason("codes are neither integers nor entries of a book nor bytes");
  }
  if (scheme.scale.group % kSmallestGroup != 0 || scheme.activation.group % kSmallestGroup != 0) {
    return Reason("groups are no multiples of {} inputs", kSmallestGroup);
  }
  return std::nullopt;
}

UnitFormat unit_format_of(const formats::Scheme& scheme) {
  if (const Refusal refused = unit_refusal(scheme)) {
    core::fail(core::ErrorKind::kUsage, "{} has no kernels on a GPU yet: {}; use --device cpu",
               scheme, refused->text());
  }
  UnitFormat format;
  if (scheme.scale.group % kSmallGroup != 0 || scheme.activation.group % kUnitInputs != 0) {
    format.groups = kUnitInputs / kSmallestGroup;
  } else {
    format.groups = scheme.scale.group % kUnitInputs == 0 ? 1 : kUnitInputs / kSmallGroup;
  }
  const int bits = unit_bits(scheme, format);
  if (formats::is_integer(scheme)) {
    format.codes = integer_kind(bits, offset_of(scheme));
    return format;
  }
  format.codes = formats::has_book(scheme) ? book_kind(bits) : CodeKind::kBytes;
  format.scales =
      scheme.scale.type == formats::ScaleType::kE8m0 ? ScaleKind::kBf16 : ScaleKind::kF16;
  return format;
}

int code_shift(const formats::Scheme& scheme) {
  const CodeKind codes = unit_format_of(scheme).codes;
  const bool moved = codes == CodeKind::kInt4 || codes == CodeKind::kInt4WithShifts;
  return moved ? 8 - (1 << (scheme.code.bits - 1)) : 0;
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
      if (weight.scheme.code.bits <= kBitsOfHalfTable) {
        std::fill(entries.entries.begin() + 8, entries.entries.end(), std::int8_t{0});
      }
      known = book;
    }
    write_parts(entries.entries, tables.subspan(static_cast<std::size_t>(r) * 16).first<16>());
    factors[static_cast<std::size_t>(r)] = entries.unit * matrix_scale(weight);
  }
}

}  // namespace nibble::ops::cuda
