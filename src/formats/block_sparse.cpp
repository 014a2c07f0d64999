#include "formats/block_sparse.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/row_unit.h"
#include "formats/stored_parts.h"

namespace nibble::formats {
namespace {

using core::Fp16;
using core::Tensor;

constexpr std::int64_t kByteGroups = 256;  // whose indices fit a byte
constexpr int kByteBits = 8;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// A weight whose parts are all zeros.
PackedWeight empty_weight(const Scheme& scheme, std::int64_t n, std::int64_t k,
                          std::optional<std::int64_t> kept = std::nullopt) {
  PackedWeight weight;
  weight.scheme = scheme;
  weight.n = n;
  weight.k = k;
  for (const StoredPart& part : stored_parts(scheme, n, k, kept)) {
    weight.*part.tensor = Tensor::zeros(part.dtype, {part.rows, part.columns});
  }
  return weight;
}

void set_group(PackedWeight& weight, std::int64_t at, std::int64_t group) {
  const std::int64_t bytes = weight.groups.dim(1);
  auto* const place = weight.groups.mutable_data<std::uint8_t>().data() + at * bytes;
  for (std::int64_t byte = 0; byte < bytes; ++byte) {
    place[byte] = static_cast<std::uint8_t>(group >> (kByteBits * byte));
  }
}

std::uint8_t middle_of(const Scheme& scheme) {
  return static_cast<std::uint8_t>(1 << (scheme.code.bits - 1));
}

/// One group of one row.
struct GroupValues {
  std::span<const std::byte> weights;  // codes, or floats
  std::uint16_t scale = 0;             // with codes: the bits that are stored
  std::uint8_t zero = 0;               // with zeros
};

/// The part that holds the weights of groups, of a weight with all of them or of block-sparse rows.
Tensor PackedWeight::*weights_part(const Scheme& scheme) {
  if (has_codes(scheme)) {
    return &PackedWeight::codes;
  }
  return is_block_sparse(scheme) ? &PackedWeight::values : &PackedWeight::dense;
}

/// Of a group of block-sparse rows.
std::int64_t weight_bytes(const Scheme& scheme) {
  const std::int64_t group = scheme.scale.group;
  return has_codes(scheme) ? packed_bytes(group, scheme.code.bits)
                           : group * core::size_of(scheme.code.dense);
}

std::int64_t row_bytes(const Tensor& part) {
  return part.dim(1) * core::size_of(part.dtype());
}

/// Bits of entry `at` in row `row` of the scales.
std::uint16_t scale_bits(const PackedWeight& weight, std::int64_t row, std::int64_t at) {
  if (weight.scheme.scale.type == ScaleType::kUnits) {
    const std::int64_t bytes = weight.scales.dim(1);
    return get_code(weight.scales.data<std::uint8_t>().data() + row * bytes, kUnitScaleBits, at);
  }
  return weight.scales.data<Fp16>()[index(row * weight.scales.dim(1) + at)].bits;
}

void set_scale_bits(PackedWeight& weight, std::int64_t row, std::int64_t at, std::uint16_t bits) {
  const std::int64_t columns = weight.scales.dim(1);
  if (weight.scheme.scale.type == ScaleType::kUnits) {
    set_code(
        weight.scales.mutable_data<std::uint8_t>().subspan(index(row * columns), index(columns)),
        kUnitScaleBits, at, static_cast<std::uint8_t>(bits));
  } else {
    weight.scales.mutable_data<Fp16>()[index(row * columns + at)] = Fp16{bits};
  }
}

/// What stands beside the groups of `from`: that of its rows from `begin` on.
void set_others(PackedWeight& to, const PackedWeight& from, std::int64_t begin) {
  to.input_scale = from.input_scale;
  if (from.scheme.scale.type == ScaleType::kUnits) {
    const auto units = from.units.data<std::uint8_t>().subspan(index(begin), index(to.n));
    std::copy(units.begin(), units.end(), to.units.mutable_data<std::uint8_t>().begin());
  }
  if (has_learned_book(from.scheme)) {
    to.book =
        from.scheme.code.book == Book::kPerRow ? from.book.rows(begin, begin + to.n) : from.book;
  }
}

/// Of a block-sparse weight.
GroupValues stored_values(const PackedWeight& weight, std::int64_t entry) {
  const Scheme& scheme = weight.scheme;
  const std::int64_t bytes = weight_bytes(scheme);
  GroupValues values{{(weight.*weights_part(scheme)).raw() + entry * bytes, index(bytes)}, {}};
  if (has_codes(scheme)) {
    values.scale = scale_bits(weight, 0, entry);
  }
  if (has_zeros(scheme)) {
    values.zero = static_cast<std::uint8_t>(
        get_code(weight.zeros.data<std::uint8_t>().data(), scheme.code.bits, entry));
  }
  return values;
}

void set_stored_values(PackedWeight& weight, std::int64_t entry, const GroupValues& values) {
  const Scheme& scheme = weight.scheme;
  std::byte* const place = (weight.*weights_part(scheme)).mutable_raw();
  std::copy(values.weights.begin(), values.weights.end(),
            place + entry * std::ssize(values.weights));
  if (has_codes(scheme)) {
    set_scale_bits(weight, 0, entry, values.scale);
  }
  if (has_zeros(scheme)) {
    set_code(weight.zeros.mutable_data<std::uint8_t>(), scheme.code.bits, entry, values.zero);
  }
}

/// Of a weight with all groups, `bytes` of weights each.
GroupValues full_values(const PackedWeight& full, std::int64_t row, std::int64_t group,
                        std::int64_t bytes) {
  const Scheme& scheme = full.scheme;
  const Tensor& part = full.*weights_part(scheme);
  GroupValues values{{part.raw() + row * row_bytes(part) + group * bytes, index(bytes)}, {}};
  if (has_codes(scheme)) {
    values.scale = scale_bits(full, row, group);
  }
  if (has_zeros(scheme)) {
    values.zero = static_cast<std::uint8_t>(get_code(
        full.zeros.data<std::uint8_t>().data() + row * full.zeros.dim(1), scheme.code.bits, group));
  }
  return values;
}

void set_full_values(PackedWeight& full, std::int64_t row, std::int64_t group,
                     const GroupValues& values) {
  const Scheme& scheme = full.scheme;
  Tensor& part = full.*weights_part(scheme);
  std::copy(values.weights.begin(), values.weights.end(),
            part.mutable_raw() + row * row_bytes(part) + group * std::ssize(values.weights));
  if (has_codes(scheme)) {
    set_scale_bits(full, row, group, values.scale);
  }
  if (has_zeros(scheme)) {
    const std::int64_t zero_bytes = full.zeros.dim(1);
    set_code(
        full.zeros.mutable_data<std::uint8_t>().subspan(index(row * zero_bytes), index(zero_bytes)),
        scheme.code.bits, group, values.zero);
  }
}

/// A weight with all groups, which are 0.
PackedWeight weight_of_zeros(const Scheme& scheme, std::int64_t n, std::int64_t k) {
  PackedWeight full = empty_weight(scheme, n, k);
  if (is_integer(scheme) && !has_zeros(scheme)) {
    const std::vector<std::uint8_t> codes(index(k), middle_of(scheme));
    const std::int64_t bytes = full.codes.dim(1);
    for (std::int64_t row = 0; row < n; ++row) {
      pack(codes, scheme.code.bits,
           full.codes.mutable_data<std::uint8_t>().subspan(index(row * bytes), index(bytes)));
    }
  }
  return full;
}

/// Whether weights of a row are other than 0.
std::vector<bool> used_weights(const PackedWeight& full, std::int64_t row) {
  std::vector<float> values(index(full.k));
  decode_row(full, row, values);
  std::vector<bool> used(values.size());
  std::transform(values.begin(), values.end(), used.begin(),
                 [](float value) { return value != 0.0f; });
  return used;
}

/// Of block-sparse rows with one group: no scale of 7 bits is 0, so codes equal their zeros.
void set_to_zeros(PackedWeight& weight) {
  const Scheme& scheme = weight.scheme;
  const std::uint8_t zero = has_zeros(scheme) ? 0 : middle_of(scheme);
  for (std::int64_t entry = 0; entry < pattern_rows(scheme); ++entry) {
    set_scale_bits(weight, 0, entry, 1);
    for (std::int64_t i = 0; i < scheme.scale.group; ++i) {
      set_code(
          weight.codes.mutable_data<std::uint8_t>().subspan(index(entry * weight_bytes(scheme))),
          scheme.code.bits, i, zero);
    }
  }
}

/// Which groups [n / tile, groups] of `scheme` hold a weight other than 0.
std::vector<bool> used_groups(const PackedWeight& full, const Scheme& scheme) {
  const std::int64_t tile = pattern_rows(scheme);
  const std::int64_t groups = groups_per_row(scheme, full.k);
  const std::int64_t size = scheme.scale.group;
  std::vector<bool> used(index(full.n / tile * groups));
  for (std::int64_t row = 0; row < full.n; ++row) {
    const std::vector<bool> weights = used_weights(full, row);
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto first = weights.begin() + g * size;
      if (std::find(first, first + size, true) != first + size) {
        used[index(row / tile * groups + g)] = true;
      }
    }
  }
  if (std::find(used.begin(), used.end(), true) == used.end()) {
    used[0] = true;
  }
  return used;
}

}  // namespace

