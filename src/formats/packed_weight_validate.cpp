// validate(): everything that a checkpoint can get wrong about one weight.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/block_sparse.h"
#include "formats/mx/e8m0.h"
#include "formats/nv/e4m3.h"
#include "formats/nv/nv_format.h"
#include "formats/packed_weight.h"
#include "formats/row_unit.h"
#include "formats/stored_parts.h"
#include "formats/two_of_four.h"

namespace nibble::formats {
namespace {

using core::ErrorKind;
using core::require;
using core::Shape;
using core::Tensor;

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;  // keeps k * bits far from overflow
constexpr float kMaxBookValue = 0x1p100f;  // times the largest fp16 scale: still finite in float32

// One weight under its name in messages.
struct Named {
  const PackedWeight& weight;
  std::string_view name;
};

void require_part(const Named& named, const StoredPart& part, const Tensor& tensor) {
  require(!tensor.empty(), ErrorKind::kInvalidModel, "{}.{}: missing, the scheme {} needs it",
          named.name, part.name, named.weight.scheme);
  const bool right = tensor.dtype() == part.dtype || tensor.dtype() == part.older;
  require(right && tensor.shape() == Shape{part.rows, part.columns}, ErrorKind::kInvalidModel,
          "{}.{}: {} {}, expected {} [{}, {}]", named.name, part.name,
          core::name_of(tensor.dtype()), core::printable(tensor.shape()), core::name_of(part.dtype),
          part.rows, part.columns);
}

// The bits after the last code of each row are zero, so that equal weights are equal bytes.
void require_clean_padding(const Named& named, const StoredPart& part, const Tensor& tensor) {
  const int used = static_cast<int>(part.codes % 8 * part.bits % 8);
  if (used == 0) {
    return;
  }
  const auto bytes = tensor.data<std::uint8_t>();
  const auto row_bytes = static_cast<std::size_t>(tensor.dim(1));
  for (std::size_t last = row_bytes - 1; last < bytes.size(); last += row_bytes) {
    require(bytes[last] >> used == 0, ErrorKind::kInvalidModel,
            "{}.{}: row {} has bits set after its last code", named.name, part.name,
            last / row_bytes);
  }
}

// "row 3, group 17" of the scale at position `at`.
std::string place_of(const Named& named, std::ptrdiff_t at) {
  const std::int64_t groups = named.weight.scales.dim(1);
  return fmt::format("row {}, group {}", at / groups, at % groups);
}

void require_finite(const Named& named, std::string_view part, const Tensor& tensor) {
  constexpr std::uint16_t kExponent = 0x7c00;  // all ones in infinity and NaN
  const auto values = tensor.data<core::Fp16>();
  const auto bad = std::find_if(values.begin(), values.end(), [](core::Fp16 value) {
    return (value.bits & kExponent) == kExponent;
  });
  if (bad != values.end()) {
    const std::ptrdiff_t at = bad - values.begin();
    core::fail(ErrorKind::kInvalidModel, "{}.{}: row {}, group {} is not finite", named.name, part,
               at / tensor.dim(1), at % tensor.dim(1));
  }
}

void require_finite_scales(const Named& named) {
  require_finite(named, "scales", named.weight.scales);
}

void validate_minima(const Named& named) {
  const bool multiples = has_supers(named.weight.scheme);
  require_finite(named, multiples ? "min_supers" : "minima",
                 multiples ? named.weight.min_supers : named.weight.minima);
}

void require_usable_exponents(const Named& named) {
  const auto scales = named.weight.scales.data<std::uint8_t>();
  const auto bad = std::find_if(scales.begin(), scales.end(), [](std::uint8_t scale) {
    return scale > kE8m0Bias + kMaxMxExponent;
  });
  if (bad != scales.end()) {
    core::fail(ErrorKind::kInvalidModel,
               "{}.scales: {} holds {}, which is NaN or too large for float32", named.name,
               place_of(named, bad - scales.begin()), *bad);
  }
}

// E4M3 scales, which have no sign and are not NaN, and their global scale.
void validate_e4m3(const Named& named) {
  const auto scales = named.weight.scales.data<std::uint8_t>();
  const auto bad = std::find_if(scales.begin(), scales.end(),
                                [](std::uint8_t scale) { return scale > kE4m3Largest; });
  if (bad != scales.end()) {
    core::fail(ErrorKind::kInvalidModel, "{}.scales: {} holds {:#04x}, which is NaN or negative",
               named.name, place_of(named, bad - scales.begin()), *bad);
  }
  const float global = named.weight.global.data<float>()[0];
  require(global >= kMinNvGlobal && global <= kMaxNvGlobal, ErrorKind::kInvalidModel,
          "{}.global: {} is not in [2^-100, 2^100]", named.name, global);
}

// Not all codes of some types stand for numbers.
void require_numbers(const Named& named) {
  const PackedWeight weight = head_of(named.weight);
  const auto is_number = weight.scheme.code.type->is_number;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(is_number != nullptr ? weight.k : 0));
  for (std::int64_t row = 0; is_number != nullptr && row < weight.n; ++row) {
    unpack_codes(weight, row, codes);
    const auto bad = std::find_if_not(codes.begin(), codes.end(), is_number);
    if (bad != codes.end()) {
      core::fail(ErrorKind::kInvalidModel, "{}.codes: row {}, input {} holds {:#04x}, which is NaN",
                 named.name, row, bad - codes.begin(), *bad);
    }
  }
}

void validate_book(const Named& named) {
  const PackedWeight& weight = named.weight;
  for (std::int64_t row = 0; row < weight.book.dim(0); ++row) {
    const BookValues book = book_of(weight, row);
    for (std::size_t entry = 0; entry < book.size(); ++entry) {
      require(std::abs(book[entry]) <= kMaxBookValue, ErrorKind::kInvalidModel,
              "{}.book: row {}, entry {} is {}, not a finite value below 2^100", named.name, row,
              entry, book[entry]);
    }
  }
}

// Scales that are multiples of a unit.
void validate_units(const Named& named) {
  const PackedWeight& weight = named.weight;
  for (std::int64_t row = 0; row < weight.n; ++row) {
    const std::uint8_t unit = weight.units.data<std::uint8_t>()[static_cast<std::size_t>(row)];
    require(unit >= 1 && unit <= kLargestUnit, ErrorKind::kInvalidModel,
            "{}.units: row {} holds {}, not 1 to {}", named.name, row, unit, kLargestUnit);
  }
  const std::int64_t rows = weight.scales.dim(0);
  const std::int64_t bytes = weight.scales.dim(1);
  const std::int64_t groups = is_block_sparse(weight.scheme)
                                  ? stored_group_count(weight) * pattern_rows(weight.scheme)
                                  : groups_per_row(weight.scheme, weight.k);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto codes = weight.scales.data<std::uint8_t>().subspan(
        static_cast<std::size_t>(row * bytes), static_cast<std::size_t>(bytes));
    for (std::int64_t group = 0; group < groups; ++group) {
      require((get_code(codes, kUnitScaleBits, group) & kMaxUnits) != 0, ErrorKind::kInvalidModel,
              "{}.scales: row {}, group {} is zero", named.name, row, group);
    }
  }
}

