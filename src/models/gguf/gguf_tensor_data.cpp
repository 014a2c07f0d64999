#include "models/gguf/gguf_tensor_data.h"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/float16.h"
#include "formats/gguf_types.h"
#include "models/exchange/layer_conversion.h"
#include "models/exchange/plain_weights.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using formats::Scheme;
using formats::exchange::IntegerGrid;

constexpr std::int64_t kBlock = 32;
constexpr std::uint32_t kQ4_0 = 2;
constexpr std::uint32_t kQ4_1 = 3;
constexpr std::uint32_t kQ8_0 = 8;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

const gguf_blocks::BlockType& type_named(std::string_view name) {
  for (const gguf_blocks::BlockType& type : gguf_blocks::block_types()) {
    if (type.name == name) {
      return type;
    }
  }
  core::fail(ErrorKind::kFailed, "there is no type {}", name);
}

// "Q2_K, Q3_K, ...", for messages.
std::string type_words() {
  std::vector<std::string_view> words;
  for (const formats::RoundedType& type : formats::rounded_types()) {
    words.push_back(type.blocks->name);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// Of a layer whose scheme is that of no type.
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

// What a user may ask for that one word of GGUF stands for: zero points become minima.
Scheme with_minima(Scheme scheme) {
  const bool is_q4_1 = scheme == formats::parse_scheme("int4-asym-g32");
  scheme.zero = is_q4_1 ? formats::Zero::kReal : scheme.zero;
  return scheme;
}

// Types that take over the codes of integers which have other groups, or zero points.
bool takes_grids(const gguf_blocks::BlockType& type) {
  return type.id == kQ4_0 || type.id == kQ4_1 || type.id == kQ8_0;
}

void encode_row(const IntegerGrid& grid, const gguf_blocks::BlockType& type, std::int64_t row,
                std::uint8_t* out) {
  const std::int64_t groups = grid.k / kBlock;
  gguf_blocks::Block parts = {};
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
void measure(const ops::Linear& layer, const gguf_blocks::BlockType& type, const RowOrder& rows,
             core::ThreadPool& pool, GgufLayer& result) {
  const std::vector<float> before = plain_weights(layer.weight, pool);
  const std::int64_t k = layer.weight.k;
  const std::int64_t row_bytes = k / kBlock * type.block_bytes;
  std::vector<float> after(index(k));
  result.report.squared_error = result.report.squared_weights = 0;
  for (std::int64_t row = 0; row < layer.weight.n; ++row) {
    gguf_blocks::dequantize_blocks(
        type, reinterpret_cast<const std::uint8_t*>(result.bytes.data()) + row * row_bytes,
        k / kBlock, after.data());
    const std::int64_t from = rows.empty() ? row : rows[index(row)];
    add_errors(result.report, std::span(before).subspan(index(from * k), index(k)), after);
  }
  result.report.exact = result.report.squared_error == 0;
}

// Blocks that hold the layer as it is.
GgufLayer moved_blocks(const ops::Linear& layer, const gguf_blocks::BlockType& type,
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

// Blocks that the layer is rounded to.
GgufLayer rounded_blocks(const ops::Linear& layer, const gguf_blocks::BlockType& type,
                         const RowOrder& rows, const Rounder& round, core::ThreadPool& pool) {
  RoundedLayer rounded = to_scheme(layer, formats::scheme_of_blocks(type).value(), round, pool);
  return {write_blocks(type, rounded.weight, rows), std::move(rounded.report)};
}

GgufLayer blocks_of(const ops::Linear& layer, const gguf_blocks::BlockType& type,
                    const RowOrder& rows, const std::optional<Scheme>& asked, const Rounder& round,
                    core::ThreadPool& pool) {
  if (blocks_of_layer(layer.weight) == &type) {
    return moved_blocks(layer, type, rows, pool);
  }
  if (!takes_grids(type)) {
    core::require(asked.has_value(), ErrorKind::kInvalidModel,
                  "{}: layers that stand in one tensor of a GGUF file have different schemes; ask "
                  "for one with --scheme",
                  core::printable(layer.name));
    return rounded_blocks(layer, type, rows, round, pool);
  }
  GridLayer converted = to_grid(layer, formats::scheme_of_blocks(type).value(), round, pool);
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
  const gguf_blocks::BlockType* const type = formats::find_block_type(lower);
  return type != nullptr ? formats::scheme_of_blocks(*type).value() : formats::parse_scheme(lower);
}

const gguf_blocks::BlockType& gguf_type_of(const formats::PackedWeight& weight,
                                           const std::optional<Scheme>& asked) {
  if (const gguf_blocks::BlockType* same = blocks_of_layer(weight);
      same != nullptr && (!asked || *asked == weight.scheme)) {
    return *same;
  }
  if (!asked || formats::is_dense(*asked)) {
    const gguf_blocks::BlockType& type = type_named(type_name(asked.value_or(weight.scheme)));
    return type.dense || weight.k % kBlock == 0 ? type : type_named("F16");
  }
  const auto holds_rows = [&](const gguf_blocks::BlockType* type) {
    return type != nullptr && weight.k % type->block_elements == 0;
  };
  const gguf_blocks::BlockType* const type = formats::block_type_of(with_minima(*asked));
  core::require(type != nullptr, ErrorKind::kUsage,
                "gguf has no layers in {}: {}, f16, bf16 and f32 are written", *asked,
                core::lazily(type_words));
  const gguf_blocks::BlockType* const small =
      formats::block_type_of(formats::small_block_scheme(*asked));
  return holds_rows(type) ? *type : holds_rows(small) ? *small : type_named("F16");
}

GgufLayer gguf_layer(const ops::Linear& layer, const gguf_blocks::BlockType& type,
                     const RowOrder& rows, const std::optional<Scheme>& asked, const Rounder& round,
                     core::ThreadPool& pool) {
  GgufLayer result = type.dense ? numbers_of(layer, *type.dense, rows, pool)
                                : blocks_of(layer, type, rows, asked, round, pool);
  result.report.to = type.name;
  return result;
}

}  // namespace nibble::models
