#include "models/gguf/gguf_layers.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/exchange/row_ranges.h"
#include "formats/stored_parts.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using formats::PackedWeight;
using formats::Scheme;
using io::GgufBlock;
using io::GgufBlockForm;
using io::GgufBlockType;
using io::GgufScale;

constexpr std::uint8_t kMinusZero = 8;  // of E2M1, which is 0 in a block

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Bits that codes of `bits` are held in.
int held_bits(int bits) {
  return bits <= 4 ? bits : 8;
}

// What is added to the codes of a block: integers without minima stand around the middle.
int shift_of(const GgufBlockForm& form, const Scheme& scheme) {
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
  BlockMover(const GgufBlockType& type, const Scheme& scheme)
      : form_(*type.form),
        elements_(type.block_elements),
        groups_(elements_ / form_.group),
        bits_(scheme.code.bits),
        code_bytes_(formats::packed_bytes(elements_, bits_)),
        shift_(shift_of(form_, scheme)) {}

  void put(const GgufBlock& parts, std::int64_t block, PackedWeight& weight) const {
    std::uint8_t codes[io::kMostBlockElements];
    std::transform(parts.codes, parts.codes + elements_, codes,
                   [&](std::uint8_t code) { return static_cast<std::uint8_t>(code + shift_); });
    if (form_.scale == GgufScale::kExponent) {
      std::replace(codes, codes + elements_, kMinusZero, std::uint8_t{0});
    }
    formats::pack(std::span(codes, index(elements_)), bits_,
                  part_of(weight.codes.mutable_data<std::uint8_t>(), block, code_bytes_));
    switch (form_.scale) {
      case GgufScale::kHalf:
        weight.scales.mutable_data<core::Fp16>()[index(block)] = parts.d;
        break;
      case GgufScale::kMultiples:
        weight.supers.mutable_data<core::Fp16>()[index(block)] = parts.d;
        std::copy_n(parts.scales, groups_,
                    part_of(weight.scales.mutable_data<std::int8_t>(), block, groups_).data());
        break;
      case GgufScale::kExponent:
        weight.scales.mutable_data<std::uint8_t>()[index(block)] = parts.exponent;
        break;
    }
    if (form_.minima) {
      put_minima(parts, block, weight);
    }
  }

  void get(const PackedWeight& weight, std::int64_t block, GgufBlock& parts) const {
    formats::unpack(part_of(weight.codes.data<std::uint8_t>(), block, code_bytes_), bits_,
                    std::span(parts.codes, index(elements_)));
    for (std::int64_t i = 0; i < elements_; ++i) {
      const int code = parts.codes[i] - shift_;
      core::require(code >= 0 && code >> form_.bits == 0, ErrorKind::kFailed,
                    "code {} in a block of {} bits", code, form_.bits);
      parts.codes[i] = static_cast<std::uint8_t>(code);
    }
    switch (form_.scale) {
      case GgufScale::kHalf:
        parts.d = weight.scales.data<core::Fp16>()[index(block)];
        break;
      case GgufScale::kMultiples:
        parts.d = weight.supers.data<core::Fp16>()[index(block)];
        std::copy_n(part_of(weight.scales.data<std::int8_t>(), block, groups_).data(), groups_,
                    parts.scales);
        break;
      case GgufScale::kExponent:
        parts.exponent = weight.scales.data<std::uint8_t>()[index(block)];
        break;
    }
    if (form_.minima) {
      get_minima(weight, block, parts);
    }
  }

 private:
  void put_minima(const GgufBlock& parts, std::int64_t block, PackedWeight& weight) const {
    if (form_.scale == GgufScale::kHalf) {
      weight.minima.mutable_data<core::Fp16>()[index(block)] = parts.m;
      return;
    }
    weight.min_supers.mutable_data<core::Fp16>()[index(block)] = parts.m;
    std::copy_n(parts.minima, groups_,
                part_of(weight.minima.mutable_data<std::int8_t>(), block, groups_).data());
  }

  void get_minima(const PackedWeight& weight, std::int64_t block, GgufBlock& parts) const {
    if (form_.scale == GgufScale::kHalf) {
      parts.m = weight.minima.data<core::Fp16>()[index(block)];
      return;
    }
    parts.m = weight.min_supers.data<core::Fp16>()[index(block)];
    std::copy_n(part_of(weight.minima.data<std::int8_t>(), block, groups_).data(), groups_,
                parts.minima);
  }

  const GgufBlockForm& form_;
  std::int64_t elements_;
  std::int64_t groups_;  // of a block
  int bits_;             // of a code of the weight
  std::int64_t code_bytes_;
  int shift_;
};

