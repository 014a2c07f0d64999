#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "core/hash.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/packed/test_problems.h"

namespace nibble::ops::cpu {
namespace {

// Files of nibble pack hold these bytes: whoever changes them raises kTileLayoutVersion, and then
// these numbers.
TEST(TileWriter, TheBytesOfThisLayoutVersion) {
  struct Golden {
    const char* scheme;
    std::uint64_t hash;
  };
  ASSERT_EQ(kTileLayoutVersion, 5u);
  core::ThreadPool pool(1);
  for (const Golden& golden :
       {Golden{"int4-sym-g32", 0xbef18ffe1cc009a5u}, Golden{"int4-asym-g128", 0x48f03e30d392ec06u},
        Golden{"int3-asym-g64", 0xaa552268ae177f77u}, Golden{"int2-sym-g128", 0x13b4b2dab53eee8au},
        Golden{"lut3-row-g64", 0xee903da5aa3bb10fu}, Golden{"lut2-row-g32", 0x4d8db4b01c30affcu},
        Golden{"int8-sym-g32", 0x4a19cfd704ca8ec9u},
        Golden{"int8-asym-g64-a8-asym", 0xe5ee1fbec9c0a02eu},
        Golden{"lut4-nf4-g64", 0x003c0aeafe140ee9u}, Golden{"lut4-fp4-g64", 0x22ab1b333faee4e2u},
        Golden{"mxfp4", 0xaba9983751fea394u}, Golden{"nvfp4", 0xf03383aea967d3d6u},
        Golden{"int4-min-g32", 0xbe9d0644e54dd7aau}, Golden{"int4-min-g32-s8", 0xc7ffec3b152ff5bdu},
        Golden{"int8-sym-g16-s8", 0x179c6b3dcf8b7565u}}) {
    const PackedLinear linear =
        PackedLinear::pack(testing::random_weight(golden.scheme, 21, 256, 3), pool);
    const PackedBytes bytes = linear.stored();
    EXPECT_EQ(core::hash64(bytes.tiles) ^ core::hash64(std::as_bytes(bytes.sums)), golden.hash)
        << golden.scheme;
  }
}

// The drawing in tile_layout.h, one code at a time.
void put_codes(const TiledWeight& w, std::int64_t group, const std::vector<std::uint8_t>& codes,
               std::uint8_t* tile, std::int64_t lane) {
  std::uint8_t* lines = tile + w.codes_offset + lane * kQuad;
  for (std::int64_t k = 0; k < std::ssize(codes); ++k) {
    const std::int64_t padded = k / group * w.group_inputs + k % group;
    const std::int64_t quad = padded / kQuad;
    const std::uint8_t code = codes[static_cast<std::size_t>(k)];
    const auto add = [&](std::int64_t line, int bits) {
      std::uint8_t& byte = lines[line * kLineBytes + padded % kQuad];
      byte = static_cast<std::uint8_t>(byte | bits);
    };
    if (w.bits == 8) {
      add(quad, code);
    } else if (w.bits == 4) {
      add(quad / 2, code << quad % 2 * 4);
    } else if (w.bits == 2) {
      add(quad / 4, code << quad % 4 * 2);
    } else if (quad % 8 < 6) {
      add(quad / 8 * 3 + quad % 8 / 2, code << quad % 2 * 3);
    } else {
      add(quad / 8 * 3 + quad % 8 - 6, (code & 3) << 6);
      add(quad / 8 * 3 + 2, (code >> 2) << quad % 8);
    }
  }
}

// Tiles of a weight without a tail. Units and tables are taken from `linear`, and so are scales
// that its units change (other tests are about those).
std::vector<std::uint8_t> expected_tiles(const formats::PackedWeight& weight,
                                         const PackedLinear& linear) {
  const TiledWeight& w = linear.tiled();
  const std::int64_t group = linear.group();
  const std::int64_t weight_group = formats::group_size(weight.scheme, weight.k);
  const bool own_scales = weight.scheme.scale.type == formats::ScaleType::kE8m0 ||
                          weight.scheme.scale.type == formats::ScaleType::kE4m3;
  std::vector<std::uint8_t> tiles(static_cast<std::size_t>(w.tile_count * w.tile_bytes));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(weight.k));
  std::vector<float> scales(
      static_cast<std::size_t>(formats::groups_per_row(weight.scheme, weight.k)));
  std::vector<std::uint8_t> zeros(scales.size());
  for (std::int64_t i = 0; i < w.tile_count; ++i) {
    std::copy_n(w.tiles + i * w.tile_bytes, own_scales ? w.codes_offset : w.scales_offset,
                tiles.data() + i * w.tile_bytes);
  }
  for (std::int64_t row = 0; row < weight.n; ++row) {
    std::uint8_t* tile = tiles.data() + row / kTileRows * w.tile_bytes;
    const std::int64_t lane = row % kTileRows;
    formats::unpack_codes(weight, row, codes);
    formats::unpack_scales(weight, row, scales);
    formats::unpack_zeros(weight, row, zeros);
    put_codes(w, group, codes, tile, lane);
    for (std::int64_t g = 0; g < w.groups; ++g) {
      const auto of = static_cast<std::size_t>(g * group / weight_group);
      if (!own_scales) {
        const core::Fp16 scale = core::to_fp16(scales[of]);
        std::memcpy(tile + w.scales_offset + (g * kTileRows + lane) * 2, &scale, sizeof(scale));
      }
      if (w.zeros_offset != 0) {
        tile[w.zeros_offset + g * kTileRows + lane] = zeros[of];
      }
    }
  }
  return tiles;
}

TEST(TileWriter, WritesWhatTheDrawingSaysCodeByCode) {
  core::ThreadPool pool(2);
  for (const char* scheme : {"int4-sym-g32",
                             "int4-asym-g128",
                             "int4-sym-row",
                             "int4-asym-g20",
                             "int4-sym-g40",
                             "int4-sym-g512",
                             "int4-sym-g128-a4g32",
                             "int4-asym-g32-s7",
                             "int3-asym-g64",
                             "int3-sym-g32-s7",
                             "int3-sym-g128",
                             "int3-sym-row",
                             "int3-asym-g16",
                             "int2-sym-g24",
                             "int2-asym-g128",
                             "int2-sym-g16",
                             "int8-sym-g32",
                             "int8-asym-row",
                             "int8-sym-g20",
                             "lut4-nf4-g64",
                             "lut4-row-g32",
                             "lut4-matrix-g48",
                             "lut3-row-g64",
                             "lut3-row-g24",
                             "lut2-row-g128",
                             "lut2-matrix-g64",
                             "mxfp4",
                             "nvfp4"}) {
    const bool whole_groups = scheme[0] == 'm' || scheme[0] == 'n' || std::strstr(scheme, "-a4g32");
    for (const std::int64_t k : {32, 96, 37, 161, 128, 131, 260, 640, 1027}) {
      for (const std::int64_t n : {1, 16, 21, 48}) {
        if (whole_groups && k % 32 != 0) {
          continue;
        }
        const auto weight = testing::random_weight(scheme, n, k, static_cast<std::uint64_t>(n + k));
        const PackedLinear linear = PackedLinear::pack(weight, pool);
        const TiledWeight& w = linear.tiled();
        const std::vector<std::uint8_t> expected = expected_tiles(weight, linear);
        ASSERT_EQ(std::mismatch(expected.begin(), expected.end(), w.tiles).first - expected.begin(),
                  std::ssize(expected))
            << scheme << " " << n << " x " << k;
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
