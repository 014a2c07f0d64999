#include "formats/packed_weight.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/block_sparse.h"
#include "formats/codebooks.h"
#include "formats/format.h"
#include "formats/mx/e8m0.h"
#include "formats/nv/e4m3.h"
#include "formats/row_unit.h"
#include "formats/runs.h"
#include "formats/two_of_four.h"

namespace nibble::formats {
namespace {

using core::ErrorKind;
using core::Fp16;
using core::require;
using core::to_float;

constexpr std::int64_t kChunk = 1024;  // codes decoded at a time; a multiple of 8 begins at a byte

constexpr std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Elements [row * per_row, (row + 1) * per_row) of a part.
template <typename T>
std::span<const T> row_of(const core::Tensor& part, std::int64_t row, std::int64_t per_row) {
  return part.data<T>().subspan(index(row * per_row), index(per_row));
}

void require_no_tail(const PackedWeight& weight) {
  require(weight.scheme.inputs.tail == 0, ErrorKind::kFailed,
          "{} has a tail: ask for its head or its tail", weight.scheme);
}

void require_row(const PackedWeight& weight, std::int64_t row, std::size_t got,
                 std::int64_t expected) {
  require(row >= 0 && row < weight.n, ErrorKind::kFailed, "row {} of a weight with {} rows", row,
          weight.n);
  require(std::cmp_equal(got, expected), ErrorKind::kFailed,
          "room for {} values of a row, needed {}", got, expected);
}

std::span<const std::uint8_t> code_row(const PackedWeight& weight, std::int64_t row) {
  return row_of<std::uint8_t>(weight.codes, row, packed_bytes(weight.k, weight.scheme.code.bits));
}

// A multiple of the float16 that the group's inputs share with others.
float multiple_at(const PackedWeight& weight, const core::Tensor& multiples,
                  const core::Tensor& supers, std::int64_t row, std::int64_t group) {
  const std::int64_t groups = groups_per_row(weight.scheme, weight.k);
  const std::int64_t super = group * weight.scheme.scale.group / kSuperGroup;
  return to_float(row_of<Fp16>(supers, row, supers_per_row(weight.k))[index(super)]) *
         static_cast<float>(row_of<std::int8_t>(multiples, row, groups)[index(group)]);
}

float scale_at(const PackedWeight& weight, std::int64_t row, std::int64_t group) {
  const std::int64_t groups = groups_per_row(weight.scheme, weight.k);
  const std::size_t at = index(row / rows_per_scale(weight.scheme, weight.n) * groups + group);
  switch (weight.scheme.scale.type) {
    case ScaleType::kF16:
      return to_float(weight.scales.data<Fp16>()[at]);
    case ScaleType::kUnits: {
      const auto scales =
          row_of<std::uint8_t>(weight.scales, row, packed_bytes(groups, kUnitScaleBits));
      return scale_of_units(get_code(scales, kUnitScaleBits, group),
                            unit_value(weight.units.data<std::uint8_t>()[index(row)]));
    }
    case ScaleType::kMultiples:
      return multiple_at(weight, weight.scales, weight.supers, row, group);
    case ScaleType::kE8m0:
      return e8m0_to_float(weight.scales.data<std::uint8_t>()[at]);
    case ScaleType::kE4m3:
      return e4m3_to_float(weight.scales.data<std::uint8_t>()[at]) * weight.global.data<float>()[0];
    case ScaleType::kNone:
      break;
  }
  core::fail(ErrorKind::kFailed, "{} has no scales", weight.scheme);
}

float minimum_at(const PackedWeight& weight, std::int64_t row, std::int64_t group) {
  if (has_supers(weight.scheme)) {
    return multiple_at(weight, weight.minima, weight.min_supers, row, group);
  }
  const std::int64_t groups = groups_per_row(weight.scheme, weight.k);
  return to_float(row_of<Fp16>(weight.minima, row, groups)[index(group)]);
}

int zero_at(const PackedWeight& weight, std::int64_t row, std::int64_t group) {
  const int bits = weight.scheme.code.bits;
  if (has_minima(weight.scheme)) {
    return 0;
  }
  if (!has_zeros(weight.scheme)) {
    return 1 << (bits - 1);
  }
  const std::int64_t groups = groups_per_row(weight.scheme, weight.k);
  return get_code(row_of<std::uint8_t>(weight.zeros, row, packed_bytes(groups, bits)), bits, group);
}

// read_codes() where two of each four inputs are stored: the others equal their zero.
void read_kept_codes(const PackedWeight& weight, std::int64_t row, std::int64_t begin,
                     std::span<std::uint8_t> codes) {
  const std::int64_t group_inputs = group_size(weight.scheme, weight.k);
  for (std::size_t at = 0; at < codes.size();) {
    const std::int64_t group = (begin + static_cast<std::int64_t>(at)) / group_inputs;
    const std::size_t stop = std::min(codes.size(), index((group + 1) * group_inputs - begin));
    const auto zero = static_cast<std::uint8_t>(zero_at(weight, row, group));
    std::fill_n(codes.begin() + static_cast<std::ptrdiff_t>(at), stop - at, zero);
    at = stop;
  }
  put_kept_codes(weight, row, begin, codes);
}

// Codes [begin, begin + codes.size()) of a row; where they lie one after another, `begin` is a
// multiple of 8.
void read_codes(const PackedWeight& weight, std::int64_t row, std::int64_t begin,
                std::span<std::uint8_t> codes) {
  const int bits = weight.scheme.code.bits;
  if (const Runs* const runs = runs_of(weight.scheme)) {
    return runs->unpack(weight, row, begin, codes);
  }
  if (keeps_two_of_four(weight.scheme)) {
    return read_kept_codes(weight, row, begin, codes);
  }
  unpack(code_row(weight, row).subspan(index(packed_bytes(begin, bits))), bits, codes);
}

// What decode() of a row gives: weights, or what stands for them before the scale.
enum class Values { kScaled, kUnscaled };

// Decodes a row of a weight with codes and without a tail.
void decode_codes(const PackedWeight& weight, std::int64_t row, Values values,
                  std::span<float> out) {
  if (is_block_sparse(weight.scheme)) {
    decode_codes(full_row(weight, row), 0, values, out);
    return clear_other_groups(weight, row, out);
  }
  const std::int64_t group_inputs = group_size(weight.scheme, weight.k);
  const BookValues book = has_book(weight.scheme) ? book_of(weight, row) : BookValues();
  std::array<std::uint8_t, index(kChunk)> codes{};
  for (std::int64_t begin = 0; begin < weight.k; begin += kChunk) {
    const std::int64_t end = std::min(weight.k, begin + kChunk);
    read_codes(weight, row, begin, std::span(codes).first(index(end - begin)));
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t group = at / group_inputs;
      const std::int64_t stop = std::min(end, (group + 1) * group_inputs);
      const float scale = values == Values::kScaled ? scale_at(weight, row, group) : 1.0f;
      weight.scheme.code.type->decode(std::span(codes).subspan(index(at - begin), index(stop - at)),
                                      {scale, zero_at(weight, row, group)}, book, out.data() + at);
      if (values == Values::kScaled && has_minima(weight.scheme)) {
        const float minimum = minimum_at(weight, row, group);
        for (float& value : out.subspan(index(at), index(stop - at))) {
          value += minimum;
        }
      }
      at = stop;
    }
  }
}

}  // namespace

