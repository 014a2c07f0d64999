#include "ops/cuda/packed/unit_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/float16.h"
#include "ops/cpu/packed/int8_table.h"

namespace nibble::ops::cuda {
namespace {

using formats::FormatKind;
using formats::PackedWeight;

constexpr std::int64_t kSmallestGroup = 16;
constexpr std::int64_t kSmallGroup = 32;

/// One tile row within a unit: its 16-bit scales, zeros and codes.
class UnitRow {
 public:
  UnitRow(std::byte* unit, const UnitFormat& format, std::int64_t row)
      : format_(format),
        codes_(unit + row / kTileRows * format.tile_bytes()),
        row_(static_cast<unsigned>(row % kTileRows)),
        scales_(codes_ + format.code_bytes() + 2 * scale_place(row_)),
        zeros_(codes_ + format.zero_offset() + scale_place(row_)) {}

  void set_scale(std::int64_t group, std::uint16_t bits) {
    std::memcpy(scales_ + 2 * group * kTileRows, &bits, sizeof bits);
  }
  void set_zero(std::int64_t group, std::uint8_t zero) {
    zeros_[group * kTileRows] = static_cast<std::byte>(zero);
  }

  void set_code(std::int64_t k, std::uint8_t code) {
    const CodePlace place = code_place(format_.codes, row_, static_cast<unsigned>(k));
    const unsigned bit = 128 * place.vector + 32 * place.word + place.shift;  // bytes ascend
    codes_[bit / 8] |= static_cast<std::byte>(turned_code(format_.codes, row_, code) << (bit % 8));
  }

