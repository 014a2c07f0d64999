// validate(): everything that a checkpoint can get wrong about one weight.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/book_size.h"
#include "formats/mx/e8m0.h"
#include "formats/nv/e4m3.h"
#include "formats/nv/nv_format.h"
#include "formats/packed_weight.h"
#include "formats/row_unit.h"

namespace nibble::formats {
namespace {

using core::DType;
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

void require_part(const Named& named, std::string_view part, const Tensor& tensor, DType dtype,
                  const Shape& shape) {
  const std::string_view name = named.name;
  require(!tensor.empty(), ErrorKind::kInvalidModel, "{}.{}: missing, the scheme {} needs it", name,
          part, named.weight.scheme);
  require(tensor.dtype() == dtype && tensor.shape() == shape, ErrorKind::kInvalidModel,
          "{}.{}: {} {}, expected {} {}", name, part, core::name_of(tensor.dtype()),
          core::printable(tensor.shape()), core::name_of(dtype), core::printable(shape));
}

void require_absent(const Named& named, std::string_view part, const Tensor& tensor) {
  require(tensor.empty(), ErrorKind::kInvalidModel, "{}.{}: the scheme {} has no such part",
          named.name, part, named.weight.scheme);
}

// The bits after the last code of each row are zero, so that equal weights are equal bytes.
void require_clean_padding(const Named& named, std::string_view part, const Tensor& tensor,
                           std::int64_t codes, int bits) {
  const int used = static_cast<int>(codes % 8 * bits % 8);
  if (used == 0) {
    return;
  }
  const auto bytes = tensor.data<std::uint8_t>();
  const auto row_bytes = static_cast<std::size_t>(tensor.dim(1));
  for (std::size_t last = row_bytes - 1; last < bytes.size(); last += row_bytes) {
    require(bytes[last] >> used == 0, ErrorKind::kInvalidModel,
            "{}.{}: row {} has bits set after its last code", named.name, part, last / row_bytes);
  }
}

// "row 3, group 17" of the scale at position `at`.
std::string place_of(const Named& named, std::ptrdiff_t at) {
  const std::int64_t groups = named.weight.scales.dim(1);
  return fmt::format("row {}, group {}", at / groups, at % groups);
}

void require_finite_scales(const Named& named) {
  constexpr std::uint16_t kExponent = 0x7c00;  // all ones in infinity and NaN
  const auto scales = named.weight.scales.data<core::Fp16>();
  const auto bad = std::find_if(scales.begin(), scales.end(), [](core::Fp16 scale) {
    return (scale.bits & kExponent) == kExponent;
  });
  if (bad != scales.end()) {
    core::fail(ErrorKind::kInvalidModel, "{}.scales: {} is not finite", named.name,
               place_of(named, bad - scales.begin()));
  }
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
  require_part(named, "global", named.weight.global, DType::kF32, {1, 1});
  const float global = named.weight.global.data<float>()[0];
  require(global >= kMinNvGlobal && global <= kMaxNvGlobal, ErrorKind::kInvalidModel,
          "{}.global: {} is not in [2^-100, 2^100]", named.name, global);
}

void validate_book(const Named& named) {
  const Scheme& scheme = named.weight.scheme;
  const Tensor& book = named.weight.book;
  if (scheme.book != Book::kPerRow && scheme.book != Book::kPerMatrix) {
    require_absent(named, "book", book);
    return;
  }
  const std::int64_t rows = scheme.book == Book::kPerRow ? named.weight.n : 1;
  require_part(named, "book", book, DType::kF32, {rows, book_size(scheme)});
  const auto size = static_cast<std::size_t>(book_size(scheme));
  const auto values = book.data<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    require(std::abs(values[i]) <= kMaxBookValue, ErrorKind::kInvalidModel,
            "{}.book: row {}, entry {} is {}, not a finite value below 2^100", named.name, i / size,
            i % size, values[i]);
  }
}

// Scales that are multiples of a unit.
void validate_units(const Named& named, std::int64_t groups) {
  const PackedWeight& weight = named.weight;
  const std::int64_t bytes = packed_bytes(groups, kUnitScaleBits);
  require_part(named, "scales", weight.scales, DType::kU8, {weight.n, bytes});
  require_clean_padding(named, "scales", weight.scales, groups, kUnitScaleBits);
  require_part(named, "units", weight.units, DType::kU8, {weight.n, 1});
  for (std::int64_t row = 0; row < weight.n; ++row) {
    const std::uint8_t unit = weight.units.data<std::uint8_t>()[static_cast<std::size_t>(row)];
    require(unit >= 1 && unit <= kLargestUnit, ErrorKind::kInvalidModel,
            "{}.units: row {} holds {}, not 1 to {}", named.name, row, unit, kLargestUnit);
    const auto codes = weight.scales.data<std::uint8_t>().subspan(
        static_cast<std::size_t>(row * bytes), static_cast<std::size_t>(bytes));
    for (std::int64_t group = 0; group < groups; ++group) {
      require((get_code(codes, kUnitScaleBits, group) & kMaxUnits) != 0, ErrorKind::kInvalidModel,
              "{}.scales: row {}, group {} is zero", named.name, row, group);
    }
  }
}

void validate_scales(const Named& named, std::int64_t groups) {
  const PackedWeight& weight = named.weight;
  if (weight.scheme.kind != FormatKind::kNv) {
    require_absent(named, "global", weight.global);
  }
  if (weight.scheme.scale_bits == kUnitScaleBits) {
    validate_units(named, groups);
    return;
  }
  require_absent(named, "units", weight.units);
  const FormatKind kind = weight.scheme.kind;
  const bool bytes = kind == FormatKind::kMx || kind == FormatKind::kNv;
  require_part(named, "scales", weight.scales, bytes ? DType::kU8 : DType::kF16,
               {weight.n, groups});
  if (kind == FormatKind::kMx) {
    require_usable_exponents(named);
  } else if (kind == FormatKind::kNv) {
    validate_e4m3(named);
  } else {
    require_finite_scales(named);
  }
}

void validate_permutation(const Named& named) {
  const PackedWeight& weight = named.weight;
  require_part(named, "permutation", weight.permutation, DType::kI32, {1, weight.k});
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
  const PackedWeight& weight = named.weight;
  if (weight.scheme.tail == 0) {
    require_absent(named, "permutation", weight.permutation);
    require_absent(named, "tail_codes", weight.tail_codes);
    require_absent(named, "tail_scales", weight.tail_scales);
    return;
  }
  validate_permutation(named);
  require_part(named, "tail_codes", weight.tail_codes, DType::kU8, {weight.n, weight.scheme.tail});
  require_part(named, "tail_scales", weight.tail_scales, DType::kF16, {weight.n, 1});
  const PackedWeight tail = tail_of(weight);
  const std::string name = std::string(named.name) + " (tail)";
  require_finite_scales({tail, name});
}

void validate_coded(const Named& named) {
  const PackedWeight& weight = named.weight;
  const Scheme& scheme = weight.scheme;
  try {
    require_shape(scheme, weight.n, weight.k);
  } catch (const core::Error& error) {
    core::fail(ErrorKind::kInvalidModel, "{}: {}", named.name, error.what());
  }
  require_absent(named, "weight", weight.dense);
  require_part(named, "codes", weight.codes, DType::kU8,
               {weight.n, packed_bytes(head_inputs(scheme, weight.k), scheme.bits)});
  require_clean_padding(named, "codes", weight.codes, head_inputs(scheme, weight.k), scheme.bits);
  const std::int64_t groups = groups_per_row(scheme, weight.k);
  validate_scales(named, groups);
  if (scheme.symmetric) {
    require_absent(named, "zeros", weight.zeros);
  } else {
    require_part(named, "zeros", weight.zeros, DType::kU8,
                 {weight.n, packed_bytes(groups, scheme.bits)});
    require_clean_padding(named, "zeros", weight.zeros, groups, scheme.bits);
  }
  validate_book(named);
  validate_tail(named);
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
  if (weight.scheme.kind != FormatKind::kDense) {
    validate_coded(named);
    return;
  }
  require_part(named, "weight", weight.dense, weight.scheme.dense, {weight.n, weight.k});
  require_absent(named, "codes", weight.codes);
  require_absent(named, "scales", weight.scales);
  require_absent(named, "units", weight.units);
  require_absent(named, "global", weight.global);
  require_absent(named, "zeros", weight.zeros);
  require_absent(named, "book", weight.book);
  validate_tail(named);
}

}  // namespace nibble::formats
