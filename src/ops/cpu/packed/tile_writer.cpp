#include "ops/cpu/packed/tile_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/bit_packing.h"
#include "formats/nv/e4m3.h"
#include "formats/row_unit.h"
#include "formats/two_of_four.h"
#include "ops/cpu/packed/code_lines.h"

namespace nibble::ops::cpu {
namespace {

using formats::PackedWeight;

constexpr int kByteZero = 128;
constexpr int kTopExponent = 15;  // the largest scale of an MX row becomes 2^15, the top of FP16

// Row `row` of a part [n, count] to lane `lane` of [count][16] at `offset`.
template <typename T>
void copy_row(std::span<const T> part, std::int64_t row, std::int64_t rows, std::int64_t offset,
              std::int64_t lane, std::uint8_t* tile) {
  const std::int64_t count = std::ssize(part) / rows;
  auto* const to = reinterpret_cast<T*>(tile + offset) + lane;
  for (std::int64_t i = 0; i < count; ++i) {
    to[i * kTileRows] = part[static_cast<std::size_t>(row * count + i)];
  }
}

}  // namespace

WeightTables weight_tables(const PackedWeight& weight) {
  WeightTables tables;
  if (!formats::has_book(weight.scheme)) {
    return tables;
  }
  const bool per_row = weight.scheme.code.book == formats::Book::kPerRow;
  int low = 0;
  int high = 0;
  for (std::int64_t row = 0; row < (per_row ? weight.n : 1); ++row) {
    tables.rows.push_back(int8_table(formats::book_of(weight, row)));
    const auto& entries = tables.rows.back().entries;
    low = std::min<int>(low, *std::min_element(entries.begin(), entries.end()));
    high = std::max<int>(high, *std::max_element(entries.begin(), entries.end()));
  }
  // Tables become unsigned by adding a zero point: as small as it can be when that keeps all
  // entries small, because AVX2 then adds more products in 16 bits.
  tables.zero = high - low <= kSmallWeight ? -low : kByteZero;
  tables.largest = high + tables.zero;
  return tables;
}

TileWriter::TileWriter(const PackedWeight& weight, const WeightTables& tables,
                       const TiledWeight& tiled, std::int64_t group, std::byte* tiles)
    : weight_(weight),
      tables_(tables),
      tiled_(tiled),
      group_(group),
      weight_group_(formats::group_size(weight.scheme, weight.k)),
      stride_(tiled.group_inputs),
      stored_(stride_ == group || tiled.two_of_four),
      memory_(reinterpret_cast<std::uint8_t*>(tiles)),
      codes_(static_cast<std::size_t>(weight.k)),
      padded_(stored_ ? 0 : static_cast<std::size_t>(kTileRows * tiled.groups * stride_)),
      scales_(static_cast<std::size_t>(formats::groups_per_row(weight.scheme, weight.k))),
      zeros_(scales_.size()) {}

void TileWriter::write(std::int64_t index) {
  const std::int64_t first = index * kTileRows;
  const std::int64_t rows = std::min(kTileRows, weight_.n - first);
  std::uint8_t* tile = memory_ + index * tiled_.tile_bytes;
  for (std::int64_t lane = 0; lane < rows; ++lane) {
    write_row(first + lane, tile, lane);
  }
  std::uint8_t* lines = tile + tiled_.codes_offset;
  if (tiled_.two_of_four) {
    for (std::int64_t lane = 0; lane < rows; ++lane) {
      write_two_of_four(first + lane, lines, lane);
    }
    return;
  }
  if (!stored_) {
    const std::int64_t inputs = tiled_.groups * stride_;
    return bytes_to_lines(tiled_.bits, padded_.data(), inputs, rows, inputs, lines);
  }
  const std::int64_t row_bytes = formats::packed_bytes(weight_.k, tiled_.bits);
  const std::uint8_t* codes = weight_.codes.data<std::uint8_t>().data() + first * row_bytes;
  stored_to_lines(tiled_.bits, codes, row_bytes, rows, weight_.k, lines);
}

// All of a row but its codes; those are made ready where the stored ones do not serve.
void TileWriter::write_row(std::int64_t row, std::uint8_t* tile, std::int64_t lane) {
  if (!stored_ || weight_.scheme.scale.type == formats::ScaleType::kE8m0) {
    formats::unpack_codes(weight_, row, codes_);
  }
  if (!stored_) {
    pad_codes(lane);
  }
  if (formats::has_supers(weight_.scheme)) {
    write_unit(row, tile, lane);
    return write_multiples(row, tile, lane);
  }
  if (!has_plain_scales()) {
    formats::unpack_scales(weight_, row, scales_);
  }
  write_unit(row, tile, lane);
  write_scales(row, tile, lane);
  if (tiled_.zeros_offset != 0) {
    write_zeros(row, tile, lane);
  }
  if (tiled_.minima_offset != 0) {
    copy_row(weight_.minima.data<core::Fp16>(), row, weight_.n, tiled_.minima_offset, lane, tile);
  }
}

// Scales and minima that are multiples of a float16.
void TileWriter::write_multiples(std::int64_t row, std::uint8_t* tile, std::int64_t lane) const {
  const std::int64_t n = weight_.n;
  copy_row(weight_.scales.data<std::int8_t>(), row, n, tiled_.scales_offset, lane, tile);
  copy_row(weight_.supers.data<core::Fp16>(), row, n, tiled_.supers_offset, lane, tile);
  if (tiled_.minima_offset != 0) {
    copy_row(weight_.minima.data<std::int8_t>(), row, n, tiled_.minima_offset, lane, tile);
    copy_row(weight_.min_supers.data<core::Fp16>(), row, n, tiled_.min_supers_offset, lane, tile);
  }
}

/// Whether scales are stored as the tiles hold them.
bool TileWriter::has_plain_scales() const {
  return weight_.scales.dtype() == core::DType::kF16 && weight_.scales.dim(0) == weight_.n;
}

void TileWriter::pad_codes(std::int64_t lane) {
  std::uint8_t* padded = padded_.data() + lane * tiled_.groups * stride_;
  for (std::int64_t g = 0; g < tiled_.groups; ++g) {
    std::copy_n(codes_.data() + g * group_, std::min(group_, weight_.k - g * group_),
                padded + g * stride_);
  }
}

// Indices and codes of a row of which two of four weights are stored.
void TileWriter::write_two_of_four(std::int64_t row, std::uint8_t* lines, std::int64_t lane) {
  const int bits = tiled_.bits;
  const std::uint8_t* const stored =
      weight_.codes.data<std::uint8_t>().data() + row * weight_.codes.dim(1);
  formats::unpack_zeros(weight_, row, zeros_);
  for (std::int64_t quad = 0; quad < weight_.k / kQuad; ++quad) {
    const std::int64_t input = quad * kQuad;
    const std::int64_t place = input / group_ * stride_ + input % group_;  // with padding
    const std::int64_t in_unit = place % kUnit / kQuad;
    const std::int64_t pair = in_unit / 2;
    std::uint8_t* const unit = lines + place / kUnit * kept_unit_bytes(bits) + lane * kQuad;
    const formats::KeptPair kept = formats::kept_pair(weight_, row, quad);
    const int indices = kept.first | kept.second << 2;
    unit[pair] = static_cast<std::uint8_t>(unit[pair] | indices << in_unit % 2 * 4);
    std::uint8_t* const codes =
        unit + kLineBytes * (1 + (bits == 8 ? pair : pair / 2)) + in_unit % 2 * 2;
    const int shift = bits == 8 ? 0 : static_cast<int>(pair % 2) * 4;
    const int zero = zeros_[static_cast<std::size_t>(input / weight_group_)];
    for (std::int64_t i = 0; i < 2; ++i) {
      const int code = formats::get_code(stored, bits, 2 * quad + i) ^ zero;
      codes[i] = static_cast<std::uint8_t>(codes[i] | code << shift);
    }
  }
}

void TileWriter::write_unit(std::int64_t row, std::uint8_t* tile, std::int64_t lane) {
  float unit = 1.0f;
  if (formats::has_book(weight_.scheme)) {
    const Int8Table& table = tables_.of(row);
    unit = table.unit;
    if (tiled_.kind == CodeKind::kRowTables) {
      std::uint8_t* entries = tile + tiled_.tables_offset + lane * tiled_.table_size();
      for (std::size_t i = 0; i < static_cast<std::size_t>(tiled_.table_size()); ++i) {
        entries[i] = static_cast<std::uint8_t>(table.entries[i] + tables_.zero);
      }
    }
  }
  if (weight_.scheme.scale.type == formats::ScaleType::kE8m0) {
    unit *= take_out_exponent();
  } else if (weight_.scheme.scale.type == formats::ScaleType::kE4m3) {
    unit *= take_out_global(row);
  }
  std::memcpy(tile + lane * static_cast<std::int64_t>(sizeof(float)), &unit, sizeof(float));
}

/// E8M0 scales reach from 2^-127 to 2^127, FP16 does not: divides the row's scales by a power of
/// two that brings the largest one (of a group that is not all zero) to 2^15, and returns that
/// power. Scales 2^-40 times smaller than the row's largest become 0.
float TileWriter::take_out_exponent() {
  const Int8Table& table = tables_.of(0);
  float largest = 0.0f;
  for (std::size_t g = 0; g < scales_.size(); ++g) {
    const auto begin = codes_.begin() + static_cast<std::ptrdiff_t>(g) * weight_group_;
    const auto end = codes_.begin() +
                     std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(g + 1) * weight_group_,
                                              std::ssize(codes_));
    if (std::all_of(begin, end, [&](std::uint8_t code) { return table.entries[code] == 0; })) {
      scales_[g] = 0.0f;
    }
    largest = std::max(largest, scales_[g]);
  }
  if (largest == 0.0f) {
    return 0.0f;
  }
  const int shift = std::ilogb(largest) - kTopExponent;
  for (float& scale : scales_) {
    scale = std::ldexp(scale, -shift);
  }
  return std::ldexp(1.0f, shift);
}

