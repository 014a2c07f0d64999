#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cpu/packed/tile_codes.h"

// Lines bit by bit: codes of 3 and 2 bits share bytes with codes of other inputs, and every kernel
// must give each bit to the weight that it belongs to, and no place to padding.
namespace nibble::ops::cpu {
namespace {

constexpr const char* kSchemes[] = {
    "int2-sym-g48",    "int2-asym-g32", "int2-min-g16-s8", "int3-sym-g48", "int3-asym-g32",
    "int3-sym-g16-s8", "lut2-row-g48",  "lut2-matrix-g32", "lut3-row-g48", "lut3-row-g16",
    "lut3-matrix-g32", "int4-sym-g48",  "lut4-row-g48",    "int8-asym-g48"};

/// A layer over tiles that may be changed.
class OpenLayer {
 public:
  OpenLayer(const std::string& scheme, std::int64_t n, std::int64_t k)
      : weight_(testing::random_weight(scheme, n, k, 5)) {
    const PackedLinear made = PackedLinear::pack(weight_, pool_);
    bytes_ = made.stored();
    memory_ = std::make_shared<PageBuffer>(std::ssize(bytes_.tiles));
    std::memcpy(memory_->data(), bytes_.tiles.data(), bytes_.tiles.size());
    bytes_.tiles = {memory_->data(), bytes_.tiles.size()};
    linear_ = std::make_unique<PackedLinear>(PackedLinear::view(weight_, bytes_, {}, memory_));
  }

  const TiledWeight& tiled() const { return linear_->tiled(); }
  const PackedLinear& linear() const { return *linear_; }
  std::uint8_t* tile(std::int64_t index) {
    return reinterpret_cast<std::uint8_t*>(memory_->data()) + index * tiled().tile_bytes;
  }

  /// The quad whose code a bit of the lines changes; -1 unless it is exactly one.
  std::int64_t quad_of(std::int64_t index, std::int64_t byte, int bit) {
    const std::int64_t unit = byte / (kUnit * kTileRows * tiled().bits / 8);
    std::uint8_t* at = tile(index) + tiled().codes_offset + byte;
    std::int64_t found = -1;
    for (std::int64_t quad = unit * kUnitQuads; quad < (unit + 1) * kUnitQuads; ++quad) {
      const int before = code_at(tiled(), tile(index), quad, byte % kLineBytes);
      *at = static_cast<std::uint8_t>(*at ^ 1 << bit);
      const int after = code_at(tiled(), tile(index), quad, byte % kLineBytes);
      *at = static_cast<std::uint8_t>(*at ^ 1 << bit);
      if (before != after) {
        if (found != -1) {
          return -1;
        }
        found = quad;
      }
    }
    return found;
  }

  /// Whether a weight stands there, or padding.
  bool is_weight(std::int64_t index, std::int64_t quad, std::int64_t b) const {
    const std::int64_t input = quad * kQuad + b % kQuad;
    const std::int64_t in_group = input % tiled().group_inputs;
    const std::int64_t group = input / tiled().group_inputs;
    return index * kTileRows + b / kQuad < tiled().n && in_group < linear_->group() &&
           group * linear_->group() + in_group < weight_.k;
  }

  std::vector<float> run(const Variant& variant, const std::vector<float>& x, std::int64_t m) {
    QuantizedInput input;
    quantize_input(variant, x.data(), m, weight_.k, weight_.k, linear_->needs(), input, pool_);
    std::vector<float> y(static_cast<std::size_t>(m * weight_.n), std::nanf(""));
    const PackedLinear* part = linear_.get();
    packed_linear(variant, {&part, 1}, input, y.data(), weight_.n, pool_);
    return y;
  }

