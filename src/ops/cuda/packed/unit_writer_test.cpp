#include "ops/cuda/packed/unit_writer.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/threads.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/blocks/block_weight.h"
#include "ops/cuda/packed/book_table.h"

namespace nibble::ops::cuda {
namespace {

/// Units read back as the kernels read them: registers of a warp's lanes, taken apart.
class UnitReader {
 public:
  explicit UnitReader(const formats::PackedWeight& weight)
      : format_(unit_format_of(weight.scheme)), grid_(unit_grid(weight.n, weight.k)) {
    units_.resize(static_cast<std::size_t>(grid_.count() * format_.bytes()));
    const auto rows = static_cast<std::size_t>(grid_.row_groups * kUnitRows);
    tables_.resize(is_book(format_.codes) ? rows * 16 : 0);
    factors_.resize(rows);
    write_units(weight, format_, units_, tables_, factors_);
  }

  const UnitGrid& grid() const { return grid_; }

  double value(std::int64_t n, std::int64_t k) const {
    const std::byte* tile = units_.data() + (n / 64 * grid_.blocks + k / 128) * format_.bytes() +
                            n % 64 / 16 * format_.tile_bytes();
    const std::int64_t group = k % 128 * format_.groups / 128;
    const std::int64_t column = group * 16 + 2 * (n % 8) + n % 16 / 8;
    std::uint16_t scale = 0;
    std::memcpy(&scale, tile + format_.code_bytes() + 2 * column, 2);
    const double factor = format_.scales == ScaleKind::kBf16 ? core::to_float(core::Bf16{scale})
                                                             : core::to_float(core::Fp16{scale});
    int zero = 1 << (format_.bits() - 1);
    if (format_.has_zeros()) {
      zero = static_cast<int>(tile[format_.zero_offset() + column]);
    }
    double shift = 0.0;
    if (format_.has_shifts()) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, tile + format_.zero_offset() + 2 * column, 2);
      shift = core::to_float(core::Fp16{bits});
    }
    return factor * factors_[static_cast<std::size_t>(n)] * integer(tile, n, k % 128, zero) + shift;
  }

 private:
  std::uint32_t word(const std::byte* tile, std::int64_t at) const {
    std::uint32_t bits = 0;
    std::memcpy(&bits, tile + at, 4);
    return bits;
  }

  // As plane_words.cuh makes them.
  std::uint32_t nibbles(const std::byte* tile, std::int64_t lane, std::int64_t h,
                        std::int64_t e) const {
    const std::uint32_t low = word(tile, 16 * lane + 4 * h) >> (2 * e) & 0x33333333u;
    if (format_.bits() == 2) {
      return low;
    }
    const std::uint32_t third = word(tile, 512 + 8 * lane + h / 2 * 4);
    const std::int64_t number = h % 2 * 2 + e;
    return low | ((number == 3 ? third >> 1 : third << number) & 0x44444444u);
  }

  int integer(const std::byte* tile, std::int64_t n, std::int64_t k, int zero) const {
    const std::int64_t h = k / 32;
    const std::int64_t lane = 4 * (n % 8) + k % 32 / 8;
    const std::int64_t e = k % 8 / 4;
    const std::int64_t i = k % 4;
    const bool upper = n % 16 >= 8;
    constexpr int kByte[] = {0, 2, 1, 3};
    if (format_.bits() == 8) {
      const std::uint32_t bits = word(tile, 512 * h + 16 * lane + 4 * (2 * e + (upper ? 1 : 0)));
      return static_cast<std::int8_t>(bits >> (8 * kByte[i])) + 128 - zero;
    }
    if (has_planes(format_.codes)) {
      const std::uint32_t code =
          nibbles(tile, lane, h, e) >> (is_book(format_.codes) ? 16 * (upper ? 1 : 0) + 4 * kByte[i]
                                                               : 8 * kByte[i] + (upper ? 4 : 0)) &
          15u;
      return is_book(format_.codes) ? tables_[static_cast<std::size_t>(n * 16) + code]
                                    : static_cast<int>(code) - zero;
    }
    const std::int64_t number = 2 * h + e;
    const std::uint32_t bits = word(tile, number / 4 * 512 + lane * 16 + number % 4 * 4);
    if (is_book(format_.codes)) {
      const std::uint32_t code = bits >> (16 * (upper ? 1 : 0) + 4 * kByte[i]) & 15u;
      return book_entry(&tables_[static_cast<std::size_t>(n * 16)], code);
    }
    // As the products see it: the lower row masked, the upper one signed above the lower.
    const auto byte = static_cast<std::int8_t>(bits >> (8 * kByte[i]));
    const int lower = byte & 15;
    return upper ? (byte - lower) / 16 + 8 - zero : lower - zero;
  }

