#include "ops/cpu/sparse/sparse_units.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/block_sparse.h"
#include "formats/row_unit.h"

namespace nibble::ops::cpu {
namespace {

using formats::PackedWeight;

constexpr std::int64_t kRowsPerTask = 16;
constexpr std::int64_t kFarthestPlace = 255;

/// Stored groups [begin, end), which fill one unit, or a part of it.
struct UnitGroups {
  std::int64_t begin;
  std::int64_t end;
};

/// Calls visit(UnitGroups) for each unit of a row.
template <class Visit>
void for_units(const PackedWeight& weight, std::int64_t row, std::int64_t entries,
               const Visit& visit) {
  const auto [begin, end] = formats::stored_groups_of(weight, row);
  for (std::int64_t first = begin; first < end;) {
    const std::int64_t base = formats::stored_group(weight, first);
    std::int64_t at = first + 1;
    while (at < end && at - first < entries &&
           formats::stored_group(weight, at) - base <= kFarthestPlace) {
      ++at;
    }
    visit(UnitGroups{first, at});
    first = at;
  }
}

/// Writes units of one weight.
class UnitWriter {
 public:
  UnitWriter(const PackedWeight& weight, const SparseUnitLayout& layout, int held_bits)
      : weight_(weight),
        layout_(layout),
        held_bits_(held_bits),
        codes_(weight.codes.data<std::uint8_t>()) {
    if (formats::has_zeros(weight.scheme)) {
      zeros_ = weight.zeros.data<std::uint8_t>();
    }
  }

  /// `unit` is zero before.
  void write(const UnitGroups& groups, std::uint8_t* unit) const {
    const std::int64_t base = formats::stored_group(weight_, groups.begin);
    unit[layout_.base] = static_cast<std::uint8_t>(base);
    unit[layout_.base + 1] = static_cast<std::uint8_t>(base >> 8);
    for (int entry = 0; entry < layout_.entries; ++entry) {
      const std::int64_t at = std::min(groups.begin + entry, groups.end - 1);
      unit[entry] = static_cast<std::uint8_t>(formats::stored_group(weight_, at) - base);
      if (groups.begin + entry == at) {
        write_group(at, entry, unit);
      }
    }
  }

 private:
  void write_group(std::int64_t at, int entry, std::uint8_t* unit) const {
    const int bits = weight_.scheme.code.bits;
    write_scale(at, entry, unit + layout_.scales);
    const int zero = zeros_.empty() ? 1 << (bits - 1) : formats::get_code(zeros_.data(), bits, at);
    set_zero(entry, zero, unit);
    const std::int64_t group = weight_.scheme.scale.group;
    const std::uint8_t* const from = codes_.data() + at * formats::packed_bytes(group, bits);
    for (std::int64_t i = 0; i < group; ++i) {
      set_code(entry * group + i, formats::get_code(from, bits, i), unit);
    }
  }

  void write_scale(std::int64_t at, int entry, std::uint8_t* scales) const {
    if (weight_.scheme.scale.type == formats::ScaleType::kUnits) {
      scales[entry] = formats::get_code(weight_.scales.data<std::uint8_t>().data(),
                                        formats::kUnitScaleBits, at);
      return;
    }
    const std::uint16_t bits = weight_.scales.data<core::Fp16>()[static_cast<std::size_t>(at)].bits;
    std::memcpy(scales + std::ptrdiff_t{2} * entry, &bits, sizeof(bits));
  }

  void set_zero(int entry, int zero, std::uint8_t* unit) const {
    std::uint8_t* const zeros = unit + layout_.zeros;
    if (held_bits_ == 8) {
      zeros[entry] = static_cast<std::uint8_t>(zero);
      return;
    }
    const int half = layout_.entries / 2;
    zeros[entry % half] |= static_cast<std::uint8_t>(zero << (entry / half * 4));
  }

  void set_code(std::int64_t weight, int code, std::uint8_t* unit) const {
    std::uint8_t* const codes = unit + layout_.codes;
    if (held_bits_ == 8) {
      codes[weight] = static_cast<std::uint8_t>(code);
      return;
    }
    const std::int64_t vector = weight / kSparseVector;
    codes[vector / 2 * kSparseVector + weight % kSparseVector] |=
        static_cast<std::uint8_t>(code << (vector % 2 * 4));
  }

  const PackedWeight& weight_;
  const SparseUnitLayout& layout_;
  int held_bits_;
  std::span<const std::uint8_t> codes_;
  std::span<const std::uint8_t> zeros_;
};

}  // namespace

SparseUnitLayout sparse_unit_layout(std::int64_t group, int held_bits, int scale_bytes) {
  return sparse_unit_layout_of(static_cast<int>(group), held_bits, scale_bytes);
}

SparseUnits SparseUnits::pack(const PackedWeight& weight, core::ThreadPool& pool) {
  const formats::Scheme& scheme = weight.scheme;
  core::require(formats::is_block_sparse(scheme) && !formats::has_tile_pattern(scheme) &&
                    formats::has_codes(scheme),
                core::ErrorKind::kFailed, "{} has no units of block-sparse rows", scheme);
  SparseUnits units;
  units.k_ = weight.k;
  units.group_ = static_cast<int>(scheme.scale.group);
  units.held_bits_ = held_bits_of(scheme.code.bits);
  if (scheme.scale.type == formats::ScaleType::kUnits) {
    units.scale_bytes_ = 1;
    for (const std::uint8_t unit : weight.units.data<std::uint8_t>()) {
      units.row_units_.push_back(formats::unit_value(unit));
    }
  }
  const SparseUnitLayout layout =
      sparse_unit_layout(units.group_, units.held_bits_, units.scale_bytes_);
  units.first_unit_.push_back(0);
  for (std::int64_t row = 0; row < weight.n; ++row) {
    std::int32_t count = units.first_unit_.back();
    for_units(weight, row, layout.entries, [&](const UnitGroups&) { ++count; });
    units.first_unit_.push_back(count);
  }
  units.memory_ = PageBuffer(std::int64_t{units.first_unit_.back()} * layout.bytes);
  const UnitWriter writer(weight, layout, units.held_bits_);
  auto* const memory = reinterpret_cast<std::uint8_t*>(units.memory_.data());
  pool.parallel_for(weight.n, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t unit = units.first_unit_[static_cast<std::size_t>(row)];
      for_units(weight, row, layout.entries, [&](const UnitGroups& groups) {
        writer.write(groups, memory + unit * layout.bytes);
        ++unit;
      });
    }
  });
  return units;
}

SparseWeight SparseUnits::view() const {
  return {reinterpret_cast<const std::uint8_t*>(memory_.data()),
          first_unit_.data(),
          row_units_.data(),
          group_,
          held_bits_,
          scale_bytes_};
}

}  // namespace nibble::ops::cpu
