#include "models/gguf/gguf_layers.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/exchange/row_ranges.h"
#include "formats/gguf_types.h"
#include "formats/stored_parts.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using formats::PackedWeight;
using formats::Scheme;
using gguf_blocks::BlockForm;
using gguf_blocks::BlockScale;
using gguf_blocks::BlockType;

constexpr std::uint8_t kMinusZero = 8;  // of E2M1, which is 0 in a block

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// What is added to the codes of a block: integers without minima stand around the middle.
int shift_of(const BlockForm& form, const Scheme& scheme) {
  const bool symmetric = formats::is_integer(scheme) && !form.minima;
  return symmetric ? (1 << (scheme.code.bits - 1)) - form.zero : 0;
}

PackedWeight empty_weight(const Scheme& scheme, std::int64_t n, std::int64_t k) {
  PackedWeight weight;
  weight.scheme = scheme;
  weight.n = n;
  weight.k = k;
  for (const formats::StoredPart& part : formats::stored_parts(scheme, n, k)) {
    weight.*part.tensor = core::Tensor::zeros(part.dtype, {part.rows, part.columns});
  }
  return weight;
}

// The elements of a part that belong to one block: [count] of [n, k / block_elements * count].
template <typename T>
std::span<T> part_of(std::span<T> part, std::int64_t block, std::int64_t count) {
  return part.subspan(index(block * count), index(count));
}

// Moves blocks into a weight, and back. `block` counts over all rows.
class BlockMover {
 public:
  BlockMover(const BlockType& type, const Scheme& scheme)
      : form_(*type.form),
        elements_(type.block_elements),
        groups_(elements_ / form_.group),
        bits_(scheme.code.bits),
        code_bytes_(formats::packed_bytes(elements_, bits_)),
        shift_(shift_of(form_, scheme)) {}

  void put(const gguf_blocks::Block& parts, std::int64_t block, PackedWeight& weight) const {
    std::uint8_t codes[gguf_blocks::kMostBlockElements];
    std::transform(parts.codes, parts.codes + elements_, codes,
                   [&](std::uint8_t code) { return static_cast<std::uint8_t>(code + shift_); });
    if (form_.scale == BlockScale::kExponent) {
      std::replace(codes, codes + elements_, kMinusZero, std::uint8_t{0});
    }
    formats::pack(std::span(codes, index(elements_)), bits_,
                  part_of(weight.codes.mutable_data<std::uint8_t>(), block, code_bytes_));
    switch (form_.scale) {
      case BlockScale::kHalf:
        weight.scales.mutable_data<core::Fp16>()[index(block)] = parts.d;
        break;
      case BlockScale::kMultiples:
        weight.supers.mutable_data<core::Fp16>()[index(block)] = parts.d;
        std::copy_n(parts.scales, groups_,
                    part_of(weight.scales.mutable_data<std::int8_t>(), block, groups_).data());
        break;
      case BlockScale::kExponent:
        weight.scales.mutable_data<std::uint8_t>()[index(block)] = parts.exponent;
        break;
    }
    if (form_.minima) {
      put_minima(parts, block, weight);
    }
  }

  void get(const PackedWeight& weight, std::int64_t block, gguf_blocks::Block& parts) const {
    formats::unpack(part_of(weight.codes.data<std::uint8_t>(), block, code_bytes_), bits_,
                    std::span(parts.codes, index(elements_)));
    for (std::int64_t i = 0; i < elements_; ++i) {
      const int code = parts.codes[i] - shift_;
      core::require(code >= 0 && code >> form_.bits == 0, ErrorKind::kInvalidModel,
                    "code {} in a block of {} bits", code, form_.bits);
      parts.codes[i] = static_cast<std::uint8_t>(code);
    }
    switch (form_.scale) {
      case BlockScale::kHalf:
        parts.d = weight.scales.data<core::Fp16>()[index(block)];
        break;
      case BlockScale::kMultiples:
        parts.d = weight.supers.data<core::Fp16>()[index(block)];
        std::copy_n(part_of(weight.scales.data<std::int8_t>(), block, groups_).data(), groups_,
                    parts.scales);
        break;
      case BlockScale::kExponent:
        parts.exponent = weight.scales.data<std::uint8_t>()[index(block)];
        break;
    }
    if (form_.minima) {
      get_minima(weight, block, parts);
    }
  }