  UnitFormat format_;
  UnitGrid grid_;
  std::vector<std::byte> units_;
  std::vector<std::int8_t> tables_;
  std::vector<float> factors_;
};

TEST(UnitWriter, EveryWeightComesBack) {
  for (const std::string scheme :
       {"int4-sym-g128",   "int4-asym-g32",        "int4-sym-row",  "int4-asym-g256",
        "int3-asym-g64",   "int2-sym-g32",         "int8-sym-row",  "int4-sym-tensor",
        "int8-asym-g128",  "lut4-nf4-g64",         "lut4-row-g128", "lut3-matrix-g32",
        "mxfp4",           "int4-sym-g128-s7",     "nvfp4",         "int4-sym-g48",
        "int8-asym-g16",   "int4-asym-g128-a4g32", "int3-sym-g128", "int2-asym-g128",
        "lut3-row-g128",   "lut2-row-g32",         "lut2-row-g16",  "int3-sym-g128-a8",
        "lut2-row-g128-a8"}) {
    for (const auto& [n, k] :
         {std::pair<std::int64_t, std::int64_t>{64, 128}, {77, 416}, {3, 1056}}) {
      const auto weight = cpu::testing::random_weight(scheme, n, k, 17);
      const UnitReader units(weight);
      std::vector<float> row(static_cast<std::size_t>(k));
      const bool book = !formats::is_integer(weight.scheme);
      for (std::int64_t r = 0; r < n; ++r) {
        decode_row(weight, r, row);
        // Books run as INT8 tables: half a step of the table is the most that may be missing.
        const double step =
            book ? std::fabs(book_entries(book_of(weight, r)).unit) * 0.5000001 : 0.0;
        std::vector<float> scales(
            static_cast<std::size_t>(groups_per_row(weight.scheme, weight.k)));
        unpack_scales(weight, r, scales);
        for (std::int64_t i = 0; i < k; ++i) {
          const float scale =
              scales[static_cast<std::size_t>(i / group_size(weight.scheme, weight.k))];
          ASSERT_NEAR(units.value(r, i), row[static_cast<std::size_t>(i)],
                      step * scale + 1e-6 * std::fabs(row[static_cast<std::size_t>(i)]))
              << scheme << ", row " << r << ", input " << i;
        }
      }
    }
  }
}

// As block_weight() has them: products of scales with codes less their middle, and shifts.
TEST(UnitWriter, MinimaComeBackAsShifts) {
  core::ThreadPool pool(1);
  for (const std::string scheme :
       {"int4-min-g32", "int8-min-g32", "int4-min-g32-s8", "int8-min-g32-s8", "int2-min-g16-s8",
        "int3-min-g64", "int4-min-g128"}) {
    const auto block =
        block_weight(cpu::testing::random_weight(scheme, 77, 512, 17), "layer", pool);
    const UnitReader units(block);
    formats::PackedWeight symmetric = block;
    symmetric.scheme.zero = formats::Zero::kNone;
    std::vector<float> products(512);
    std::vector<float> shifts(static_cast<std::size_t>(groups_per_row(block.scheme, block.k)));
    for (std::int64_t n = 0; n < block.n; ++n) {
      decode_row(symmetric, n, products);
      unpack_minima(block, n, shifts);
      for (std::size_t k = 0; k < products.size(); ++k) {
        const double shift = shifts[k * shifts.size() / products.size()];
        ASSERT_NEAR(units.value(n, static_cast<std::int64_t>(k)), products[k] + shift,
                    1e-6 * (std::fabs(products[k]) + std::fabs(shift)))
            << scheme << ", row " << n << ", input " << k;
      }
    }
  }
}