void validate_scales(const Named& named) {
  switch (named.weight.scheme.scale.type) {
    case ScaleType::kNone:
      return;
    case ScaleType::kF16:
      require_finite_scales(named);
      return;
    case ScaleType::kUnits:
      validate_units(named);
      return;
    case ScaleType::kMultiples:
      require_finite(named, "supers", named.weight.supers);
      return;
    case ScaleType::kE8m0:
      require_usable_exponents(named);
      return;
    case ScaleType::kE4m3:
      validate_e4m3(named);
      return;
  }
}

void validate_input_scale(const Named& named) {
  const float scale = input_scale_of(named.weight);
  require(scale >= kMinInputScale && scale <= kMaxInputScale, ErrorKind::kInvalidModel,
          "{}.input_scale: {} is not in [2^-100, 2^100]", named.name, scale);
}

void validate_permutation(const Named& named) {
  const PackedWeight& weight = named.weight;
  std::vector<bool> seen(static_cast<std::size_t>(weight.k));
  for (const std::int32_t input : weight.permutation.data<std::int32_t>()) {
    require(input >= 0 && input < weight.k && !seen[static_cast<std::size_t>(input)],
            ErrorKind::kInvalidModel, "{}.permutation: {} stands twice, or is no input of {}",
            named.name, input, weight.k);
    seen[static_cast<std::size_t>(input)] = true;
  }
}

// A tail is a weight of its own; only its parts have other names.
void validate_tail(const Named& named) {
  const PackedWeight tail = tail_of(named.weight);
  const std::string name = std::string(named.name) + " (tail)";
  require_finite_scales({tail, name});
}