 private:
  core::ThreadPool pool_{1};
  formats::PackedWeight weight_;
  PackedBytes bytes_;
  std::shared_ptr<PageBuffer> memory_;
  std::unique_ptr<PackedLinear> linear_;
};

bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<Variant> variants_here() {
  std::vector<Variant> found;
  for (const Variant& variant : variants()) {
    if (variant.runs_here()) {
      found.push_back(variant);
    }
  }
  return found;
}

TEST(FewBits, EveryBitBelongsToOneWeight) {
  for (const char* scheme : kSchemes) {
    OpenLayer layer(scheme, 16, 256);
    const std::int64_t lines = layer.tiled().tile_bytes - layer.tiled().codes_offset;
    std::vector<int> bits_of(static_cast<std::size_t>(lines * 8 / layer.tiled().bits));
    for (std::int64_t byte = 0; byte < lines; ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        const std::int64_t quad = layer.quad_of(0, byte, bit);
        ASSERT_GE(quad, 0) << scheme << " byte " << byte << " bit " << bit;
        ++bits_of[static_cast<std::size_t>(quad * kLineBytes + byte % kLineBytes)];
      }
    }
    for (const int bits : bits_of) {
      ASSERT_EQ(bits, layer.tiled().bits) << scheme;
    }
  }
}

TEST(FewBits, AFlippedBitChangesItsRowAlikeInAllVariants) {
  constexpr std::int64_t kInputs = 64;
  std::vector<float> x(kInputs);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = (i % 2 == 0 ? 1.0f : -1.0f) * static_cast<float>(1 + i % 7);
  }
  for (const char* scheme : {"int2-asym-g32", "int3-asym-g32", "lut2-row-g32", "lut3-row-g32"}) {
    OpenLayer layer(scheme, 16, kInputs);
    const std::vector<float> whole = layer.run(variants().front(), x, 1);
    const std::int64_t lines = layer.tiled().tile_bytes - layer.tiled().codes_offset;
    for (std::int64_t byte = 0; byte < lines; ++byte) {
      std::uint8_t& line = layer.tile(0)[layer.tiled().codes_offset + byte];
      for (int bit = 0; bit < 8; ++bit) {
        const std::int64_t quad = layer.quad_of(0, byte, bit);
        const int before = weight_at(layer.tiled(), layer.tile(0), quad, byte % kLineBytes);
        line = static_cast<std::uint8_t>(line ^ 1 << bit);
        const int after = weight_at(layer.tiled(), layer.tile(0), quad, byte % kLineBytes);
        const std::vector<float> expected = layer.run(variants().front(), x, 1);
        for (std::int64_t row = 0; row < 16; ++row) {
          const auto at = static_cast<std::size_t>(row);
          ASSERT_EQ(same_bits(expected[at], whole[at]),
                    row != byte % kLineBytes / kQuad || before == after)
              << scheme << " byte " << byte << " bit " << bit << " row " << row;
        }
        for (const Variant& variant : variants_here()) {
          ASSERT_TRUE(same_bits(layer.run(variant, x, 1), expected))
              << variant.name << " " << scheme << " byte " << byte << " bit " << bit;
        }
        line = static_cast<std::uint8_t>(line ^ 1 << bit);
      }
    }
  }
}

TEST(FewBits, PaddingMayHoldAnything) {
  constexpr std::int64_t kTokens = 33;
  for (const char* scheme : kSchemes) {
    for (const std::int64_t k : {144, 170, 256}) {
      if (!testing::exists(scheme, k)) {
        continue;
      }
      OpenLayer layer(scheme, 21, k);
      const std::vector<float> x = testing::random_input(kTokens, k, 3);
      const std::vector<float> clean = layer.run(variants().front(), x, kTokens);
      std::int64_t poisoned = 0;
      for (std::int64_t tile = 0; tile < 2; ++tile) {
        for (std::int64_t byte = layer.tiled().codes_offset; byte < layer.tiled().tile_bytes;
             ++byte) {
          const std::int64_t in_lines = byte - layer.tiled().codes_offset;
          for (int bit = 0; bit < 8; ++bit) {
            const std::int64_t quad = layer.quad_of(tile, in_lines, bit);
            if (!layer.is_weight(tile, quad, in_lines % kLineBytes)) {
              layer.tile(tile)[byte] = static_cast<std::uint8_t>(layer.tile(tile)[byte] | 1 << bit);
              ++poisoned;
            }
          }
        }
      }
      ASSERT_GT(poisoned, 0);
      for (const Variant& variant : variants_here()) {
        for (const std::int64_t m : {std::int64_t{1}, std::int64_t{5}, kTokens}) {
          const std::vector<float> some = layer.run(variant, x, m);
          ASSERT_TRUE(same_bits(some, {clean.begin(), clean.begin() + std::ssize(some)}))
              << variant.name << " " << scheme << " k=" << k << " m=" << m;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