 private:
  const UnitFormat& format_;
  std::byte* codes_;
  unsigned row_;
  std::byte* scales_;
  std::byte* zeros_;
};

// NVFP4's scale of the whole matrix goes into the factors: what is left is exact in float16.
float matrix_scale(const PackedWeight& weight) {
  return weight.scheme.kind == FormatKind::kNv ? weight.global.data<float>()[0] : 1.0f;
}

std::uint16_t scale_bits(float scale, ScaleKind kind) {
  return kind == ScaleKind::kBf16 ? core::to_bf16(scale).bits : core::to_fp16(scale).bits;
}

/// A row as units hold it.
struct RowCodes {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> zeros;
  std::vector<float> scales;
};

// Integers of fewer bits become 4-bit ones with the same value.
void read_row(const PackedWeight& weight, std::int64_t row, const UnitFormat& format,
              RowCodes& out) {
  const auto groups = static_cast<std::size_t>(groups_per_row(weight.scheme, weight.k));
  out.codes.resize(static_cast<std::size_t>(weight.k));
  out.scales.resize(groups);
  unpack_codes(weight, row, out.codes);
  unpack_scales(weight, row, out.scales);
  const float whole = matrix_scale(weight);
  for (float& scale : out.scales) {
    scale = whole == 0.0f ? 0.0f : scale / whole;
  }
  out.zeros.clear();
  if (format.has_zeros()) {
    out.zeros.resize(groups);
    unpack_zeros(weight, row, out.zeros);
  } else if (format.codes == CodeKind::kInt4) {
    const int shift = 8 - (1 << (weight.scheme.bits - 1));
    for (std::uint8_t& code : out.codes) {
      code = static_cast<std::uint8_t>(code + shift);
    }
  }
}

}  // namespace

bool has_units(const formats::Scheme& scheme) {
  return scheme.kind != FormatKind::kDense && scheme.group % kSmallestGroup == 0 &&
         scheme.activation.group % kSmallestGroup == 0;
}

UnitFormat unit_format_of(const formats::Scheme& scheme) {
  core::require(has_units(scheme), core::ErrorKind::kUsage,
                "{} has no kernels on a GPU yet; use --device cpu", to_string(scheme));
  UnitFormat format;
  if (scheme.group % kSmallGroup != 0 || scheme.activation.group % kUnitInputs != 0) {
    format.groups = kUnitInputs / kSmallestGroup;
  } else {
    format.groups = scheme.group % kUnitInputs == 0 ? 1 : kUnitInputs / kSmallGroup;
  }
  if (scheme.kind == FormatKind::kInt) {
    if (scheme.bits == 8) {
      format.codes = scheme.symmetric ? CodeKind::kInt8 : CodeKind::kInt8WithZeros;
    } else {
      format.codes = scheme.symmetric ? CodeKind::kInt4 : CodeKind::kInt4WithZeros;
    }
    return format;
  }
  format.codes = CodeKind::kBook;
  format.scales = scheme.kind == FormatKind::kMx ? ScaleKind::kBf16 : ScaleKind::kF16;
  return format;
}

std::int64_t UnitRows::count() const {
  std::int64_t sum = 0;
  for (const PackedWeight* weight : weights) {
    sum += weight->n;
  }
  return sum;
}

UnitRows::Place UnitRows::place(std::int64_t row) const {
  if (pairs) {
    return {static_cast<std::size_t>(row / kPairRows % 2),
            row / (2 * kPairRows) * kPairRows + row % kPairRows};
  }
  std::size_t weight = 0;
  while (row >= weights[weight]->n) {
    row -= weights[weight++]->n;
  }
  return {weight, row};
}

void write_units(const UnitRows& rows, const UnitFormat& format, std::int64_t first,
                 std::int64_t count, std::span<std::byte> units, std::span<std::int8_t> tables,
                 std::span<float> factors) {
  const PackedWeight& front = *rows.weights.front();
  const std::int64_t all = rows.count();
  const UnitGrid grid = unit_grid(all, front.k);
  const std::int64_t group = group_size(front.scheme, front.k);
  const std::int64_t sub = kUnitInputs / format.groups;
  std::fill(units.begin(), units.end(), std::byte{0});
  std::fill(tables.begin(), tables.end(), std::int8_t{0});
  std::fill(factors.begin(), factors.end(), 1.0f);
  RowCodes row;
  for (std::int64_t r = 0; r < count * kUnitRows; ++r) {
    const std::int64_t n = first * kUnitRows + r;
    if (n >= all) {
      break;  // scales of zero
    }
    const UnitRows::Place place = rows.place(n);
    const PackedWeight& weight = *rows.weights[place.weight];
    read_row(weight, place.row, format, row);
    if (format.codes == CodeKind::kBook) {
      const cpu::Int8Table table = cpu::int8_table(book_of(weight, place.row));
      std::copy(table.entries.begin(), table.entries.end(), tables.begin() + r * 16);
      factors[static_cast<std::size_t>(r)] = table.unit * matrix_scale(weight);
    }
    std::byte* const first_unit = units.data() + r / kUnitRows * grid.blocks * format.bytes();
    for (std::int64_t block = 0; block < grid.blocks; ++block) {
      UnitRow target(first_unit + block * format.bytes(), format, r % kUnitRows);
      const std::int64_t begin = block * kUnitInputs;
      for (std::int64_t k = begin; k < std::min(begin + kUnitInputs, weight.k); ++k) {
        target.set_code(k - begin, row.codes[static_cast<std::size_t>(k)]);
      }
      for (std::int64_t g = 0; g < format.groups; ++g) {
        const std::int64_t k = begin + g * sub;
        if (k >= weight.k) {
          break;
        }
        const auto at = static_cast<std::size_t>(k / group);
        target.set_scale(g, scale_bits(row.scales[at], format.scales));
        if (format.has_zeros()) {
          target.set_zero(g, row.zeros[at]);
        }
      }
    }
  }
}

std::vector<float> unit_row_sums(const PackedWeight& weight, const UnitFormat& format,
                                 std::int64_t row, std::int64_t step) {
  RowCodes codes;
  read_row(weight, row, format, codes);
  const bool book = format.codes == CodeKind::kBook;
  const cpu::Int8Table table = book ? cpu::int8_table(book_of(weight, row)) : cpu::Int8Table{};
  const double factor = book ? static_cast<double>(table.unit) * matrix_scale(weight) : 1.0;
  const int zero = format.codes == CodeKind::kInt8 ? 128 : 8;
  const std::int64_t length = step == 0 ? weight.k : step;
  const std::int64_t group = group_size(weight.scheme, weight.k);
  std::vector<double> sums(static_cast<std::size_t>((weight.k + length - 1) / length));
  for (std::int64_t k = 0; k < weight.k; ++k) {
    const auto g = static_cast<std::size_t>(k / group);
    const std::uint8_t code = codes.codes[static_cast<std::size_t>(k)];
    const int value =
        book ? table.entries[code] : code - (format.has_zeros() ? codes.zeros[g] : zero);
    const std::uint16_t bits = scale_bits(codes.scales[g], format.scales);
    const float scale = format.scales == ScaleKind::kBf16 ? core::to_float(core::Bf16{bits})
                                                          : core::to_float(core::Fp16{bits});
    sums[static_cast<std::size_t>(k / length)] += factor * value * static_cast<double>(scale);
  }
  return {sums.begin(), sums.end()};
}

}  // namespace nibble::ops::cuda