std::span<const PartSlot> part_slots() {
  static constexpr std::array<PartSlot, 18> kSlots = {{{"weight", &PackedWeight::dense},
                                                       {"codes", &PackedWeight::codes},
                                                       {"scales", &PackedWeight::scales},
                                                       {"supers", &PackedWeight::supers},
                                                       {"units", &PackedWeight::units},
                                                       {"global", &PackedWeight::global},
                                                       {"zeros", &PackedWeight::zeros},
                                                       {"minima", &PackedWeight::minima},
                                                       {"min_supers", &PackedWeight::min_supers},
                                                       {"book", &PackedWeight::book},
                                                       {"input_scale", &PackedWeight::input_scale},
                                                       {"permutation", &PackedWeight::permutation},
                                                       {"tail_codes", &PackedWeight::tail_codes},
                                                       {"tail_scales", &PackedWeight::tail_scales},
                                                       {"row_index", &PackedWeight::row_index},
                                                       {"groups", &PackedWeight::groups},
                                                       {"values", &PackedWeight::values},
                                                       {"indices", &PackedWeight::indices}}};
  return kSlots;
}

std::vector<Part> parts(const PackedWeight& weight) {
  std::vector<Part> present;
  for (const PartSlot& slot : part_slots()) {
    if (const core::Tensor& tensor = weight.*slot.tensor; !tensor.empty()) {
      present.push_back({slot.name, tensor});
    }
  }
  return present;
}

