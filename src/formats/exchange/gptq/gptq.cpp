#include "formats/exchange/gptq/gptq.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/error.h"
#include "core/json.h"
#include "formats/exchange/gptq/gptq_config.h"
#include "formats/exchange/group_order.h"
#include "formats/exchange/integer_grid.h"
#include "formats/exchange/row_ranges.h"
#include "formats/exchange/stored_scales.h"
#include "formats/exchange/word_stream.h"

namespace nibble::formats::exchange {
namespace {

using core::ErrorKind;
using core::require;

constexpr std::array<std::string_view, 4> kParts = {"qweight", "qzeros", "scales", "g_idx"};
constexpr std::int64_t kWordBits = 32;
constexpr std::int64_t kOutputsTogether = 256;  // rows of codes that stay in the L1 cache

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Columns [first, last) of words become rows of codes.
void read_columns(std::span<const std::int32_t> words, const StoredLayer& layer, int bits,
                  std::int64_t first, std::int64_t last, std::span<std::uint8_t> codes) {
  for (std::int64_t k = 0; k < layer.k; k += kWordBits) {
    for (std::int64_t n = first; n < last; ++n) {
      const WordStream column(words.subspan(index(n)), layer.n, bits);
      for (std::int64_t i = k; i < std::min(layer.k, k + kWordBits); ++i) {
        codes[index(n * layer.k + i)] = column[i];
      }
    }
  }
}

// Codes lie along k in words of which n stand side by side; here they lie along k alone.
std::vector<std::uint8_t> read_codes(const StoredLayer& layer, int bits) {
  const auto words = layer.part("qweight", core::DType::kI32, {words_for(layer.k, bits), layer.n})
                         .data<std::int32_t>();
  std::vector<std::uint8_t> codes(index(layer.n * layer.k));
  for_row_ranges(layer.n, layer.k, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += kOutputsTogether) {
      read_columns(words, layer, bits, first, std::min(end, first + kOutputsTogether), codes);
    }
  });
  return codes;
}

// Bits and groups of one layer, which say how long its parts are.
struct Sizes {
  int bits = 0;
  std::int64_t group = 0;
  std::int64_t groups = 0;
};

Sizes sizes_of(const StoredLayer& layer, const GptqConfig& config) {
  Sizes sizes{config.bits, config.group, groups_of(layer.k, config.group)};
  if (!config.by_layer) {
    return sizes;
  }
  const core::Tensor& words = layer.part("qweight");
  const core::Tensor& scales = layer.part("scales");
  require(words.rank() == 2 && scales.rank() == 2 && scales.dim(0) >= 1, ErrorKind::kInvalidModel,
          "{}: qweight {} and scales {} are no matrices", core::printable(layer.name),
          core::printable(words.shape()), core::printable(scales.shape()));
  for (const int bits : {2, 3, 4, 8}) {
    sizes.bits = words.dim(0) == words_for(layer.k, bits) ? bits : sizes.bits;
  }
  sizes.groups = scales.dim(0);
  require(layer.k % sizes.groups == 0, ErrorKind::kInvalidModel,
          "{}: {} groups do not divide {} inputs", core::printable(layer.name), sizes.groups,
          layer.k);
  sizes.group = sizes.groups == 1 ? 0 : layer.k / sizes.groups;
  return sizes;
}

bool all_are(const std::vector<std::uint8_t>& values, int value) {
  return std::all_of(values.begin(), values.end(), [&](std::uint8_t v) { return v == value; });
}

std::vector<std::uint8_t> stored_zeros(const StoredLayer& layer, const Sizes& sizes) {
  const std::int64_t words = words_for(layer.n, sizes.bits);
  const auto stored =
      layer.part("qzeros", core::DType::kI32, {sizes.groups, words}).data<std::int32_t>();
  std::vector<std::uint8_t> zeros(index(layer.n * sizes.groups));
  for (std::int64_t group = 0; group < sizes.groups; ++group) {
    const WordStream row(stored.subspan(index(group * words), index(words)), 1, sizes.bits);
    for (std::int64_t n = 0; n < layer.n; ++n) {
      zeros[index(n * sizes.groups + group)] = row[n];
    }
  }
  return zeros;
}

