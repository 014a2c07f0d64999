#include "formats/block_sparse.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/bit_packing.h"
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

/// Which groups [n, groups] of a weight hold a code other than their zero.
std::vector<bool> used_groups(const PackedWeight& full) {
  const std::int64_t groups = groups_per_row(full.scheme, full.k);
  const std::int64_t size = full.scheme.scale.group;
  std::vector<bool> used(index(full.n * groups));
  std::vector<std::uint8_t> codes(index(full.k));
  std::vector<std::uint8_t> zeros(index(groups));
  for (std::int64_t row = 0; row < full.n; ++row) {
    unpack_codes(full, row, codes);
    unpack_zeros(full, row, zeros);
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto first = codes.begin() + g * size;
      used[index(row * groups + g)] = std::any_of(
          first, first + size, [&](std::uint8_t code) { return code != zeros[index(g)]; });
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
  const auto ends = weight.row_index.data<std::int32_t>().subspan(index(row), 2);
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

Scheme full_scheme(Scheme scheme) {
  scheme.sparsity = Sparsity::kNone;
  return scheme;
}

PackedWeight full_row(const PackedWeight& weight, std::int64_t row) {
  const Scheme scheme = full_scheme(weight.scheme);
  PackedWeight full = empty_weight(scheme, 1, weight.k);
  const int bits = scheme.code.bits;
  const std::int64_t size = scheme.scale.group;
  const std::int64_t bytes = weight.codes.dim(1);
  std::vector<std::uint8_t> codes(index(weight.k), has_zeros(scheme) ? 0 : middle_of(scheme));
  const auto [begin, end] = stored_groups_of(weight, row);
  for (std::int64_t at = begin; at < end; ++at) {
    const std::int64_t group = stored_group(weight, at);
    unpack(weight.codes.data<std::uint8_t>().subspan(index(at * bytes), index(bytes)), bits,
           std::span(codes).subspan(index(group * size), index(size)));
    full.scales.mutable_data<Fp16>()[index(group)] = weight.scales.data<Fp16>()[index(at)];
    if (has_zeros(scheme)) {
      set_code(full.zeros.mutable_data<std::uint8_t>(), bits, group,
               static_cast<std::uint8_t>(get_code(weight.zeros.data<std::uint8_t>(), bits, at)));
    }
  }
  pack(codes, bits, full.codes.mutable_data<std::uint8_t>());
  full.input_scale = weight.input_scale;
  return full;
}

PackedWeight to_block_sparse(const PackedWeight& full) {
  Scheme scheme = full.scheme;
  scheme.sparsity = Sparsity::kGroups;
  validate(scheme);
  require_shape(scheme, full.n, full.k);
  const std::vector<bool> used = used_groups(full);
  const std::int64_t groups = groups_per_row(scheme, full.k);
  PackedWeight weight =
      empty_weight(scheme, full.n, full.k, std::count(used.begin(), used.end(), true));
  const int bits = scheme.code.bits;
  const std::int64_t bytes = weight.codes.dim(1);
  const std::int64_t row_bytes = full.codes.dim(1);
  const auto ends = weight.row_index.mutable_data<std::int32_t>();
  std::int32_t at = 0;
  for (std::int64_t row = 0; row < full.n; ++row) {
    for (std::int64_t g = 0; g < groups; ++g) {
      if (!used[index(row * groups + g)]) {
        continue;
      }
      std::copy_n(full.codes.data<std::uint8_t>().begin() + row * row_bytes + g * bytes, bytes,
                  weight.codes.mutable_data<std::uint8_t>().begin() + at * bytes);
      weight.scales.mutable_data<Fp16>()[index(at)] =
          full.scales.data<Fp16>()[index(row * groups + g)];
      if (has_zeros(scheme)) {
        const std::int64_t zero_bytes = full.zeros.dim(1);
        const auto zeros =
            full.zeros.data<std::uint8_t>().subspan(index(row * zero_bytes), index(zero_bytes));
        set_code(weight.zeros.mutable_data<std::uint8_t>(), bits, at,
                 static_cast<std::uint8_t>(get_code(zeros, bits, g)));
      }
      set_group(weight, at, g);
      ++at;
    }
    ends[index(row + 1)] = at;
  }
  weight.input_scale = full.input_scale;
  validate(weight, "weight");
  return weight;
}

PackedWeight groups_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end,
                       std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> taken;  // of the groups that are stored
  std::vector<std::int32_t> ends = {0};
  for (std::int64_t row = begin; row < end; ++row) {
    const StoredGroups stored = stored_groups_of(weight, row);
    for (std::int64_t at = stored.begin; at < stored.end; ++at) {
      if (const std::int64_t group = stored_group(weight, at); first <= group && group < last) {
        taken.push_back(at);
      }
    }
    ends.push_back(static_cast<std::int32_t>(taken.size()));
  }
  const Scheme& scheme = weight.scheme;
  const auto kept = static_cast<std::int64_t>(taken.size());
  if (taken.empty()) {
    std::fill(ends.begin() + 1, ends.end(), 1);
  }
  PackedWeight slice = empty_weight(scheme, end - begin, (last - first) * scheme.scale.group,
                                    std::max<std::int64_t>(kept, 1));
  std::copy(ends.begin(), ends.end(), slice.row_index.mutable_data<std::int32_t>().begin());
  const std::int64_t bytes = weight.codes.dim(1);
  for (std::int64_t to = 0; to < kept; ++to) {
    const std::int64_t at = taken[index(to)];
    std::copy_n(weight.codes.data<std::uint8_t>().begin() + at * bytes, bytes,
                slice.codes.mutable_data<std::uint8_t>().begin() + to * bytes);
    slice.scales.mutable_data<Fp16>()[index(to)] = weight.scales.data<Fp16>()[index(at)];
    if (has_zeros(scheme)) {
      set_code(slice.zeros.mutable_data<std::uint8_t>(), scheme.code.bits, to,
               static_cast<std::uint8_t>(
                   get_code(weight.zeros.data<std::uint8_t>(), scheme.code.bits, at)));
    }
    set_group(slice, to, stored_group(weight, at) - first);
  }
  slice.input_scale = weight.input_scale;
  return slice;
}

}  // namespace nibble::formats