std::int64_t group_index_bytes(const Scheme& scheme, std::int64_t k) {
  return groups_per_row(scheme, k) <= kByteGroups ? 1 : 2;
}

StoredGroups stored_groups_of(const PackedWeight& weight, std::int64_t row) {
  const std::int64_t tile = row / pattern_rows(weight.scheme);
  const auto ends = weight.row_index.data<std::int32_t>().subspan(index(tile), 2);
  return {ends[0], ends[1]};
}

std::int64_t stored_group_count(const PackedWeight& weight) {
  return weight.row_index.data<std::int32_t>().back();
}

std::int64_t stored_group(const PackedWeight& weight, std::int64_t at) {
  const auto bytes = weight.groups.data<std::uint8_t>();
  if (weight.groups.dim(1) == 1) {
    return bytes[index(at)];
  }
  return bytes[index(2 * at)] | bytes[index(2 * at + 1)] << kByteBits;
}

std::int64_t stored_entry(const PackedWeight& weight, std::int64_t at, std::int64_t row) {
  const std::int64_t tile = pattern_rows(weight.scheme);
  return at * tile + row % tile;
}

Fp16 stored_scale(const PackedWeight& weight, std::int64_t entry, std::int64_t row) {
  const std::uint16_t bits = scale_bits(weight, 0, entry);
  if (weight.scheme.scale.type != ScaleType::kUnits) {
    return Fp16{bits};
  }
  const std::uint8_t unit = weight.units.data<std::uint8_t>()[index(row)];
  return core::to_fp16(scale_of_units(static_cast<std::uint8_t>(bits), unit_value(unit)));
}

