// Layers and quantization_config of AWQ checkpoints, version gemm.

#include <fmt/format.h>

#include "core/json.h"
#include "formats/exchange/awq/awq.h"
#include "formats/exchange/awq/awq_words.h"
#include "formats/exchange/integer_grid.h"
#include "formats/exchange/row_ranges.h"
#include "formats/exchange/written_scheme.h"

namespace nibble::formats::exchange {
namespace {

using core::Tensor;

constexpr std::int64_t kUsualGroup = 128;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Nibbles [n, rows] as words [rows, n / 8].
Tensor words_of(const std::vector<std::uint8_t>& nibbles, std::int64_t n, std::int64_t rows) {
  const std::int64_t columns = n / kAwqPerWord;
  Tensor tensor = Tensor::zeros(core::DType::kI32, {rows, columns});
  const auto words = tensor.mutable_data<std::int32_t>();
  for_row_ranges(columns, kAwqPerWord * rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = begin; column < end; ++column) {
        std::uint32_t word = 0;
        for (std::int64_t i = 0; i < kAwqPerWord; ++i) {
          const std::uint8_t nibble = nibbles[index((column * kAwqPerWord + i) * rows + row)];
          word |= std::uint32_t{nibble} << (kAwqBits * kAwqNibbleOf[index(i)]);
        }
        words[index(row * columns + column)] = static_cast<std::int32_t>(word);
      }
    }
  });
  return tensor;
}

class AwqWriter final : public Writer {
 public:
  Scheme nearest(const Scheme& scheme) const override {
    const std::int64_t group = written_group(scheme);
    return integer_scheme(kAwqBits, group == 0 ? kUsualGroup : group, Zero::kInteger);
  }

  std::string problem(const Scheme& scheme, std::int64_t n, std::int64_t k) const override {
    return n % kAwqPerWord == 0
               ? problem_of_groups(scheme, k)
               : fmt::format("its {} outputs are no multiple of {}", n, kAwqPerWord);
  }

  std::vector<WrittenPart> write(const IntegerGrid& grid) const override {
    const std::int64_t groups = groups_of(grid.k, grid.group);
    std::vector<std::uint8_t> zeros(grid.scales.size());
    for (std::size_t i = 0; i < zeros.size(); ++i) {
      zeros[i] = static_cast<std::uint8_t>(zero_of(grid, i));
    }
    return {{"qweight", words_of(grid.codes, grid.n, grid.k)},
            {"qzeros", words_of(zeros, grid.n, groups)},
            {"scales", scales_by_group(grid)}};
  }

  core::Json config(const WrittenModel& model) const override {
    return {
        {"quant_method", "awq"},
        {"version", "gemm"},
        {"bits", kAwqBits},
        {"group_size", written_group_size(model.scheme)},
        {"zero_point", true},
        {"modules_to_not_convert", model.dense.empty() ? core::Json() : core::Json(model.dense)}};
  }
};

}  // namespace

std::unique_ptr<const Writer> make_awq_writer() {
  return std::make_unique<const AwqWriter>();
}

}  // namespace nibble::formats::exchange
