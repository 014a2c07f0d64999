#include "ops/cuda/schedules/linear_shape.h"

#include <algorithm>

#include <fmt/format.h>

#include "ops/cuda/medium_batch/medium_batch.h"
#include "ops/cuda/packed/code_kinds.h"
#include "ops/cuda/packed/unit_rows.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kFineGroups = 8;   // of a unit
constexpr std::int64_t kFewColumns = 16;  // of tokens times digits: small_batch.h is faster
// More than these take two passes over k for more rows on a large device: gemm.h is faster.
constexpr std::int64_t kColumnsOfManyRows = 64;
constexpr std::int64_t kManyRows = 8192;

std::string inputs_name(const LinearShape& shape) {
  switch (shape.inputs) {
    case GemmInputs::kInt8:
      return "8-bit inputs";
    case GemmInputs::kInt8ScaledByGroup:
      return "8-bit inputs by group";
    case GemmInputs::kHalf:
      return "16-bit inputs";
    case GemmInputs::kBytes:
      return shape.code + " inputs";
  }
  return "";
}

std::string codes_name(const LinearShape& shape) {
  const CodeKind codes = shape.format.codes;
  if (codes == CodeKind::kBytes) {
    return shape.code;
  }
  if (is_book(codes) && has_planes(codes)) {
    return fmt::format("book of {}", 1 << bits_of(codes));
  }
  std::string name = name_of(codes);
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

GemmInputs inputs_of(const formats::Scheme& scheme, const UnitFormat& format) {
  if (scheme.activation.is_float()) {
    return GemmInputs::kHalf;
  }
  if (!scheme.activation.acts_as_integers()) {
    return GemmInputs::kBytes;
  }
  return scale_step_of(scheme, format) == 0 ? GemmInputs::kInt8 : GemmInputs::kInt8ScaledByGroup;
}

}  // namespace

std::int64_t scale_step_of(const formats::Scheme& scheme, const UnitFormat& format) {
  if (scheme.activation.is_float()) {
    return kUnitInputs;
  }
  if (format.groups == kFineGroups) {
    return kUnitInputs / kFineGroups;
  }
  // A tail is a segment of its own only where scales come by segment.
  return scheme.activation.group == 0 && scheme.inputs.tail == 0 ? 0 : kUnitInputs;
}

Refusal LinearShape::medium_refusal(std::int64_t m) const {
  const std::int64_t columns = m * digits();
  const std::int64_t most = max_medium_batch_columns(digits());
  if (tail != 0) {
    return Reason("it has no segment for a tail");
  }
  if (columns <= kFewColumns) {
    return Reason("{} columns of tokens; up to {} are faster by small-batch", columns, kFewColumns);
  }
  if (columns > most) {
    return Reason("{} columns of tokens; it has registers for {}", columns, most);
  }
  if (columns > kColumnsOfManyRows && n > kManyRows) {
    return Reason("{} columns of tokens and {} rows; with more than {} gemm is faster", columns, n,
                  kManyRows);
  }
  return std::nullopt;
}

LinearShape linear_shape(const formats::Scheme& scheme, std::int64_t n, std::int64_t k) {
  LinearShape shape;
  shape.format = unit_format_of(scheme);
  shape.row_scale = scheme.scale.group == 0;
  shape.inputs = inputs_of(scheme, shape.format);
  if (shape.format.codes == CodeKind::kBytes) {
    const std::string words = formats::to_string(scheme);
    shape.code = words.substr(0, words.find('-'));
  }
  shape.tail = scheme.inputs.tail;
  shape.n = n;
  shape.k = head_inputs(scheme, k);
  return shape;
}

std::string to_string(const LinearShape& shape) {
  const std::string scales =
      shape.row_scale ? "row" : fmt::format("g{}", kUnitInputs / shape.format.groups);
  const std::string text = fmt::format("{} {}, {}, {} x {}", codes_name(shape), scales,
                                       inputs_name(shape), shape.n, shape.k);
  return shape.tail > 0 ? fmt::format("{} + {}", text, shape.tail) : text;
}

}  // namespace nibble::ops::cuda