TEST(UnitWriter, PaddingIsZero) {
  const auto weight = cpu::testing::random_weight("int4-asym-g128", 70, 200, 3);
  const UnitReader units(weight);
  for (std::int64_t n = 70; n < units.grid().row_groups * kUnitRows; ++n) {
    for (std::int64_t k = 0; k < 256; ++k) {
      ASSERT_EQ(units.value(n, k), 0.0) << n << ", " << k;
    }
  }
}

// Of books too, whose tables are not their values.
TEST(UnitWriter, SumsAreThoseOfTheUnits) {
  const std::int64_t k = 200;
  for (const std::string scheme :
       {"int4-asym-g32", "int3-sym-g128", "int8-sym-row", "int8-asym-g16", "lut4-nf4-g64", "mxfp4",
        "nvfp4", "int2-asym-g64", "lut3-row-g128"}) {
    const std::int64_t inputs = scheme == "nvfp4" || scheme == "mxfp4" ? 192 : k;
    const auto weight = cpu::testing::random_weight(scheme, 20, inputs, 9);
    const UnitReader units(weight);
    for (const std::int64_t step : {0, 16, 128}) {
      for (std::int64_t r = 0; r < weight.n; ++r) {
        const auto sums = unit_row_sums(weight, unit_format_of(weight.scheme), r, step);
        const std::int64_t length = step == 0 ? inputs : step;
        ASSERT_EQ(static_cast<std::int64_t>(sums.size()), (inputs + length - 1) / length);
        for (std::int64_t i = 0; i < inputs; i += length) {
          double sum = 0.0;
          double magnitude = 0.0;
          for (std::int64_t j = i; j < std::min(i + length, inputs); ++j) {
            sum += units.value(r, j);
            magnitude += std::fabs(units.value(r, j));
          }
          ASSERT_NEAR(sums[static_cast<std::size_t>(i / length)], sum, 1e-6 * magnitude) << scheme;
        }
      }
    }
  }
}

// In planes where kernels read them so: with activations of 16 bits, and groups of 32 n inputs.
TEST(UnitWriter, FewBitsTakeTheirBits) {
  const auto bits = [](const char* scheme) {
    return unit_format_of(formats::parse_scheme(scheme)).bits();
  };
  EXPECT_EQ(bits("int3-sym-g128"), 3);
  EXPECT_EQ(bits("int3-asym-g32"), 3);
  EXPECT_EQ(bits("int2-sym-row"), 2);
  EXPECT_EQ(bits("lut3-row-g128"), 3);
  EXPECT_EQ(bits("lut2-matrix-g64"), 2);
  EXPECT_EQ(bits("int2-asym-g16"), 4);
  EXPECT_EQ(bits("lut2-row-g48"), 4);
  EXPECT_EQ(bits("int3-asym-g128-a3"), 4);
  EXPECT_EQ(bits("lut3-row-g128-a8"), 4);
  const UnitFormat three = unit_format_of(formats::parse_scheme("int3-asym-g128"));
  EXPECT_EQ(three.bytes() * 8, kUnitRows * kUnitInputs * 3 + kUnitRows * (16 + 8));
}

TEST(UnitWriter, RefusesWhatNoKernelComputes) {
  const auto refused = [](const char* text, const std::string& reason) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    const Refusal refusal = unit_refusal(scheme);
    ASSERT_TRUE(refusal) << text;
    EXPECT_NE(refusal->text().find(reason), std::string::npos) << text << ": " << refusal->text();
    EXPECT_THROW(unit_format_of(scheme), core::Error) << text;
  };
  refused("int4-sym-g24", "no multiples of 16");
  refused("int8-sym-row-a8g40", "no multiples of 16");
  refused("f16", "dense");
  refused("int4-asym-g16-bsr", "block-sparse");
  refused("int4-sym-g128-2of4", "two of each four");
  refused("f16-2of4", "two of each four");
  refused("trellis4-row", "trellis");
}

}  // namespace
}  // namespace nibble::ops::cuda