core::Tensor stored_book(std::span<const float> book) {
  return core::from_float32(book, {1, std::ssize(book)}, core::DType::kF16);
}

// Whether a block type has a code for each of the weight's.
bool holds_codes(const PackedWeight& weight, const GgufBlockForm& form) {
  if (form.bits == weight.scheme.code.bits) {
    return true;
  }
  const int shift = shift_of(form, weight.scheme);
  std::vector<std::uint8_t> codes(index(weight.k));
  for (std::int64_t row = 0; row < weight.n; ++row) {
    formats::unpack_codes(weight, row, codes);
    const auto [least, most] = std::minmax_element(codes.begin(), codes.end());
    if (*least < shift || (*most - shift) >> form.bits != 0) {
      return false;
    }
  }
  return true;
}

bool has_book_of(const PackedWeight& weight, const GgufBlockForm& form) {
  return !formats::has_learned_book(weight.scheme) ||
         formats::book_of(weight, 0) == formats::BookValues(form.book);
}

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

std::optional<Scheme> scheme_of_blocks(const GgufBlockType& type) {
  if (type.form == nullptr) {
    return std::nullopt;
  }
  const GgufBlockForm& form = *type.form;
  if (form.scale == GgufScale::kExponent) {
    return formats::parse_scheme("mxfp4");
  }
  Scheme scheme;
  scheme.scale = {form.scale == GgufScale::kMultiples ? formats::ScaleType::kMultiples
                                                      : formats::ScaleType::kF16,
                  form.group};
  if (form.book.empty()) {
    scheme.code = {.type = &formats::kIntegerCodes, .bits = held_bits(form.bits)};
    scheme.zero = form.minima ? formats::Zero::kReal : formats::Zero::kNone;
  } else {
    scheme.code = {
        .type = &formats::kBookCodes, .bits = form.bits, .book = formats::Book::kPerMatrix};
  }
  return scheme;
}

formats::exchange::ReadLayer layer_of_blocks(const GgufBlockType& type,
                                             std::span<const std::byte> blocks, std::int64_t n,
                                             std::int64_t k, const RowOrder& rows,
                                             std::string_view name) {
  formats::exchange::ReadLayer layer;
  PackedWeight& weight = layer.weight;
  const Scheme scheme = scheme_of_blocks(type).value();
  weight = empty_weight(scheme, n, k);
  if (formats::has_learned_book(scheme)) {
    weight.book = stored_book(type.form->book);
  }
  const BlockMover mover(type, scheme);
  const std::int64_t per_row = k / type.block_elements;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(blocks.data());
  formats::exchange::for_row_ranges(n, k, [&](std::int64_t first, std::int64_t last) {
    GgufBlock parts = {};
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

const GgufBlockType* blocks_of_layer(const PackedWeight& weight) {
  for (const GgufBlockType& type : io::gguf_block_types()) {  // those of fewer bits first
    if (scheme_of_blocks(type) == weight.scheme && weight.k % type.block_elements == 0 &&
        has_book_of(weight, *type.form) && holds_codes(weight, *type.form)) {
      return &type;
    }
  }
  return nullptr;
}

std::vector<std::byte> write_blocks(const GgufBlockType& type, const PackedWeight& weight,
                                    const RowOrder& rows) {
  const BlockMover mover(type, weight.scheme);
  const std::int64_t per_row = weight.k / type.block_elements;
  std::vector<std::byte> bytes(index(weight.n * per_row * type.block_bytes));
  auto* const out = reinterpret_cast<std::uint8_t*>(bytes.data());
  formats::exchange::for_row_ranges(weight.n, weight.k, [&](std::int64_t first, std::int64_t last) {
    GgufBlock parts = {};
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
