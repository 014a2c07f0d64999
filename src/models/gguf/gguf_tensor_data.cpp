#include "models/gguf/gguf_tensor_data.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"
#include "formats/super_blocks.h"
#include "models/exchange/layer_conversion.h"
#include "models/exchange/plain_weights.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using formats::Scheme;
using formats::exchange::IntegerGrid;

constexpr std::int64_t kBlock = 32;
constexpr std::uint32_t kQ4_1 = 3;
constexpr std::uint32_t kQ8_0 = 8;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

const io::GgufBlockType& type_named(std::string_view name) {
  for (const io::GgufBlockType& type : io::gguf_block_types()) {
    if (type.name == name) {
      return type;
    }
  }
  core::fail(ErrorKind::kFailed, "there is no type {}", name);
}

// Of blocks of kSuperGroup weights, or null.
const io::GgufBlockType* type_of_super_blocks(const Scheme& scheme) {
  for (const io::GgufBlockType& type : io::gguf_block_types()) {
    if (formats::has_supers(scheme) && scheme_of_blocks(type) == scheme) {
      return &type;
    }
  }
  return nullptr;
}

std::string_view type_name(const Scheme& scheme) {
  if (!formats::has_codes(scheme)) {
    return core::name_of(scheme.code.dense);
  }
  if (scheme.code.bits > 4) {
    return "Q8_0";
  }
  const bool symmetric = scheme.zero == formats::Zero::kNone;
  return formats::is_integer(scheme) && symmetric ? "Q4_0" : "Q4_1";
}

// What the blocks of a type hold.
Scheme block_scheme(const io::GgufBlockType& type) {
  return formats::parse_scheme(type.id == kQ8_0   ? "int8-sym-g32"
                               : type.id == kQ4_1 ? "int4-asym-g32"
                                                  : "int4-sym-g32");
}

void encode_row(const IntegerGrid& grid, const io::GgufBlockType& type, std::int64_t row,
                std::uint8_t* out) {
  const std::int64_t groups = grid.k / kBlock;
  io::GgufBlock parts = {};
  for (std::int64_t group = 0; group < groups; ++group, out += type.block_bytes) {
    const std::size_t at = index(row * groups + group);
    std::copy_n(grid.codes.begin() + row * grid.k + group * kBlock, kBlock, parts.codes);
    parts.d = core::to_fp16(grid.scales[at]);
    const auto zero = static_cast<float>(formats::exchange::zero_of(grid, at));
    parts.m = core::to_fp16(grid.minima.empty() ? -zero * grid.scales[at]  // of Q4_1
                                                : grid.minima[at]);
    type.form->pack(parts, out);
  }
}

// Blocks of Q4_1 round the product of scale and zero point: what they hold is decoded.
void measure(const ops::Linear& layer, const io::GgufBlockType& type, const RowOrder& rows,
             core::ThreadPool& pool, GgufLayer& result) {
  const std::vector<float> before = plain_weights(layer.weight, pool);
  const std::int64_t k = layer.weight.k;
  const std::int64_t row_bytes = k / kBlock * type.block_bytes;
  std::vector<float> after(index(k));
  result.report.squared_error = result.report.squared_weights = 0;
  for (std::int64_t row = 0; row < layer.weight.n; ++row) {
    io::dequantize_blocks(
        type, reinterpret_cast<const std::uint8_t*>(result.bytes.data()) + row * row_bytes,
        k / kBlock, after.data());
    const std::int64_t from = rows.empty() ? row : rows[index(row)];
    add_errors(result.report, std::span(before).subspan(index(from * k), index(k)), after);
  }
  result.report.exact = result.report.squared_error == 0;
}

// Blocks that hold the layer as it is.
GgufLayer moved_blocks(const ops::Linear& layer, const io::GgufBlockType& type,
                       const RowOrder& rows, core::ThreadPool& pool) {
  GgufLayer result;
  result.report.name = layer.name;
  result.report.from = formats::to_string(layer.weight.scheme);
  result.report.weights = layer.weight.n * layer.weight.k;
  result.report.exact = true;
  const std::vector<float> weights = plain_weights(layer.weight, pool);
  add_errors(result.report, weights, weights);
  result.bytes = write_blocks(type, layer.weight, rows);
  return result;
}

// Blocks of 256 weights that the layer is rounded to.
GgufLayer rounded_blocks(const ops::Linear& layer, const io::GgufBlockType& type,
                         const RowOrder& rows, const Rounder& round, core::ThreadPool& pool) {
  RoundedLayer rounded = to_scheme(layer, scheme_of_blocks(type).value(), round, pool);
  return {write_blocks(type, rounded.weight, rows), std::move(rounded.report)};
}