// The groups of block-sparse rows, which say what shape the other parts have.
std::int64_t checked_group_count(const Named& named) {
  const PackedWeight& weight = named.weight;
  const std::int64_t tile = pattern_rows(weight.scheme);
  require_part(named,
               {"row_index", &PackedWeight::row_index, core::DType::kI32, 1, weight.n / tile + 1},
               weight.row_index);
  const auto ends = weight.row_index.data<std::int32_t>();
  const std::int64_t most = groups_per_row(weight.scheme, weight.k);
  require(ends[0] == 0, ErrorKind::kInvalidModel, "{}.row_index: begins with {}, not with 0",
          named.name, ends[0]);
  for (std::size_t row = 0; row + 1 < ends.size(); ++row) {
    require(ends[row + 1] >= ends[row] && ends[row + 1] - ends[row] <= most,
            ErrorKind::kInvalidModel,
            "{}.row_index: {} {} goes from {} to {}, expected 0 to {} groups", named.name,
            tile == 1 ? "row" : "tile", row, ends[row], ends[row + 1], most);
  }
  require(ends.back() >= 1, ErrorKind::kInvalidModel, "{}.row_index: no group is kept", named.name);
  return ends.back();
}

// Those of each row, or tile, are in it, and ascend.
void validate_groups(const Named& named) {
  const PackedWeight& weight = named.weight;
  const std::int64_t most = groups_per_row(weight.scheme, weight.k);
  for (std::int64_t row = 0; row < weight.n; row += pattern_rows(weight.scheme)) {
    std::int64_t last = -1;
    for_each_stored_group(weight, row, [&](std::int64_t, std::int64_t group) {
      require(group > last && group < most, ErrorKind::kInvalidModel,
              "{}.groups: row {} has group {} behind group {}; they ascend and are below {}",
              named.name, row, group, last, most);
      last = group;
    });
  }
}

// Those of each four inputs ascend.
void validate_indices(const Named& named) {
  const PackedWeight& weight = named.weight;
  for (std::int64_t row = 0; row < weight.n; ++row) {
    for (std::int64_t four = 0; four < weight.k / kFour; ++four) {
      const KeptPair kept = kept_pair(weight, row, four);
      require(
          kept.first < kept.second, ErrorKind::kInvalidModel,
          "{}.indices: row {} stores inputs {} and {} of the four from input {} on; they ascend",
          named.name, row, kept.first, kept.second, four * kFour);
    }
  }
}

// What the scheme stores is there, in its shape, and nothing else is.
void validate_parts(const Named& named) {
  const PackedWeight& weight = named.weight;
  std::optional<std::int64_t> kept;
  if (is_block_sparse(weight.scheme)) {
    kept = checked_group_count(named);
  }
  const std::vector<StoredPart> stored = stored_parts(weight.scheme, weight.n, weight.k, kept);
  for (const StoredPart& part : stored) {
    require_part(named, part, weight.*part.tensor);
    require_clean_padding(named, part, weight.*part.tensor);
  }
  for (const Part& part : parts(weight)) {
    require(std::any_of(stored.begin(), stored.end(),
                        [&](const StoredPart& other) { return other.name == part.name; }),
            ErrorKind::kInvalidModel, "{}.{}: the scheme {} has no such part", named.name,
            part.name, weight.scheme);
  }
}

void require_fitting_shape(const Named& named) {
  try {
    require_shape(named.weight.scheme, named.weight.n, named.weight.k);
  } catch (const core::Error& error) {
    core::fail(ErrorKind::kInvalidModel, "{}: {}", named.name, error.what());
  }
}

}  // namespace

void validate(const PackedWeight& weight, std::string_view name) {
  const std::string shown = core::printable(name);
  try {
    validate(weight.scheme);
  } catch (const core::Error& error) {
    core::fail(ErrorKind::kInvalidModel, "{}: {}", shown, error.what());
  }
  require(weight.n >= 1 && weight.k >= 1 && weight.n <= kMaxExtent && weight.k <= kMaxExtent,
          ErrorKind::kInvalidModel, "{}: a weight of shape [{}, {}]", shown, weight.n, weight.k);
  const Named named{weight, shown};
  require_fitting_shape(named);
  validate_parts(named);
  if (is_block_sparse(weight.scheme)) {
    validate_groups(named);
  }
  if (keeps_two_of_four(weight.scheme)) {
    validate_indices(named);
  }
  validate_scales(named);
  require_numbers(named);
  if (has_minima(weight.scheme)) {
    validate_minima(named);
  }
  if (has_learned_book(weight.scheme)) {
    validate_book(named);
  }
  if (weight.scheme.activation.stored_scale) {
    validate_input_scale(named);
  }
  if (stores_order(weight.scheme)) {
    validate_permutation(named);
  }
  if (weight.scheme.inputs.tail != 0) {
    validate_tail(named);
  }
}

}  // namespace nibble::formats
