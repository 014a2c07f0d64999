#include "gguf_blocks/block_types.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "gguf_blocks/block_forms.h"

namespace nibble::gguf_blocks {
namespace {

using core::DType;

constexpr BlockType plain(std::uint32_t id, std::string_view name, std::int64_t bytes,
                          DType dtype) {
  return {id, name, 1, bytes, dtype, nullptr};
}

constexpr BlockType blocks(std::uint32_t id, std::string_view name, std::int64_t elements,
                           std::int64_t bytes, const BlockForm* form = nullptr) {
  return {id, name, elements, bytes, std::nullopt, form};
}

// Numbers, sizes: ggml.h (enum ggml_type) and the block structures of ggml-common.h. Missing
// numbers belong to types that were removed from the format.
constexpr std::array kTypes = {
    plain(0, "F32", 4, DType::kF32),
    plain(1, "F16", 2, DType::kF16),
    blocks(2, "Q4_0", 32, 18, &kQ4_0),
    blocks(3, "Q4_1", 32, 20, &kQ4_1),
    blocks(6, "Q5_0", 32, 22, &kQ5_0),
    blocks(7, "Q5_1", 32, 24, &kQ5_1),
    blocks(8, "Q8_0", 32, 34, &kQ8_0),
    blocks(9, "Q8_1", 32, 36),
    blocks(10, "Q2_K", 256, 84, &kQ2_K),
    blocks(11, "Q3_K", 256, 110, &kQ3_K),
    blocks(12, "Q4_K", 256, 144, &kQ4_K),
    blocks(13, "Q5_K", 256, 176, &kQ5_K),
    blocks(14, "Q6_K", 256, 210, &kQ6_K),
    blocks(15, "Q8_K", 256, 292),
    blocks(16, "IQ2_XXS", 256, 66),
    blocks(17, "IQ2_XS", 256, 74),
    blocks(18, "IQ3_XXS", 256, 98),
    blocks(19, "IQ1_S", 256, 50),
    blocks(20, "IQ4_NL", 32, 18, &kIq4Nl),
    blocks(21, "IQ3_S", 256, 110),
    blocks(22, "IQ2_S", 256, 82),
    blocks(23, "IQ4_XS", 256, 136, &kIq4Xs),
    plain(24, "I8", 1, DType::kI8),
    plain(25, "I16", 2, DType::kI16),
    plain(26, "I32", 4, DType::kI32),
    plain(27, "I64", 8, DType::kI64),
    plain(28, "F64", 8, DType::kF64),
    blocks(29, "IQ1_M", 256, 56),
    plain(30, "BF16", 2, DType::kBF16),
    blocks(34, "TQ1_0", 256, 54),
    blocks(35, "TQ2_0", 256, 66),
    blocks(39, "MXFP4", 32, 17, &kMxfp4),
    blocks(40, "NVFP4", 64, 36),
    blocks(41, "Q1_0", 128, 18),
    blocks(42, "Q2_0", 64, 18),
};

// 2^(e - 127); 255 is NaN (OCP Microscaling Formats 1.0, 5.4.1).
float e8m0_to_float(std::uint8_t e) {
  if (e == 255) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const std::uint32_t bits = e == 0 ? 0x00400000u : static_cast<std::uint32_t>(e) << 23;
  return std::bit_cast<float>(bits);
}

float scale_of(const BlockForm& form, const Block& parts, std::int64_t group) {
  switch (form.scale) {
    case BlockScale::kHalf:
      return core::to_float(parts.d);
    case BlockScale::kMultiples:
      return core::to_float(parts.d) * static_cast<float>(parts.scales[group]);
    case BlockScale::kExponent:
      return e8m0_to_float(parts.exponent);
  }
  return 0;
}

float minimum_of(const BlockForm& form, const Block& parts, std::int64_t group) {
  const float m = core::to_float(parts.m);
  return form.scale == BlockScale::kMultiples ? m * static_cast<float>(parts.minima[group]) : m;
}

void decode_group(const BlockForm& form, const Block& parts, std::int64_t group, float* values) {
  const std::uint8_t* codes = parts.codes + group * form.group;
  const float scale = scale_of(form, parts, group);
  if (!form.book.empty()) {
    for (std::int64_t i = 0; i < form.group; ++i) {
      values[i] = scale * form.book[codes[i]];
    }
    return;
  }
  for (std::int64_t i = 0; i < form.group; ++i) {
    values[i] = scale * static_cast<float>(codes[i] - form.zero);
  }
  if (form.minima) {
    const float minimum = minimum_of(form, parts, group);
    for (std::int64_t i = 0; i < form.group; ++i) {
      values[i] += minimum;
    }
  }
}

}  // namespace

std::span<const BlockType> block_types() {
  return kTypes;
}

const BlockType* find_block_type(std::uint32_t id) {
  const auto* at = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const BlockType& type) { return type.id == id; });
  return at == kTypes.end() ? nullptr : &*at;
}

void dequantize_blocks(const BlockType& type, const std::uint8_t* source, std::int64_t count,
                       float* values) {
  const BlockForm& form = *type.form;
  Block parts = {};
  for (std::int64_t i = 0; i < count; ++i) {
    form.unpack(source + i * type.block_bytes, parts);
    for (std::int64_t group = 0; group < type.block_elements / form.group; ++group) {
      decode_group(form, parts, group, values + group * form.group);
    }
    values += type.block_elements;
  }
}

}  // namespace nibble::gguf_blocks