Scheme full_scheme(Scheme scheme) {
  scheme.sparsity = Sparsity::kNone;
  if (!has_codes(scheme)) {
    scheme.scale = Scale();
  }
  return scheme;
}

void decode_stored_floats(const PackedWeight& weight, std::int64_t row, std::span<float> out) {
  const std::int64_t group = weight.scheme.scale.group;
  std::fill(out.begin(), out.end(), 0.0f);
  for_each_stored_group(weight, row, [&](std::int64_t at, std::int64_t place) {
    core::convert_to_float32(weight.values.dtype(), stored_values(weight, at).weights.data(), group,
                             out.data() + place * group);
  });
}

void clear_other_groups(const PackedWeight& weight, std::int64_t row, std::span<float> out) {
  const std::int64_t group = weight.scheme.scale.group;
  std::int64_t cleared = 0;  // inputs that are done
  for_each_stored_group(weight, row, [&](std::int64_t, std::int64_t place) {
    std::fill(out.begin() + cleared, out.begin() + place * group, 0.0f);
    cleared = (place + 1) * group;
  });
  std::fill(out.begin() + cleared, out.end(), 0.0f);
}

PackedWeight full_row(const PackedWeight& weight, std::int64_t row) {
  PackedWeight full = weight_of_zeros(full_scheme(weight.scheme), 1, weight.k);
  for_each_stored_group(weight, row, [&](std::int64_t at, std::int64_t group) {
    set_full_values(full, 0, group, stored_values(weight, stored_entry(weight, at, row)));
  });
  set_others(full, weight, row);
  return full;
}