 private:
  void put_minima(const gguf_blocks::Block& parts, std::int64_t block, PackedWeight& weight) const {
    if (form_.scale == BlockScale::kHalf) {
      weight.minima.mutable_data<core::Fp16>()[index(block)] = parts.m;
      return;
    }
    weight.min_supers.mutable_data<core::Fp16>()[index(block)] = parts.m;
    std::copy_n(parts.minima, groups_,
                part_of(weight.minima.mutable_data<std::int8_t>(), block, groups_).data());
  }

  void get_minima(const PackedWeight& weight, std::int64_t block, gguf_blocks::Block& parts) const {
    if (form_.scale == BlockScale::kHalf) {
      parts.m = weight.minima.data<core::Fp16>()[index(block)];
      return;
    }
    parts.m = weight.min_supers.data<core::Fp16>()[index(block)];
    std::copy_n(part_of(weight.minima.data<std::int8_t>(), block, groups_).data(), groups_,
                parts.minima);
  }

  const BlockForm& form_;
  std::int64_t elements_;
  std::int64_t groups_;  // of a block
  int bits_;             // of a code of the weight
  std::int64_t code_bytes_;
  int shift_;
};

}  // namespace

RowOrder interleaved_rows(std::int64_t rows, std::int64_t heads) {
  core::require(rows % (2 * heads) == 0, ErrorKind::kInvalidModel,
                "GGUF: a query or key tensor has {} rows, not a multiple of 2 for {} heads", rows,
                heads);
  const std::int64_t dim = rows / heads;
  RowOrder order(index(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t inside = row % dim;
    order[index(row)] = row - inside + inside % 2 * (dim / 2) + inside / 2;
  }
  return order;
}

formats::exchange::ReadLayer layer_of_blocks(const BlockType& type,
                                             std::span<const std::byte> blocks, std::int64_t n,
                                             std::int64_t k, const RowOrder& rows,
                                             std::string_view name) {
  formats::exchange::ReadLayer layer;
  PackedWeight& weight = layer.weight;
  const Scheme scheme = formats::scheme_of_blocks(type).value();
  weight = empty_weight(scheme, n, k);
  const BlockMover mover(type, scheme);
  const std::int64_t per_row = k / type.block_elements;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(blocks.data());
  formats::exchange::for_row_ranges(n, k, [&](std::int64_t first, std::int64_t last) {
    gguf_blocks::Block parts = {};
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t to = rows.empty() ? row : rows[index(row)];
      for (std::int64_t block = 0; block < per_row; ++block) {
        type.form->unpack(bytes + (row * per_row + block) * type.block_bytes, parts);
        mover.put(parts, to * per_row + block, weight);
      }
    }
  });
  formats::validate(weight, name);
  if (type.form->bits != scheme.code.bits) {
    layer.remarks.push_back(fmt::format(
        "the {} bits of codes of {} are held in {}: {:.3g} bits per weight, {:.3g} in the file",
        type.form->bits, type.name, scheme.code.bits, formats::bits_per_weight(weight),
        8.0 * static_cast<double>(type.block_bytes) / static_cast<double>(type.block_elements)));
  }
  return layer;
}

const BlockType* blocks_of_layer(const PackedWeight& weight) {
  const BlockType* const type =
      weight.scheme.activation.is_float() ? formats::block_type_of(weight.scheme) : nullptr;
  return type != nullptr && weight.k % type->block_elements == 0 ? type : nullptr;
}

std::vector<std::byte> write_blocks(const BlockType& type, const PackedWeight& weight,
                                    const RowOrder& rows) {
  const BlockMover mover(type, weight.scheme);
  const std::int64_t per_row = weight.k / type.block_elements;
  std::vector<std::byte> bytes(index(weight.n * per_row * type.block_bytes));
  auto* const out = reinterpret_cast<std::uint8_t*>(bytes.data());
  formats::exchange::for_row_ranges(weight.n, weight.k, [&](std::int64_t first, std::int64_t last) {
    gguf_blocks::Block parts = {};
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t from = rows.empty() ? row : rows[index(row)];
      for (std::int64_t block = 0; block < per_row; ++block) {
        mover.get(weight, from * per_row + block, parts);
        type.form->pack(parts, out + (row * per_row + block) * type.block_bytes);
      }
    }
  });
  return bytes;
}

}  // namespace nibble::models
