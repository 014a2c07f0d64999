#include "formats/row_slice.h"

#include <cstring>

#include "core/error.h"
#include "formats/block_sparse.h"
#include "formats/runs.h"
#include "formats/stored_parts.h"

namespace nibble::formats {
namespace {

// A part as it is stored has one row for each output, or one that all share.
bool of_each_output(const StoredPart& part, const PackedWeight& weight) {
  const bool of_tensor = part.tensor == &PackedWeight::scales && weight.scheme.scale.rows != 1;
  const bool of_matrix =
      part.tensor == &PackedWeight::book && weight.scheme.code.book == Book::kPerMatrix;
  const bool of_inputs = part.tensor == &PackedWeight::permutation ||
                         part.tensor == &PackedWeight::input_scale ||
                         part.tensor == &PackedWeight::global;
  return !of_tensor && !of_matrix && !of_inputs;
}

// Memory can be written to, mapped files cannot.
bool lies_in_memory(core::Tensor tensor) {
  try {
    return tensor.mutable_raw() != nullptr;
  } catch (const core::Error&) {
    return false;
  }
}

core::Tensor own(const core::Tensor& tensor) {
  if (!lies_in_memory(tensor)) {
    return tensor;
  }
  core::Tensor copy = core::Tensor::zeros(tensor.dtype(), tensor.shape());
  std::memcpy(copy.mutable_raw(), tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
  return copy;
}

}  // namespace

PackedWeight rows_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end) {
  core::require(0 <= begin && begin < end && end <= weight.n, core::ErrorKind::kFailed,
                "rows [{}, {}) of a weight of {} rows", begin, end, weight.n);
  core::require(weight.scheme.scale.rows == 1 || weight.scheme.scale.rows == kAllRows,
                core::ErrorKind::kFailed, "{} has scales of several rows, which are not divided",
                weight.scheme);
  if (is_block_sparse(weight.scheme)) {
    return groups_of(weight, begin, end, 0, groups_per_row(weight.scheme, weight.k));
  }
  const Runs* const runs = runs_of(weight.scheme);
  core::require(
      runs == nullptr || (begin % runs->rows == 0 && end % runs->rows == 0),
      core::ErrorKind::kUsage,
      "{} codes {} outputs together: rows [{}, {}) of {} cannot be taken out of them; use "
      "another number of ranks",
      weight.scheme, runs == nullptr ? 1 : runs->rows, begin, end, weight.n);
  PackedWeight slice = weight;
  slice.n = end - begin;
  for (const StoredPart& part : stored_parts(weight.scheme, weight.n, weight.k)) {
    if (of_each_output(part, weight)) {
      slice.*part.tensor = (weight.*part.tensor).rows(begin, end);
    }
  }
  return slice;
}

PackedWeight own_rows_of(const PackedWeight& weight, std::int64_t begin, std::int64_t end) {
  PackedWeight slice = rows_of(weight, begin, end);
  for (const PartSlot& slot : part_slots()) {
    if (core::Tensor& tensor = slice.*slot.tensor; !tensor.empty()) {
      tensor = own(tensor);
    }
  }
  return slice;
}

bool can_order_rows(const Scheme& scheme) {
  return (scheme.scale.rows == 1 || scheme.scale.rows == kAllRows) && !is_block_sparse(scheme) &&
         runs_of(scheme) == nullptr;
}

PackedWeight rows_in_order(const PackedWeight& weight, std::span<const std::int64_t> order) {
  core::require(can_order_rows(weight.scheme), core::ErrorKind::kFailed,
                "rows of {} do not stand by themselves", weight.scheme);
  for (const std::int64_t row : order) {
    core::require(0 <= row && row < weight.n, core::ErrorKind::kFailed, "row {} of {}", row,
                  weight.n);
  }
  PackedWeight result = weight;
  result.n = std::ssize(order);
  for (const StoredPart& part : stored_parts(weight.scheme, weight.n, weight.k)) {
    if (!of_each_output(part, weight)) {
      continue;
    }
    const core::Tensor& rows = weight.*part.tensor;
    const std::int64_t bytes = rows.bytes() / weight.n;
    core::Tensor ordered = core::Tensor::zeros(rows.dtype(), {result.n, rows.dim(1)});
    std::byte* to = ordered.mutable_raw();
    for (const std::int64_t row : order) {
      std::memcpy(to, rows.raw() + row * bytes, static_cast<std::size_t>(bytes));
      to += bytes;
    }
    result.*part.tensor = ordered;
  }
  return result;
}

core::Tensor own_rows_of(const core::Tensor& table, std::int64_t begin, std::int64_t end) {
  return own(table.rows(begin, end));
}

}  // namespace nibble::formats
