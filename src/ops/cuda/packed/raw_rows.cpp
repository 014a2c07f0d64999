#include "ops/cuda/packed/raw_rows.h"

#include <array>
#include <cstring>

#include "core/error.h"
#include "formats/packed_weight.h"
#include "ops/cuda/packed/unit_rows.h"

namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

// Those of which each row has its own, but books.
std::array<const core::Tensor*, 5> row_parts(const PackedWeight& weight) {
  return {&weight.codes, &weight.scales, &weight.zeros, &weight.minima, &weight.units};
}

std::int64_t row_bytes(const core::Tensor& part) {
  return part.empty() ? 0 : part.bytes() / part.dim(0);
}

StoredScale stored_scale(const formats::Scheme& scheme) {
  if (scheme.scale.type == formats::ScaleType::kE8m0) {
    return StoredScale::kE8m0;
  }
  if (scheme.scale.type == formats::ScaleType::kE4m3) {
    return StoredScale::kE4m3;
  }
  return scheme.scale.type == formats::ScaleType::kUnits ? StoredScale::kUnits : StoredScale::kF16;
}

}  // namespace

RawRows raw_layout(const UnitRows& rows) {
  const PackedWeight& front = *rows.weights.front();
  core::require(!formats::has_supers(front.scheme), core::ErrorKind::kFailed,
                "{} goes into units by way of block_weight()", front.scheme);
  RawRows layout;
  layout.k = front.k;
  layout.group = group_size(front.scheme, front.k);
  layout.bits = front.scheme.code.bits;
  layout.shift = code_shift(front.scheme);
  layout.scale_kind = stored_scale(front.scheme);
  layout.scales = row_bytes(front.codes);
  layout.zeros = layout.scales + row_bytes(front.scales);
  layout.minima = layout.zeros + row_bytes(front.zeros);
  layout.unit = layout.minima + row_bytes(front.minima);
  layout.stride = layout.unit + row_bytes(front.units);
  return layout;
}

void read_raw_rows(const UnitRows& rows, const RawRows& layout, std::int64_t first,
                   std::int64_t count, std::byte* target) {
  for (std::int64_t r = 0; r < count; ++r) {
    const UnitRows::Place place = rows.place(first + r);
    std::byte* to = target + r * layout.stride;
    for (const core::Tensor* part : row_parts(*rows.weights[place.weight])) {
      if (const std::int64_t bytes = row_bytes(*part); bytes > 0) {
        const std::int64_t row = part->dim(0) == 1 ? 0 : place.row;  // a scale for all rows
        std::memcpy(to, part->raw() + row * bytes, static_cast<std::size_t>(bytes));
        to += bytes;
      }
    }
  }
}

}  // namespace nibble::ops::cuda
