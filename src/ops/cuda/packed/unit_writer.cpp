#include "ops/cuda/packed/unit_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/float16.h"
#include "ops/cuda/packed/book_table.h"

namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

/// One tile row within a unit: its 16-bit scales, zeros or shifts, and codes.
class UnitRow {
 public:
  UnitRow(std::byte* unit, const UnitFormat& format, std::int64_t row)
      : format_(format),
        codes_(unit + row / kTileRows * format.tile_bytes()),
        row_(static_cast<unsigned>(row % kTileRows)),
        scales_(codes_ + format.code_bytes() + 2 * scale_place(row_)),
        offsets_(codes_ + format.zero_offset()) {}

  void set_scale(std::int64_t group, std::uint16_t bits) {
    std::memcpy(scales_ + 2 * group * kTileRows, &bits, sizeof bits);
  }
  void set_zero(std::int64_t group, std::uint8_t zero) {
    offsets_[group * kTileRows + scale_place(row_)] = static_cast<std::byte>(zero);
  }
  void set_shift(std::int64_t group, float shift) {
    const std::uint16_t bits = core::to_fp16(shift).bits;
    std::memcpy(offsets_ + 2 * (group * kTileRows + scale_place(row_)), &bits, sizeof bits);
  }

  void set_code(std::int64_t k, std::uint8_t code) {
    const CodePlace place = code_place(format_.codes, row_, static_cast<unsigned>(k));
    if (!has_planes(format_.codes)) {
      return set_bits(place, turned_code(format_.codes, row_, code));
    }
    set_bits(place, code & 3u);
    if (format_.bits() == 3) {
      set_bits(third_bit_place(format_.codes, row_, static_cast<unsigned>(k)), code >> 2u);
    }
  }

 private:
  void set_bits(const CodePlace& place, unsigned bits) {
    const unsigned bit = 128 * place.vector + 32 * place.word + place.shift;  // bytes ascend
    codes_[bit / 8] |= static_cast<std::byte>(bits << (bit % 8));
  }

  const UnitFormat& format_;
  std::byte* codes_;
  unsigned row_;
  std::byte* scales_;
  std::byte* offsets_;
};

std::uint16_t scale_bits(float scale, ScaleKind kind) {
  return kind == ScaleKind::kBf16 ? core::to_bf16(scale).bits : core::to_fp16(scale).bits;
}

/// A row as units hold it.
struct RowCodes {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> zeros;
  std::vector<float> scales;
  std::vector<float> shifts;
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
  }
  out.shifts.clear();
  if (format.has_shifts()) {
    out.shifts.resize(groups);
    unpack_minima(weight, row, out.shifts);
  }
  const int shift = code_shift(weight.scheme);
  for (std::uint8_t& code : out.codes) {
    code = static_cast<std::uint8_t>(code + shift);
  }
}

}  // namespace

void write_units(const UnitRows& rows, const UnitFormat& format, std::span<std::byte> units,
                 std::span<std::int8_t> tables, std::span<float> factors) {
  const PackedWeight& front = *rows.weights.front();
  const std::int64_t all = rows.count();
  const UnitGrid grid = unit_grid(all, front.k);
  const std::int64_t group = group_size(front.scheme, front.k);
  const std::int64_t sub = kUnitInputs / format.groups;
  std::fill(units.begin(), units.end(), std::byte{0});
  std::fill(tables.begin(), tables.end(), std::int8_t{0});
  std::fill(factors.begin(), factors.end(), 1.0f);
  RowCodes row;
  for (std::int64_t n = 0; n < all; ++n) {
    const UnitRows::Place place = rows.place(n);
    const PackedWeight& weight = *rows.weights[place.weight];
    read_row(weight, place.row, format, row);
    if (is_book(format.codes)) {
      write_tables(rows, n, tables.subspan(static_cast<std::size_t>(n * 16), 16),
                   factors.subspan(static_cast<std::size_t>(n), 1));
    }
    std::byte* const first_unit = units.data() + n / kUnitRows * grid.blocks * format.bytes();
    for (std::int64_t block = 0; block < grid.blocks; ++block) {
      UnitRow target(first_unit + block * format.bytes(), format, n % kUnitRows);
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
        if (format.has_shifts()) {
          target.set_shift(g, row.shifts[at]);
        }
      }
    }
  }
}

std::vector<float> unit_row_sums(const PackedWeight& weight, const UnitFormat& format,
                                 std::int64_t row, std::int64_t step) {
  RowCodes codes;
  read_row(weight, row, format, codes);
  const bool book = is_book(format.codes);
  std::array<std::int8_t, 16> table = {};
  float factor = 1.0f;
  if (book) {
    write_tables({{&weight}}, row, table, std::span(&factor, 1));
  }
  const int zero = 1 << (format.bits() - 1);
  const std::int64_t length = step == 0 ? weight.k : step;
  const std::int64_t group = group_size(weight.scheme, weight.k);
  std::vector<double> sums(static_cast<std::size_t>((weight.k + length - 1) / length));
  for (std::int64_t k = 0; k < weight.k; ++k) {
    const auto g = static_cast<std::size_t>(k / group);
    const std::uint8_t code = codes.codes[static_cast<std::size_t>(k)];
    const int value =
        book ? book_entry(table.data(), code) : code - (format.has_zeros() ? codes.zeros[g] : zero);
    const std::uint16_t bits = scale_bits(codes.scales[g], format.scales);
    const float scale = format.scales == ScaleKind::kBf16 ? core::to_float(core::Bf16{bits})
                                                          : core::to_float(core::Fp16{bits});
    sums[static_cast<std::size_t>(k / length)] +=
        static_cast<double>(factor) * value * static_cast<double>(scale) +
        (format.has_shifts() ? static_cast<double>(codes.shifts[g]) : 0.0);
  }
  return {sums.begin(), sums.end()};
}

}  // namespace nibble::ops::cuda