GgufLayer blocks_of(const ops::Linear& layer, const io::GgufBlockType& type, const RowOrder& rows,
                    const std::optional<Scheme>& asked, const Rounder& round,
                    core::ThreadPool& pool) {
  if (blocks_of_layer(layer.weight) == &type) {
    return moved_blocks(layer, type, rows, pool);
  }
  if (asked && type.form->scale == io::GgufScale::kMultiples) {
    return rounded_blocks(layer, type, rows, round, pool);
  }
  core::require(
      type.id == kQ4_1 || scheme_of_blocks(type) == block_scheme(type), ErrorKind::kInvalidModel,
      "{}: layers that stand in one tensor of a GGUF file have different schemes; ask for "
      "one with --scheme",
      core::printable(layer.name));
  Scheme scheme = block_scheme(type);
  if (type.id == kQ4_1 && formats::has_minima(layer.weight.scheme)) {
    scheme.zero = formats::Zero::kReal;
  }
  GridLayer converted = to_grid(layer, scheme, round, pool);
  GgufLayer result{{}, std::move(converted.report)};
  const std::int64_t row_bytes = layer.weight.k / kBlock * type.block_bytes;
  result.bytes.resize(index(layer.weight.n * row_bytes));
  auto* const out = reinterpret_cast<std::uint8_t*>(result.bytes.data());
  for (std::int64_t row = 0; row < layer.weight.n; ++row) {
    const std::int64_t from = rows.empty() ? row : rows[index(row)];
    encode_row(converted.grid, type, from, out + row * row_bytes);
  }
  if (type.id == kQ4_1) {
    measure(layer, type, rows, pool, result);
  }
  return result;
}

GgufLayer numbers_of(const ops::Linear& layer, core::DType type, const RowOrder& rows,
                     core::ThreadPool& pool) {
  DenseLayer dense = to_dense(layer, type, pool);
  GgufLayer result{std::vector<std::byte>(index(dense.tensor.bytes())), std::move(dense.report)};
  const std::int64_t row_bytes = layer.weight.k * core::size_of(type);
  for (std::int64_t row = 0; row < layer.weight.n; ++row) {
    const std::int64_t from = rows.empty() ? row : rows[index(row)];
    std::memcpy(result.bytes.data() + row * row_bytes, dense.tensor.raw() + from * row_bytes,
                index(row_bytes));
  }
  return result;
}

}  // namespace

Scheme scheme_of_gguf_type(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  constexpr std::pair<std::string_view, std::string_view> kSmallBlocks[] = {
      {"q4_0", "int4-sym-g32"}, {"q4_1", "int4-asym-g32"}, {"q8_0", "int8-sym-g32"}};
  for (const auto& [type, scheme] : kSmallBlocks) {
    if (lower == type) {
      return formats::parse_scheme(scheme);
    }
  }
  const formats::SuperBlockType* const type = formats::find_super_block_type(lower);
  return formats::parse_scheme(type != nullptr ? type->scheme : std::string_view(lower));
}

const io::GgufBlockType& gguf_type_of(const formats::PackedWeight& weight,
                                      const std::optional<Scheme>& asked) {
  if (const io::GgufBlockType* same = blocks_of_layer(weight);
      same != nullptr && (!asked || *asked == weight.scheme)) {
    return *same;
  }
  if (const io::GgufBlockType* const type = asked ? type_of_super_blocks(*asked) : nullptr) {
    return weight.k % formats::kSuperGroup == 0 ? *type
           : weight.k % kBlock != 0             ? type_named("F16")
                                    : type_named(type_name(formats::small_block_scheme(*asked)));
  }
  const io::GgufBlockType& type = type_named(type_name(asked.value_or(weight.scheme)));
  core::require(!asked || formats::is_dense(*asked) || *asked == block_scheme(type),
                ErrorKind::kUsage,
                "gguf has no layers in {}: int4-sym-g32 (Q4_0), int4-asym-g32 (Q4_1), int8-sym-g32 "
                "(Q8_0), Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS, f16, bf16 and f32 are written",
                asked.value_or(Scheme()));
  return type.dense || weight.k % kBlock == 0 ? type : type_named("F16");
}

GgufLayer gguf_layer(const ops::Linear& layer, const io::GgufBlockType& type, const RowOrder& rows,
                     const std::optional<Scheme>& asked, const Rounder& round,
                     core::ThreadPool& pool) {
  GgufLayer result = type.dense ? numbers_of(layer, *type.dense, rows, pool)
                                : blocks_of(layer, type, rows, asked, round, pool);
  result.report.to = type.name;
  return result;
}

}  // namespace nibble::models
