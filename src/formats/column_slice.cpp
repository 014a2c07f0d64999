#include "formats/column_slice.h"

#include <cstring>
#include <numeric>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/block_sparse.h"
#include "formats/runs.h"
#include "formats/stored_parts.h"

namespace nibble::formats {
namespace {

using core::ErrorKind;

constexpr std::int64_t kCodesOfWholeBytes = 8;  // codes of any number of bits

// Inputs of each item of a part's rows; 0: the part belongs to all inputs.
std::int64_t inputs_of_item(const StoredPart& part, const Scheme& scheme) {
  if (part.tensor == &PackedWeight::dense) {
    return 1;
  }
  if (part.tensor == &PackedWeight::codes || part.tensor == &PackedWeight::values) {
    return keeps_two_of_four(scheme) ? 2 : 1;
  }
  if (part.tensor == &PackedWeight::indices) {
    return kFour;
  }
  if (part.tensor == &PackedWeight::supers || part.tensor == &PackedWeight::min_supers) {
    return kSuperGroup;
  }
  const bool of_groups = part.tensor == &PackedWeight::scales ||
                         part.tensor == &PackedWeight::zeros ||
                         part.tensor == &PackedWeight::minima;
  return of_groups ? scheme.scale.group : 0;
}

// Codes [begin, end) of a row, from a byte of `to` on.
void copy_codes(const std::uint8_t* from, int bits, std::int64_t begin, std::int64_t end,
                std::span<std::uint8_t> to) {
  if (begin % kCodesOfWholeBytes == 0 && (end - begin) % kCodesOfWholeBytes == 0) {
    std::memcpy(to.data(), from + packed_bytes(begin, bits),
                static_cast<std::size_t>(packed_bytes(end - begin, bits)));
  } else {
    for (std::int64_t i = begin; i < end; ++i) {
      set_code(to, bits, i - begin, get_code(from, bits, i));
    }
  }
}

// Items [begin, end) of all rows of a part, which is made as `made` says.
core::Tensor items_of(const core::Tensor& whole, const StoredPart& made, std::int64_t begin,
                      std::int64_t end) {
  core::Tensor slice = core::Tensor::zeros(made.dtype, {made.rows, made.columns});
  const auto size = static_cast<std::int64_t>(core::size_of(made.dtype));
  const std::int64_t pitch = whole.dim(1) * size;
  const std::int64_t bytes = made.columns * size;
  std::byte* to = slice.mutable_raw();
  for (std::int64_t row = 0; row < made.rows; ++row, to += bytes) {
    const std::byte* const from = whole.raw() + row * pitch;
    if (made.bits > 0) {
      copy_codes(reinterpret_cast<const std::uint8_t*>(from), made.bits, begin, end,
                 {reinterpret_cast<std::uint8_t*>(to), static_cast<std::size_t>(bytes)});
    } else {
      std::memcpy(to, from + begin * size, static_cast<std::size_t>(bytes));
    }
  }
  return slice;
}

std::int64_t items_for(std::int64_t inputs, std::int64_t each) {
  return (inputs + each - 1) / each;
}

}  // namespace

ColumnCuts column_cuts(const Scheme& scheme, std::int64_t k) {
  if (!has_codes(scheme)) {
    return {is_dense(scheme) ? 1 : is_block_sparse(scheme) ? scheme.scale.group : kFour, ""};
  }
  if (stores_order(scheme)) {
    return {0, "its inputs stand in a stored order"};
  }
  if (runs_of(scheme) != nullptr) {
    return {0, "inputs are coded together"};
  }
  const std::int64_t turned = hadamard_size(scheme, k);
  if (turned >= k || (turned > 0 && k % turned != 0)) {
    return {0, "a Hadamard matrix mixes all inputs"};
  }
  ColumnCuts cuts;
  cuts.step = kCodesOfWholeBytes;
  for (const std::int64_t together : {scheme.scale.group, scheme.activation.group, turned,
                                      has_supers(scheme) ? kSuperGroup : std::int64_t{0}}) {
    cuts.step = together > 0 ? std::lcm(cuts.step, together) : cuts.step;
  }
  return cuts;
}

PackedWeight columns_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end) {
  core::require(0 <= begin && begin < end && end <= weight.k, ErrorKind::kFailed,
                "inputs [{}, {}) of a weight of {} inputs", begin, end, weight.k);
  const ColumnCuts cuts = column_cuts(weight.scheme, weight.k);
  core::require(cuts.refusal.empty(), ErrorKind::kUsage, "{} cannot be divided by inputs: {}",
                weight.scheme, cuts.refusal);
  core::require(begin % cuts.step == 0 && (end % cuts.step == 0 || end == weight.k),
                ErrorKind::kUsage,
                "{} can be divided at multiples of {} inputs, not into [{}, {}) of {}",
                weight.scheme, cuts.step, begin, end, weight.k);
  if (is_block_sparse(weight.scheme)) {
    const std::int64_t group = weight.scheme.scale.group;
    return groups_of(weight, 0, weight.n, begin / group, end / group);
  }
  PackedWeight slice = weight;
  slice.k = end - begin;
  for (const StoredPart& made : stored_parts(weight.scheme, weight.n, slice.k)) {
    if (const std::int64_t each = inputs_of_item(made, weight.scheme); each > 0) {
      slice.*made.tensor = items_of(weight.*made.tensor, made, begin / each, items_for(end, each));
    }
  }
  return slice;
}

}  // namespace nibble::formats
