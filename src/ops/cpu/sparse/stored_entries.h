#pragma once

#include <cstdint>

#include "core/float16.h"
#include "formats/bit_packing.h"
#include "formats/packed_weight.h"
#include "formats/row_unit.h"

namespace nibble::ops::cpu {

/// Codes, scales and zero points of a block-sparse weight, as it stores them: an entry for each
/// group of each row (formats::stored_entry).
class StoredEntries {
 public:
  /// `weight` must stay where it is.
  explicit StoredEntries(const formats::PackedWeight& weight)
      : bits_(weight.scheme.code.bits),
        group_bytes_(formats::packed_bytes(weight.scheme.scale.group, bits_)),
        codes_(weight.codes.data<std::uint8_t>().data()),
        scales_(weight.scales) {
    if (formats::has_zeros(weight.scheme)) {
      zeros_ = weight.zeros.data<std::uint8_t>().data();
    }
  }

  int code(std::int64_t entry, std::int64_t input) const {
    return formats::get_code(codes_ + entry * group_bytes_, bits_, input);
  }
  int zero(std::int64_t entry) const {
    return zeros_ == nullptr ? 1 << (bits_ - 1) : formats::get_code(zeros_, bits_, entry);
  }
  /// The float16 of a scale.
  std::uint16_t half_scale(std::int64_t entry) const {
    return scales_.data<core::Fp16>()[static_cast<std::size_t>(entry)].bits;
  }
  /// A scale of 7 bits (formats/row_unit.h), in units of its row.
  std::int8_t whole_scale(std::int64_t entry) const {
    const std::uint8_t bits =
        formats::get_code(scales_.data<std::uint8_t>().data(), formats::kUnitScaleBits, entry);
    return static_cast<std::int8_t>(formats::scale_of_units(bits, 1.0f));
  }

 private:
  int bits_;
  std::int64_t group_bytes_;
  const std::uint8_t* codes_;
  const std::uint8_t* zeros_ = nullptr;  // null: all are half of the codes
  const core::Tensor& scales_;
};

}  // namespace nibble::ops::cpu
