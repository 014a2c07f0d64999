// pack-quantized, int-quantized and naive-quantized integers.

#include <algorithm>

#include "core/error.h"
#include "formats/exchange/compressed_tensors/layer_readers.h"
#include "formats/exchange/group_order.h"
#include "formats/exchange/integer_grid.h"
#include "formats/exchange/row_ranges.h"
#include "formats/exchange/stored_scales.h"
#include "formats/exchange/word_stream.h"

namespace nibble::formats::exchange {
namespace {

using core::ErrorKind;
using core::require;

constexpr std::int64_t kWordBits = 32;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

IntegerGrid grid_of(const StoredLayer& layer, const LayerConfig& config) {
  IntegerGrid grid{.bits = config.bits, .n = layer.n, .k = layer.k, .group = config.group};
  grid.activation = config.activations.activation;
  grid.scales = scales_of(layer, config);
  return grid;
}

// Codes packed along the rows of words [rows, columns], `count` in each.
std::vector<std::uint8_t> unpack_rows(std::span<const std::int32_t> words, std::int64_t rows,
                                      std::int64_t count, int bits) {
  const std::int64_t columns = words_for(count, bits);
  std::vector<std::uint8_t> codes(index(rows * count));
  for_row_ranges(rows, count, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const WordStream stream(words.subspan(index(row * columns), index(columns)), 1, bits);
      for (std::int64_t i = 0; i < count; ++i) {
        codes[index(row * count + i)] = stream[i];
      }
    }
  });
  return codes;
}

// Of older files: floor(32 / bits) codes in each word, and the rest of it empty.
std::vector<std::uint8_t> unpack_padded_rows(std::span<const std::int32_t> words, std::int64_t rows,
                                             std::int64_t count, int bits) {
  const std::int64_t in_word = kWordBits / bits;
  const std::int64_t columns = (count + in_word - 1) / in_word;
  std::vector<std::uint8_t> codes(index(rows * count));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto word = static_cast<std::uint32_t>(words[index(row * columns + i / in_word)]);
      codes[index(row * count + i)] =
          static_cast<std::uint8_t>(word >> (i % in_word * bits) & ((1u << bits) - 1));
    }
  }
  return codes;
}

// The two widths differ for 3 bits only, unless rows are very short.
bool is_padded(const StoredLayer& layer, int bits) {
  const core::Tensor& words = layer.part("weight_packed");
  const std::int64_t in_word = kWordBits / bits;
  return words.rank() == 2 && words.dim(1) != words_for(layer.k, bits) &&
         words.dim(1) == (layer.k + in_word - 1) / in_word;
}

// [n, groups] from words [n * bits / 32, groups], which pack along n.
std::vector<std::uint8_t> packed_zeros(const StoredLayer& layer, int bits, std::int64_t groups,
                                       bool padded) {
  const std::int64_t in_word = kWordBits / bits;
  const std::int64_t rows = padded ? (layer.n + in_word - 1) / in_word : words_for(layer.n, bits);
  const auto words =
      layer.part("weight_zero_point", core::DType::kI32, {rows, groups}).data<std::int32_t>();
  std::vector<std::int32_t> turned(words.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t group = 0; group < groups; ++group) {
      turned[index(group * rows + row)] = words[index(row * groups + group)];
    }
  }
  const auto by_group = padded ? unpack_padded_rows(turned, groups, layer.n, bits)
                               : unpack_rows(turned, groups, layer.n, bits);
  std::vector<std::uint8_t> zeros(by_group.size());
  for (std::int64_t n = 0; n < layer.n; ++n) {
    for (std::int64_t group = 0; group < groups; ++group) {
      zeros[index(n * groups + group)] = by_group[index(group * layer.n + n)];
    }
  }
  return zeros;
}

void require_stored_shape(const StoredLayer& layer) {
  if (layer.find("weight_shape") == nullptr) {
    return;
  }
  const auto shape = layer.part("weight_shape", core::DType::kI64, {2}).data<std::int64_t>();
  require(shape[0] == layer.n && shape[1] == layer.k, ErrorKind::kInvalidModel,
          "{}.weight_shape: [{}, {}], expected [{}, {}]", core::printable(layer.name), shape[0],
          shape[1], layer.n, layer.k);
}

std::vector<std::int32_t> order_of(const StoredLayer& layer, const LayerConfig& config) {
  if (layer.find("weight_g_idx") == nullptr) {
    return {};
  }
  const auto groups = layer.part("weight_g_idx", core::DType::kI32, {layer.k}).data<std::int32_t>();
  const bool unused =
      std::all_of(groups.begin(), groups.end(), [](std::int32_t group) { return group == -1; });
  const std::int64_t group = config.group == 0 ? layer.k : config.group;
  return unused ? std::vector<std::int32_t>() : order_by_group(groups, group, layer.name);
}

// Signed numbers become codes: 2^(bits-1) larger.
std::vector<std::uint8_t> raise(std::span<const std::int8_t> numbers, int bits,
                                const StoredLayer& layer, std::string_view part) {
  const int middle = 1 << (bits - 1);
  std::vector<std::uint8_t> codes(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    require(numbers[i] >= -middle && numbers[i] < middle, ErrorKind::kInvalidModel,
            "{}.{}: {} is no number of {} bits", core::printable(layer.name), part, numbers[i],
            bits);
    codes[i] = static_cast<std::uint8_t>(numbers[i] + middle);
  }
  return codes;
}

}  // namespace

ReadLayer read_packed_integers(const StoredLayer& layer, const LayerConfig& config) {
  require_stored_shape(layer);
  IntegerGrid grid = grid_of(layer, config);
  const bool padded = is_padded(layer, config.bits);
  const std::int64_t in_word = kWordBits / config.bits;
  const std::int64_t columns =
      padded ? (layer.k + in_word - 1) / in_word : words_for(layer.k, config.bits);
  const auto words =
      layer.part("weight_packed", core::DType::kI32, {layer.n, columns}).data<std::int32_t>();
  grid.codes = padded ? unpack_padded_rows(words, layer.n, layer.k, config.bits)
                      : unpack_rows(words, layer.n, layer.k, config.bits);
  if (!config.symmetric) {
    grid.zeros = packed_zeros(layer, config.bits, groups_of(layer.k, config.group), padded);
  }
  grid.order = order_of(layer, config);
  return pack_grid(grid, layer.name);
}

ReadLayer read_integers(const StoredLayer& layer, const LayerConfig& config) {
  IntegerGrid grid = grid_of(layer, config);
  const core::Tensor& weight = layer.part("weight", core::DType::kI8, {layer.n, layer.k});
  grid.codes = raise(weight.data<std::int8_t>(), config.bits, layer, "weight");
  if (!config.symmetric) {
    const core::Tensor& zeros = layer.part("weight_zero_point", core::DType::kI8,
                                           {layer.n, groups_of(layer.k, config.group)});
    grid.zeros = raise(zeros.data<std::int8_t>(), config.bits, layer, "weight_zero_point");
  }
  return pack_grid(grid, layer.name);
}

}  // namespace nibble::formats::exchange