PackedWeight head_of(const PackedWeight& weight) {
  PackedWeight head = weight;
  head.k = head_inputs(weight.scheme, weight.k);
  head.scheme.inputs.tail = 0;
  head.scheme.inputs.ordered = false;
  head.permutation = head.tail_codes = head.tail_scales = core::Tensor();
  return head;
}

PackedWeight tail_of(const PackedWeight& weight) {
  PackedWeight tail;
  tail.scheme = tail_scheme();
  tail.n = weight.n;
  tail.k = weight.scheme.inputs.tail;
  tail.codes = weight.tail_codes;
  tail.scales = weight.tail_scales;
  return tail;
}

void decode_row(const PackedWeight& weight, std::int64_t row, std::span<float> out) {
  require_row(weight, row, out.size(), weight.k);
  if (weight.scheme.inputs.tail != 0) {
    const auto head = index(head_inputs(weight.scheme, weight.k));
    decode_row(head_of(weight), row, out.first(head));
    decode_row(tail_of(weight), row, out.subspan(head));
    return;
  }
  if (is_dense(weight.scheme)) {
    const std::int64_t bytes = weight.k * core::size_of(weight.dense.dtype());
    core::convert_to_float32(weight.dense.dtype(), weight.dense.raw() + row * bytes, weight.k,
                             out.data());
    return;
  }
  if (!has_codes(weight.scheme)) {
    return is_block_sparse(weight.scheme) ? decode_stored_floats(weight, row, out)
                                          : decode_kept_values(weight, row, out);
  }
  decode_codes(weight, row, Values::kScaled, out);
}

void decode_unscaled(const PackedWeight& weight, std::int64_t row, std::span<float> out) {
  require_no_tail(weight);
  require_row(weight, row, out.size(), weight.k);
  require(has_codes(weight.scheme), ErrorKind::kFailed, "a dense weight has no codes");
  decode_codes(weight, row, Values::kUnscaled, out);
}

void unpack_codes(const PackedWeight& weight, std::int64_t row, std::span<std::uint8_t> out) {
  require_no_tail(weight);
  require_row(weight, row, out.size(), weight.k);
  require(has_codes(weight.scheme), ErrorKind::kFailed, "a dense weight has no codes");
  if (is_block_sparse(weight.scheme)) {
    unpack_codes(full_row(weight, row), 0, out);
    return;
  }
  read_codes(weight, row, 0, out);
}

void unpack_zeros(const PackedWeight& weight, std::int64_t row, std::span<std::uint8_t> out) {
  require_no_tail(weight);
  const std::int64_t groups = groups_per_row(weight.scheme, weight.k);
  require_row(weight, row, out.size(), groups);
  require(has_codes(weight.scheme), ErrorKind::kFailed, "a dense weight has no zero points");
  if (is_block_sparse(weight.scheme)) {
    unpack_zeros(full_row(weight, row), 0, out);
    return;
  }
  const int bits = weight.scheme.code.bits;
  if (!has_zeros(weight.scheme)) {
    const int zero = has_minima(weight.scheme) ? 0 : 1 << (bits - 1);
    std::fill(out.begin(), out.end(), static_cast<std::uint8_t>(zero));
    return;
  }
  unpack(row_of<std::uint8_t>(weight.zeros, row, packed_bytes(groups, bits)), bits, out);
}

