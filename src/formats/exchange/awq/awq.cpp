#include "formats/exchange/awq/awq.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/error.h"
#include "core/json.h"
#include "formats/exchange/awq/awq_words.h"
#include "formats/exchange/config_fields.h"
#include "formats/exchange/integer_grid.h"
#include "formats/exchange/row_ranges.h"
#include "formats/exchange/stored_scales.h"

namespace nibble::formats::exchange {
namespace {

using core::ErrorKind;
using core::require;

constexpr std::array<std::string_view, 3> kParts = {"qweight", "qzeros", "scales"};

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Nibbles of words [rows, n / 8], as [n, rows].
std::vector<std::uint8_t> read_nibbles(const StoredLayer& layer, std::string_view part,
                                       std::int64_t rows) {
  const std::int64_t columns = layer.n / kAwqPerWord;
  const auto words = layer.part(part, core::DType::kI32, {rows, columns}).data<std::int32_t>();
  std::vector<std::uint8_t> nibbles(index(layer.n * rows));
  for_row_ranges(columns, kAwqPerWord * rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = begin; column < end; ++column) {
        const auto word = static_cast<std::uint32_t>(words[index(row * columns + column)]);
        for (std::int64_t i = 0; i < kAwqPerWord; ++i) {
          nibbles[index((column * kAwqPerWord + i) * rows + row)] =
              static_cast<std::uint8_t>(word >> (kAwqBits * kAwqNibbleOf[index(i)]) & 15u);
        }
      }
    }
  });
  return nibbles;
}

class AwqReader final : public Reader {
 public:
  explicit AwqReader(std::int64_t group) : group_(group) {}

  std::string description() const override {
    return fmt::format("awq, 4 bits, {}", group_ == 0 ? std::string("whole rows")
                                                      : fmt::format("groups of {}", group_));
  }

  std::span<const std::string_view> part_names() const override { return kParts; }

  ReadLayer read(const StoredLayer& layer) const override {
    require(layer.n % kAwqPerWord == 0, ErrorKind::kInvalidModel,
            "{}: AWQ packs outputs by 8, and the layer has {}", core::printable(layer.name),
            layer.n);
    const std::int64_t groups = groups_of(layer.k, group_);
    IntegerGrid grid{.bits = kAwqBits, .n = layer.n, .k = layer.k, .group = group_};
    grid.scales = transposed(float_part(layer, "scales", {groups, layer.n}), groups, layer.n);
    grid.zeros = read_nibbles(layer, "qzeros", groups);
    grid.codes = read_nibbles(layer, "qweight", layer.k);
    return pack_grid(grid, layer.name);
  }

 private:
  std::int64_t group_;
};

// Under its older name where there is no other.
std::string_view key_of(const core::Json& config, std::string_view key, std::string_view older) {
  return config.contains(key) || !config.contains(older) ? key : older;
}

}  // namespace

std::unique_ptr<const Reader> make_awq_reader(const core::Json& config) {
  std::string version = core::find_string(config, "version", kConfigName).value_or("gemm");
  std::transform(version.begin(), version.end(), version.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  require(version == "gemm", ErrorKind::kInvalidModel,
          "{}: AWQ checkpoints of version '{}' can't be read, only 'gemm'", kConfigName,
          core::printable(version));
  const int bits = read_bits(config, key_of(config, "bits", "w_bit"));
  require(bits == kAwqBits, ErrorKind::kInvalidModel,
          "{}: AWQ checkpoints of {} bits can't be read, only of {}", kConfigName, bits, kAwqBits);
  return std::make_unique<const AwqReader>(
      read_group(config, key_of(config, "group_size", "q_group_size")));
}

}  // namespace nibble::formats::exchange
