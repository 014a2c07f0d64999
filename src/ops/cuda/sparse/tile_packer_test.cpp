#include "ops/cuda/sparse/tile_packer.h"

#include <cstring>

#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/block_sparse.h"
#include "ops/cpu/sparse/sparse_weights_for_tests.h"
#include "ops/cuda/packed/decoded_rows_for_tests.h"

// The layout of tiles, read back as a warp reads it: lane by lane, as the left operand of m16n8k16.
namespace nibble::ops::cuda {
namespace {

using cpu::testing::sparse_weight;
using formats::PackedWeight;

template <typename T>
T at(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

/// Dense rows [n][k]; a place that two blocks write is added up.
std::vector<float> read_back(const PackedTiles& packed) {
  std::vector<float> values(static_cast<std::size_t>(packed.n * packed.k));
  for (std::int64_t tile = 0; tile < packed.n / kTileBlock; ++tile) {
    const TileRows rows = tile_rows(static_cast<int>(tile), packed.pairs);
    const auto index = static_cast<std::size_t>(tile);
    for (int unit = packed.first_units[index]; unit < packed.first_units[index + 1]; ++unit) {
      const std::byte* const bytes = packed.units.data() + unit * kTileUnitBytes;
      for (int lane = 0; lane < 32; ++lane) {
        for (int block = 0; block < kUnitBlocks; ++block) {
          const auto word = at<std::uint32_t>(bytes + 16 * lane + 4 * block);
          const int source = lane / 4 * 4 + block;
          const auto scales = at<std::uint32_t>(bytes + 512 + 4 * source);
          const auto zeros = at<std::uint8_t>(bytes + 640 + source);
          const auto place = at<std::uint16_t>(bytes + 672 + 2 * block);
          for (int i = 0; i < 8; ++i) {
            const bool lower = i / 2 % 2 != 0;  // row g + 8
            const int shift = i % 2 * 16 + i / 2 * 4;
            const int code = static_cast<int>(word >> shift & 15u);
            const int zero = lower ? zeros >> 4 : zeros & 15;
            const core::Fp16 scale{static_cast<std::uint16_t>(scales >> (lower ? 16 : 0))};
            const std::int64_t row = (lower ? rows.ninth : rows.first) + lane / 4;
            const std::int64_t input = 16 * place + lane % 4 * 4 + i / 4 * 2 + i % 2;
            values[static_cast<std::size_t>(row * packed.k + input)] +=
                core::to_float(scale) * static_cast<float>(code - zero);
          }
        }
      }
    }
  }
  return values;
}

TEST(TilePacker, HoldTheWeight) {
  core::ThreadPool pool(2);
  for (const std::string scheme :
       {"int4-asym-g16-bsr-t16", "int4-asym-g16-s7-bsr-t16", "int4-sym-g32-bsr-t16",
        "int3-asym-g64-bsr-t16", "int2-asym-g16-bsr-t16"}) {
    for (const auto& [n, k] : {std::pair{16, 64}, {80, 320}, {32, 8256}}) {
      const PackedWeight weight = sparse_weight(scheme, n, k, 3);
      const UnitRows alone{{&weight}, false};
      const PackedTiles packed = pack_tiles(alone, pool);
      EXPECT_EQ(read_back(packed), decoded(alone)) << scheme << " " << n << " x " << k;
      std::int64_t units = 0;
      for (std::int64_t row = 0; row < n; row += 16) {
        const auto [begin, end] = formats::stored_groups_of(weight, row);
        units += ((end - begin) * weight.scheme.scale.group / 16 + 3) / 4;
      }
      EXPECT_EQ(std::ssize(packed.units), units * kTileUnitBytes);
    }
  }
}

TEST(TilePacker, HoldWeightsSideBySideAndInPairs) {
  core::ThreadPool pool(1);
  const PackedWeight gate = sparse_weight("int4-asym-g16-bsr-t16", 80, 320, 5);
  const PackedWeight up = sparse_weight("int4-asym-g16-bsr-t16", 80, 320, 6);
  for (const bool pairs : {false, true}) {
    const UnitRows both{{&gate, &up}, pairs};
    EXPECT_EQ(read_back(pack_tiles(both, pool)), decoded(both)) << pairs;
  }
}

TEST(TilePacker, RefuseWhatTheyCannotHold) {
  const auto refusal = [](const char* scheme) {
    const Refusal refused = tile_units_refusal(formats::parse_scheme(scheme), 1024);
    return refused ? refused->text() : "";
  };
  EXPECT_EQ(refusal("int4-asym-g16-bsr-t16"), "");
  EXPECT_NE(refusal("int4-asym-g16-bsr"), "");
  EXPECT_NE(refusal("int4-asym-g16"), "");
  EXPECT_NE(refusal("int4-asym-g16-bsr-t16-a8"), "");
  EXPECT_NE(refusal("int8-asym-g16-bsr-t16"), "");
  EXPECT_NE(refusal("int4-asym-g8-bsr-t16"), "");
}

}  // namespace
}  // namespace nibble::ops::cuda