void unpack_scales(const PackedWeight& weight, std::int64_t row, std::span<float> out) {
  require_no_tail(weight);
  const std::int64_t groups = groups_per_row(weight.scheme, weight.k);
  require_row(weight, row, out.size(), groups);
  require(has_codes(weight.scheme), ErrorKind::kFailed, "a dense weight has no scales");
  if (is_block_sparse(weight.scheme)) {
    unpack_scales(full_row(weight, row), 0, out);
    return;
  }
  for (std::int64_t group = 0; group < groups; ++group) {
    out[index(group)] = scale_at(weight, row, group);
  }
}

void unpack_minima(const PackedWeight& weight, std::int64_t row, std::span<float> out) {
  require_no_tail(weight);
  const std::int64_t groups = groups_per_row(weight.scheme, weight.k);
  require_row(weight, row, out.size(), groups);
  for (std::int64_t group = 0; group < groups; ++group) {
    out[index(group)] = has_minima(weight.scheme) ? minimum_at(weight, row, group) : 0.0f;
  }
}

BookValues::BookValues(std::span<const float> values) : size_(values.size()) {
  assert(size_ <= values_.size());
  std::copy(values.begin(), values.end(), values_.begin());
}

BookValues::BookValues(std::span<const Fp16> values) : size_(values.size()) {
  assert(size_ <= values_.size());
  std::transform(values.begin(), values.end(), values_.begin(),
                 [](Fp16 value) { return to_float(value); });
}

BookValues book_of(const PackedWeight& weight, std::int64_t row) {
  require(row >= 0 && row < weight.n, ErrorKind::kFailed, "row {} of a weight with {} rows", row,
          weight.n);
  require(has_book(weight.scheme), ErrorKind::kFailed, "{} has no code book", weight.scheme);
  if (!has_learned_book(weight.scheme)) {
    return BookValues(fixed_book(weight.scheme.code.book, weight.scheme.scale.group));
  }
  const std::int64_t at = weight.scheme.code.book == Book::kPerRow ? row : 0;
  const std::int64_t size = book_size(weight.scheme);
  return weight.book.dtype() == core::DType::kF16
             ? BookValues(row_of<Fp16>(weight.book, at, size))
             : BookValues(row_of<float>(weight.book, at, size));
}

float input_scale_of(const PackedWeight& weight) {
  require(weight.scheme.activation.stored_scale, ErrorKind::kFailed,
          "{} stores no scale of its inputs", weight.scheme);
  return weight.input_scale.data<float>()[0];
}

PackedWeight with_input_scale(PackedWeight weight, float scale) {
  require(
      weight.scheme.activation.stored_scale && scale >= kMinInputScale && scale <= kMaxInputScale,
      ErrorKind::kFailed, "scale {} for the inputs of {}", scale, weight.scheme);
  weight.input_scale = core::Tensor::from<float>(std::array{scale}, {1, 1});
  return weight;
}

std::int64_t stored_bytes(const PackedWeight& weight) {
  std::int64_t bytes = 0;
  for (const Part& part : parts(weight)) {
    bytes += part.tensor.bytes();
  }
  return bytes;
}

double bits_per_weight(const PackedWeight& weight) {
  return 8.0 * static_cast<double>(stored_bytes(weight)) /
         (static_cast<double>(weight.n) * static_cast<double>(weight.k));
}

PackedWeight dense_weight(core::Tensor tensor) {
  require(tensor.rank() == 2, ErrorKind::kInvalidModel,
          "a dense weight has shape [outputs, inputs], this tensor has {}",
          core::printable(tensor.shape()));
  PackedWeight weight;
  weight.scheme.code.dense = tensor.dtype();
  weight.n = tensor.dim(0);
  weight.k = tensor.dim(1);
  weight.dense = std::move(tensor);
  validate(weight, "weight");
  return weight;
}

}  // namespace nibble::formats