PackedWeight to_block_sparse(const PackedWeight& full, const Scheme& scheme) {
  validate(scheme);
  require_shape(scheme, full.n, full.k);
  core::require(is_block_sparse(scheme) && full_scheme(scheme) == full.scheme,
                core::ErrorKind::kFailed, "{} is not {} with all groups", full.scheme, scheme);
  const std::int64_t tile = pattern_rows(scheme);
  const std::int64_t bytes = weight_bytes(scheme);
  const std::vector<bool> used = used_groups(full, scheme);
  const std::int64_t groups = groups_per_row(scheme, full.k);
  PackedWeight weight =
      empty_weight(scheme, full.n, full.k, std::count(used.begin(), used.end(), true));
  const auto ends = weight.row_index.mutable_data<std::int32_t>();
  std::int32_t at = 0;
  for (std::int64_t first = 0; first < full.n; first += tile) {
    for (std::int64_t g = 0; g < groups; ++g) {
      if (!used[index(first / tile * groups + g)]) {
        continue;
      }
      for (std::int64_t row = first; row < first + tile; ++row) {
        set_stored_values(weight, stored_entry(weight, at, row), full_values(full, row, g, bytes));
      }
      set_group(weight, at, g);
      ++at;
    }
    ends[index(first / tile + 1)] = at;
  }
  set_others(weight, full, 0);
  validate(weight, "weight");
  return weight;
}

PackedWeight with_row_pattern(const PackedWeight& weight) {
  if (!has_tile_pattern(weight.scheme)) {
    return weight;
  }
  Scheme scheme = weight.scheme;
  scheme.sparsity = Sparsity::kGroups;
  PackedWeight rows = empty_weight(scheme, weight.n, weight.k,
                                   stored_group_count(weight) * pattern_rows(weight.scheme));
  const auto ends = rows.row_index.mutable_data<std::int32_t>();
  std::int32_t to = 0;
  for (std::int64_t row = 0; row < weight.n; ++row) {
    for_each_stored_group(weight, row, [&](std::int64_t at, std::int64_t group) {
      set_stored_values(rows, to, stored_values(weight, stored_entry(weight, at, row)));
      set_group(rows, to++, group);
    });
    ends[index(row + 1)] = to;
  }
  set_others(rows, weight, 0);
  return rows;
}

PackedWeight groups_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end,
                       std::int64_t first, std::int64_t last) {
  const Scheme& scheme = weight.scheme;
  const std::int64_t tile = pattern_rows(scheme);
  core::require(
      begin % tile == 0 && end % tile == 0, core::ErrorKind::kUsage,
      "{}: {} rows keep the same groups: rows [{}, {}) of {} cannot be taken out of them; use "
      "another number of ranks",
      scheme, tile, begin, end, weight.n);
  std::vector<std::int64_t> taken;  // of the groups that are stored
  std::vector<std::int32_t> ends = {0};
  for (std::int64_t row = begin; row < end; row += tile) {
    for_each_stored_group(weight, row, [&](std::int64_t at, std::int64_t group) {
      if (first <= group && group < last) {
        taken.push_back(at);
      }
    });
    ends.push_back(static_cast<std::int32_t>(taken.size()));
  }
  const auto kept = static_cast<std::int64_t>(taken.size());
  if (taken.empty()) {
    std::fill(ends.begin() + 1, ends.end(), 1);
  }
  PackedWeight slice = empty_weight(scheme, end - begin, (last - first) * scheme.scale.group,
                                    std::max<std::int64_t>(kept, 1));
  std::copy(ends.begin(), ends.end(), slice.row_index.mutable_data<std::int32_t>().begin());
  if (taken.empty() && scheme.scale.type == ScaleType::kUnits) {
    set_to_zeros(slice);
  }
  for (std::int64_t to = 0; to < kept; ++to) {
    const std::int64_t at = taken[index(to)];
    for (std::int64_t row = 0; row < tile; ++row) {
      set_stored_values(slice, stored_entry(slice, to, row),
                        stored_values(weight, stored_entry(weight, at, row)));
    }
    set_group(slice, to, stored_group(weight, at) - first);
  }
  set_others(slice, weight, begin);
  return slice;
}

}  // namespace nibble::formats
