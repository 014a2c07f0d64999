#include "formats/exchange/bitsandbytes/bitsandbytes.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/json.h"
#include "formats/codebooks.h"
#include "formats/exchange/bitsandbytes/block_scales.h"
#include "formats/exchange/stored_scales.h"
#include "formats/format.h"

namespace nibble::formats::exchange {
namespace {

using core::ErrorKind;
using core::require;

constexpr std::array<std::string_view, 7> kParts = {"weight.absmax",
                                                    "weight",
                                                    "weight.quant_map",
                                                    "weight.nested_absmax",
                                                    "weight.nested_quant_map",
                                                    "weight.quant_state.bitsandbytes__nf4",
                                                    "weight.quant_state.bitsandbytes__fp4"};
constexpr std::int64_t kBookSize = 16;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

Scheme scheme_of(std::span<const float> book, std::int64_t block) {
  const std::span<const float> nf4 = fixed_book(Book::kNf4, block);
  const bool is_nf4 = std::equal(book.begin(), book.end(), nf4.begin(), nf4.end());
  Scheme scheme;
  scheme.code = {&kBookCodes, 4, is_nf4 ? Book::kNf4 : Book::kPerMatrix};
  scheme.scale = {.type = ScaleType::kF16, .group = block};
  return scheme;
}

// In the memory of the weight a book may be float32, which keeps its values.
core::Tensor book_tensor(std::span<const float> book) {
  return core::Tensor::from(book, {1, kBookSize});
}

// The codes of row `row`, which begins at a byte.
void read_row(std::span<const std::uint8_t> bytes, std::int64_t row,
              std::vector<std::uint8_t>& codes) {
  const std::size_t first = index(row) * codes.size() / 2;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::uint8_t byte = bytes[first + i / 2];
    codes[i] = static_cast<std::uint8_t>(i % 2 == 0 ? byte >> 4 : byte & 15);
  }
}

class BitsandbytesReader final : public Reader {
 public:
  std::string description() const override { return "bitsandbytes, 4 bits"; }

  std::span<const std::string_view> part_names() const override { return kParts; }

  ReadLayer read(const StoredLayer& layer) const override {
    const QuantState state = read_quant_state(layer);
    const core::Tensor& weight = layer.part("weight");
    require(weight.dtype() == core::DType::kU8 && layer.k % 2 == 0 &&
                weight.elements() == layer.n * layer.k / 2,
            ErrorKind::kInvalidModel, "tensor '{}.weight' is {} {}, expected U8 [{}, 1]",
            core::printable(layer.name), core::name_of(weight.dtype()),
            core::printable(weight.shape()), layer.n * layer.k / 2);
    const std::vector<float> book = float_part(layer, "weight.quant_map", {kBookSize});
    ReadLayer result;
    result.weight = codes_and_scales(layer, state, book, weight, result.scale_error);
    if (has_learned_book(result.weight.scheme)) {
      result.weight.book = book_tensor(book);
    }
    validate(result.weight, layer.name);
    return result;
  }

 private:
  static PackedWeight codes_and_scales(const StoredLayer& layer, const QuantState& state,
                                       std::span<const float> book, const core::Tensor& weight,
                                       double& error) {
    const std::vector<float> values = block_scales(layer, state);
    StoredScales scales(layer.name);
    PackedWeightBuilder builder(scheme_of(book, state.block), layer.n, layer.k);
    std::vector<std::uint8_t> codes(index(layer.k));
    const std::int64_t groups = layer.k / state.block;
    for (std::int64_t row = 0; row < layer.n; ++row) {
      for (std::int64_t group = 0; group < groups; ++group) {
        builder.set_group(row, group, {scales.round(values[index(row * groups + group)]), 0});
      }
      read_row(weight.data<std::uint8_t>(), row, codes);
      builder.set_codes(row, codes);
    }
    error = scales.error();
    return builder.finish();
  }
};

}  // namespace

std::unique_ptr<const Reader> make_bitsandbytes_reader(const core::Json& config) {
  require(core::find_bool(config, "load_in_4bit", kConfigName).value_or(false),
          ErrorKind::kInvalidModel,
          "{}: bitsandbytes checkpoints of 8 bits can't be read, only of 4 (load_in_4bit)",
          kConfigName);
  return std::make_unique<const BitsandbytesReader>();
}

}  // namespace nibble::formats::exchange