void add_one(std::vector<std::uint8_t>& zeros, const StoredLayer& layer, const Sizes& sizes) {
  const int largest = (1 << sizes.bits) - 1;
  const auto at = std::find(zeros.begin(), zeros.end(), largest);
  require(at == zeros.end(), ErrorKind::kInvalidModel,
          "{}.qzeros: output {}, group {} holds {}, which version 1 readers take for a zero point "
          "of 0 or of {}; write the model as gptq_v2",
          core::printable(layer.name), (at - zeros.begin()) / sizes.groups,
          (at - zeros.begin()) % sizes.groups, largest, largest + 1);
  for (std::uint8_t& zero : zeros) {
    ++zero;
  }
}

// All are 2^(bits-1) where the model is symmetric: returns what the words must then hold.
GptqZeros version_of_symmetric(const std::vector<std::uint8_t>& zeros, const StoredLayer& layer,
                               int bits) {
  const int middle = 1 << (bits - 1);
  if (all_are(zeros, middle - 1)) {
    return GptqZeros::kLessOne;
  }
  require(all_are(zeros, middle), ErrorKind::kInvalidModel,
          "{}.qzeros: the model says that it is symmetric, but its zero points are neither all {} "
          "nor all {}",
          core::printable(layer.name), middle - 1, middle);
  return GptqZeros::kAsTheyAre;
}

class GptqReader final : public Reader {
 public:
  explicit GptqReader(const GptqConfig& config) : config_(config) {}

  std::string description() const override {
    return fmt::format("gptq, {} bits, {}", config_.bits,
                       config_.group == 0 ? std::string("whole rows")
                                          : fmt::format("groups of {}", config_.group));
  }

  std::span<const std::string_view> part_names() const override { return kParts; }

  ReadLayer read(const StoredLayer& layer) const override {
    const Sizes sizes = sizes_of(layer, config_);
    IntegerGrid grid{.bits = sizes.bits, .n = layer.n, .k = layer.k, .group = sizes.group};
    std::string remark;
    grid.zeros = zero_points(layer, sizes, remark);
    grid.scales =
        transposed(float_part(layer, "scales", {sizes.groups, layer.n}), sizes.groups, layer.n);
    if (layer.find("g_idx") != nullptr || (config_.ordered && sizes.groups > 1)) {
      const core::Tensor& groups = layer.part("g_idx", core::DType::kI32, {layer.k});
      grid.order = order_by_group(groups.data<std::int32_t>(),
                                  sizes.group == 0 ? layer.k : sizes.group, layer.name);
    }
    grid.codes = read_codes(layer, sizes.bits);
    ReadLayer result = pack_grid(grid, layer.name);
    if (!remark.empty()) {
      result.remarks.push_back(remark);
    }
    return result;
  }

 private:
  std::vector<std::uint8_t> zero_points(const StoredLayer& layer, const Sizes& sizes,
                                        std::string& remark) const {
    std::vector<std::uint8_t> zeros = stored_zeros(layer, sizes);
    GptqZeros version = config_.zeros;
    if (config_.symmetric) {
      version = version_of_symmetric(zeros, layer, sizes.bits);
    }
    if (version != config_.zeros) {
      remark = fmt::format("zero points are those of {}, whatever checkpoint_format says",
                           version == GptqZeros::kLessOne ? "gptq (version 1)" : "gptq_v2");
    }
    if (version == GptqZeros::kLessOne) {
      add_one(zeros, layer, sizes);
    }
    return zeros;
  }

  GptqConfig config_;
};

}  // namespace

std::unique_ptr<const Reader> make_gptq_reader(const core::Json& config) {
  return std::make_unique<const GptqReader>(read_gptq_config(config));
}

}  // namespace nibble::formats::exchange
