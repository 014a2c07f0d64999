#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/float16.h"
#include "formats/nv/e4m3.h"
#include "formats/scheme.h"
#include "ops/cpu/packed/int8_table.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/packed/zero_points.h"

namespace nibble::ops::cpu {
namespace {

using formats::FormatKind;
using formats::PackedWeight;

constexpr std::int64_t kLine = 64;
constexpr int kByteZero = 128;
constexpr int kTopExponent = 15;  // the largest scale of an MX row becomes 2^15, the top of FP16
constexpr std::int64_t kSizeLimit = std::int64_t{1} << 31;

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// What the 16 codes of a row stand for. Empty tables for integers.
struct Tables {
  std::vector<Int8Table> rows;  // one for each row, or one for the matrix
  int zero = 0;
  int largest = 0;

  const Int8Table& of(std::int64_t row) const {
    return rows[rows.size() == 1 ? 0 : static_cast<std::size_t>(row)];
  }
};

Tables make_tables(const PackedWeight& weight) {
  Tables tables;
  if (weight.scheme.kind == FormatKind::kInt) {
    return tables;
  }
  const bool per_row = weight.scheme.book == formats::Book::kPerRow;
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

CodeKind kind_of(const PackedWeight& weight) {
  if (weight.scheme.kind == FormatKind::kInt) {
    return weight.scheme.bits == 8 ? CodeKind::kByte : CodeKind::kNibble;
  }
  return weight.scheme.book == formats::Book::kPerRow ? CodeKind::kRowTables
                                                      : CodeKind::kSharedTable;
}

TiledWeight plan_layout(const PackedWeight& weight, const Tables& tables, const InputNeeds& needs) {
  TiledWeight tiled;
  tiled.n = weight.n;
  tiled.tile_count = (weight.n + kTileRows - 1) / kTileRows;
  tiled.groups = (weight.k + needs.group - 1) / needs.group;
  tiled.units_per_group = round_up(needs.group, kUnit) / kUnit;
  tiled.kind = kind_of(weight);
  const bool asymmetric = weight.scheme.kind == FormatKind::kInt && !weight.scheme.symmetric;
  if (weight.scheme.kind == FormatKind::kInt) {
    tiled.zero = asymmetric ? 0 : 1 << (weight.scheme.bits - 1);
    tiled.largest = (1 << weight.scheme.bits) - 1;
  } else {
    tiled.zero = tables.zero;
    tiled.largest = tables.largest;
  }
  std::int64_t offset = kTileRows * static_cast<std::int64_t>(sizeof(float));
  if (tiled.kind == CodeKind::kRowTables) {
    tiled.tables_offset = offset;
    offset += kTileRows * 16;
  }
  tiled.scales_offset = offset;
  offset += tiled.groups * kTileRows * static_cast<std::int64_t>(sizeof(core::Fp16));
  if (asymmetric) {
    tiled.zeros_offset = offset;
    offset += tiled.groups * kTileRows;
  }
  tiled.codes_offset = round_up(offset, kLine);
  tiled.tile_bytes = tiled.codes_offset + tiled.groups * tiled.units_per_group * tiled.unit_bytes();
  if (tiled.kind == CodeKind::kSharedTable) {
    for (std::size_t i = 0; i < 16; ++i) {
      tiled.table[i] = static_cast<std::uint8_t>(tables.rows[0].entries[i] + tables.zero);
    }
  }
  return tiled;
}

/// Writes the rows of one worker's tiles.
class TileWriter {
 public:
  TileWriter(const PackedWeight& weight, const Tables& tables, const TiledWeight& tiled,
             std::int64_t group, std::byte* memory)
      : weight_(weight),
        tables_(tables),
        tiled_(tiled),
        group_(group),
        weight_group_(formats::group_size(weight.scheme, weight.k)),
        memory_(reinterpret_cast<std::uint8_t*>(memory)),
        codes_(static_cast<std::size_t>(weight.k)),
        scales_(static_cast<std::size_t>(formats::groups_per_row(weight.scheme, weight.k))),
        zeros_(scales_.size()) {}

  void write_row(std::int64_t row) {
    formats::unpack_codes(weight_, row, codes_);
    formats::unpack_scales(weight_, row, scales_);
    std::uint8_t* tile = memory_ + row / kTileRows * tiled_.tile_bytes;
    const std::int64_t lane = row % kTileRows;
    write_unit(tile, row, lane);
    write_scales(tile, lane);
    if (tiled_.zeros_offset != 0) {
      write_zeros(tile, row, lane);
    }
    write_codes(tile, lane);
  }

 private:
  std::size_t weight_group(std::int64_t group) const {
    return static_cast<std::size_t>(group * group_ / weight_group_);
  }

  void write_unit(std::uint8_t* tile, std::int64_t row, std::int64_t lane) {
    float unit = 1.0f;
    if (weight_.scheme.kind != FormatKind::kInt) {
      const Int8Table& table = tables_.of(row);
      unit = table.unit;
      if (tiled_.kind == CodeKind::kRowTables) {
        std::uint8_t* entries = tile + tiled_.tables_offset + lane * 16;
        for (std::size_t i = 0; i < 16; ++i) {
          entries[i] = static_cast<std::uint8_t>(table.entries[i] + tables_.zero);
        }
      }
    }
    if (weight_.scheme.kind == FormatKind::kMx) {
      unit *= take_out_exponent();
    } else if (weight_.scheme.kind == FormatKind::kNv) {
      unit *= take_out_global(row);
    }
    std::memcpy(tile + lane * static_cast<std::int64_t>(sizeof(float)), &unit, sizeof(float));
  }

  /// E8M0 scales reach from 2^-127 to 2^127, FP16 does not: divides the row's scales by a power of
  /// two that brings the largest one (of a group that is not all zero) to 2^15, and returns that
  /// power. Scales 2^-40 times smaller than the row's largest become 0.
  float take_out_exponent() {
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
  float take_out_global(std::int64_t row) {
    const auto bytes = weight_.scales.data<std::uint8_t>().subspan(
        static_cast<std::size_t>(row) * scales_.size(), scales_.size());
    std::transform(bytes.begin(), bytes.end(), scales_.begin(), formats::e4m3_to_float);
    return weight_.global.data<float>()[0];
  }

  void write_scales(std::uint8_t* tile, std::int64_t lane) const {
    auto* scales = reinterpret_cast<core::Fp16*>(tile + tiled_.scales_offset);
    for (std::int64_t g = 0; g < tiled_.groups; ++g) {
      scales[g * kTileRows + lane] = core::to_fp16(scales_[weight_group(g)]);
    }
  }

  void write_zeros(std::uint8_t* tile, std::int64_t row, std::int64_t lane) {
    formats::unpack_zeros(weight_, row, zeros_);
    for (std::int64_t g = 0; g < tiled_.groups; ++g) {
      tile[tiled_.zeros_offset + g * kTileRows + lane] = zeros_[weight_group(g)];
    }
  }

  void write_codes(std::uint8_t* tile, std::int64_t lane) const {
    const std::int64_t stride = tiled_.units_per_group * kUnit;
    std::uint8_t* lines = tile + tiled_.codes_offset + lane * kQuad;
    for (std::int64_t k = 0; k < weight_.k; ++k) {
      const std::int64_t padded = k / group_ * stride + k % group_;
      const std::int64_t quad = padded / kQuad;
      const std::uint8_t code = codes_[static_cast<std::size_t>(k)];
      if (tiled_.kind == CodeKind::kByte) {
        lines[quad * kLineBytes + padded % kQuad] = code;
      } else {
        std::uint8_t& byte = lines[quad / 2 * kLineBytes + padded % kQuad];
        byte = static_cast<std::uint8_t>(byte | (quad % 2 == 0 ? code : code << 4));
      }
    }
  }

  const PackedWeight& weight_;
  const Tables& tables_;
  const TiledWeight& tiled_;
  std::int64_t group_;
  std::int64_t weight_group_;
  std::uint8_t* memory_;
  std::vector<std::uint8_t> codes_;
  std::vector<float> scales_;
  std::vector<std::uint8_t> zeros_;
};

/// Inputs that share all scales: of the weights, and of the activations where those have groups of
/// their own. One divides the other (formats::validate), so the smaller one serves.
std::int64_t layout_group(const formats::Scheme& scheme, std::int64_t k) {
  const std::int64_t weights = formats::group_size(scheme, k);
  const std::int64_t activations = scheme.activation.group;
  const bool finer = activations != 0 && activations < weights;
  const std::int64_t group = finer ? activations : weights;
  const bool whole_row = !finer && scheme.group == 0;
  if (group <= kMaxGroup && (!whole_row || group <= kUnit)) {
    return group;
  }
  // Longer groups are cut. A row may end in a short group; other groups need an exact divisor.
  for (const std::int64_t size : {128, 64, 32}) {
    if (group % size == 0) {
      return size;
    }
  }
  return whole_row || group >= formats::head_inputs(scheme, k) ? 128
                                                               : std::gcd(group, std::int64_t{128});
}

}  // namespace

InputNeeds input_needs(const formats::Scheme& scheme, std::int64_t k) {
  InputNeeds needs;
  needs.transform = InputTransform(scheme, k);
  needs.tail = scheme.tail;
  needs.group = layout_group(scheme, k);
  if (scheme.activation.is_float()) {
    needs.activation.group = needs.group;
  } else {
    needs.activation = scheme.activation;
    if (scheme.activation.group >= formats::head_inputs(scheme, k)) {
      needs.activation.group = 0;
    }
  }
  return needs;
}

InputNeeds tail_needs(std::int64_t tail) {
  return input_needs(formats::tail_scheme(), tail);
}

PackedLinear PackedLinear::pack(const PackedWeight& weight, core::ThreadPool& pool) {
  PackedLinear linear = pack_head(formats::head_of(weight), pool);
  linear.needs_ = input_needs(weight.scheme, weight.k);
  linear.needs_.transform = InputTransform(weight);
  if (weight.scheme.tail != 0) {
    linear.tail_ = std::make_unique<PackedLinear>(pack_head(formats::tail_of(weight), pool));
  }
  return linear;
}

PackedLinear PackedLinear::pack_head(const PackedWeight& weight, core::ThreadPool& pool) {
  core::require(weight.scheme.kind != FormatKind::kDense, core::ErrorKind::kFailed,
                "a dense weight of {} x {} has no packed layout; run it as floats", weight.n,
                weight.k);
  core::require(weight.n >= 1 && weight.k >= 1 && weight.n < kSizeLimit && weight.k < kSizeLimit,
                core::ErrorKind::kInvalidModel,
                "a weight of {} x {} cannot be packed: sizes must be in [1, 2^31)", weight.n,
                weight.k);
  PackedLinear linear;
  linear.k_ = weight.k;
  linear.needs_ = input_needs(weight.scheme, weight.k);
  const Tables tables = make_tables(weight);
  linear.tiled_ = plan_layout(weight, tables, linear.needs_);
  TiledWeight& tiled = linear.tiled_;
  core::require(tiled.tile_count <= std::numeric_limits<std::int64_t>::max() / 2 / tiled.tile_bytes,
                core::ErrorKind::kOutOfMemory, "a weight of {} x {} is too large to pack", weight.n,
                weight.k);
  linear.memory_ = PageBuffer(tiled.tile_count * tiled.tile_bytes);
  tiled.tiles = reinterpret_cast<const std::uint8_t*>(linear.memory_.data());
  pool.parallel_for(tiled.tile_count, 1 + tiled.tile_count / (std::int64_t{8} * pool.size()),
                    [&](std::int64_t begin, std::int64_t end) {
                      TileWriter writer(weight, tables, tiled, linear.needs_.group,
                                        linear.memory_.data());
                      for (std::int64_t row = begin * kTileRows;
                           row < std::min(end * kTileRows, weight.n); ++row) {
                        writer.write_row(row);
                      }
                    });
  if (linear.needs_.activation.carries_zeros()) {
    linear.weight_sums_ = cpu::weight_sums(tiled, linear.needs_.group, weight.k);
  }
  return linear;
}

}  // namespace nibble::ops::cpu