/// Leaves the E4M3 values, which FP16 holds exactly, and returns the global scale.
float TileWriter::take_out_global(std::int64_t row) {
  const auto bytes = weight_.scales.data<std::uint8_t>().subspan(
      static_cast<std::size_t>(row) * scales_.size(), scales_.size());
  std::transform(bytes.begin(), bytes.end(), scales_.begin(), formats::e4m3_to_float);
  return weight_.global.data<float>()[0];
}

void TileWriter::write_scales(std::int64_t row, std::uint8_t* tile, std::int64_t lane) const {
  auto* scales = reinterpret_cast<core::Fp16*>(tile + tiled_.scales_offset) + lane;
  if (!has_plain_scales()) {
    for (std::int64_t g = 0; g < tiled_.groups; ++g) {
      scales[g * kTileRows] = core::to_fp16(scales_[weight_group(g)]);
    }
    return;
  }
  const core::Fp16* stored = weight_.scales.data<core::Fp16>().data() + row * std::ssize(scales_);
  for (std::int64_t g = 0; g < tiled_.groups; ++g) {
    scales[g * kTileRows] =
        stored[group_ == weight_group_ ? static_cast<std::size_t>(g) : weight_group(g)];
  }
}

void TileWriter::write_zeros(std::int64_t row, std::uint8_t* tile, std::int64_t lane) {
  formats::unpack_zeros(weight_, row, zeros_);
  std::uint8_t* zeros = tile + tiled_.zeros_offset + lane;
  for (std::int64_t g = 0; g < tiled_.groups; ++g) {
    zeros[g * kTileRows] = zeros_[weight_group(g)];
  }
}

}  // namespace nibble::ops::cpu
