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

core::Tensor own_rows_of(const core::Tensor& table, std::int64_t begin, std::int64_t end) {
  return own(table.rows(begin, end));
}

}  // namespace nibble::formats
