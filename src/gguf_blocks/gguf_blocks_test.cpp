#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gguf_blocks/block_types.h"

namespace nibble::gguf_blocks {
namespace {

std::string golden_bytes() {
  std::ifstream file(NIBBLE_SOURCE_DIR "/src/gguf_blocks/goldens/gguf_blocks.bin",
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(GgufBlocks, EveryDecoderGivesTheValuesOfTheIndependentImplementation) {
  const std::string golden = golden_bytes();
  std::size_t at = 0;
  int types = 0;
  while (at < golden.size()) {
    std::uint32_t header[2];
    ASSERT_LE(at + sizeof(header), golden.size());
    std::memcpy(header, golden.data() + at, sizeof(header));
    at += sizeof(header);
    const BlockType* type = find_block_type(header[0]);
    ASSERT_NE(type, nullptr) << header[0];
    ASSERT_NE(type->form, nullptr) << type->name;
    const auto block_bytes = static_cast<std::size_t>(header[1] * type->block_bytes);
    const auto elements = static_cast<std::size_t>(header[1] * type->block_elements);
    ASSERT_LE(at + block_bytes + elements * sizeof(float), golden.size());
    std::vector<float> values(elements, std::nanf(""));
    dequantize_blocks(*type, reinterpret_cast<const std::uint8_t*>(golden.data() + at), header[1],
                      values.data());
    at += block_bytes;
    for (std::size_t i = 0; i < elements; ++i, at += sizeof(float)) {
      float expected = 0.0f;
      std::memcpy(&expected, golden.data() + at, sizeof(float));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected))
          << type->name << " element " << i << ": " << values[i] << ", expected " << expected;
    }
    ++types;
  }
  EXPECT_EQ(types, 13);
}

TEST(GgufBlocks, TheGoldenFileCoversEveryDecoder) {
  int decoders = 0;
  for (const BlockType& type : block_types()) {
    decoders += type.form != nullptr ? 1 : 0;
    EXPECT_EQ(find_block_type(type.id), &type) << type.name;
    EXPECT_FALSE(type.dense.has_value() && type.form != nullptr) << type.name;
  }
  EXPECT_EQ(decoders, 13);
  EXPECT_EQ(find_block_type(4), nullptr);  // Q4_2, removed from the format
  EXPECT_EQ(find_block_type(0xffffffffu), nullptr);
}

TEST(GgufBlocks, PackingGivesTheBytesThatWereUnpacked) {
  const std::string golden = golden_bytes();
  for (const BlockType& type : block_types()) {
    if (type.form == nullptr) {
      continue;
    }
    const auto size = static_cast<std::size_t>(type.block_bytes);
    for (std::size_t at = 0; at + size <= golden.size(); at += size) {  // any bytes are a block
      Block parts = {};
      std::vector<std::uint8_t> bytes(size, 0xaa);
      type.form->unpack(reinterpret_cast<const std::uint8_t*>(golden.data() + at), parts);
      type.form->pack(parts, bytes.data());
      ASSERT_EQ(std::memcmp(bytes.data(), golden.data() + at, size), 0)
          << type.name << " at " << at;
      for (std::int64_t i = 0; i < type.block_elements; ++i) {
        ASSERT_LT(parts.codes[i], 1 << type.form->bits) << type.name;
      }
    }
  }
}

// A block that can be decoded by hand: d = 1 (f16 0x3c00), byte j of the codes = 0x_j.
TEST(GgufBlocks, Q4ZeroByHand) {
  std::uint8_t block[18] = {0x00, 0x3c};
  for (int j = 0; j < 16; ++j) {
    block[2 + j] = static_cast<std::uint8_t>((15 - j) << 4 | j);
  }
  float values[32];
  dequantize_blocks(*find_block_type(2), block, 1, values);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(values[j], static_cast<float>(j - 8));
    EXPECT_EQ(values[j + 16], static_cast<float>(7 - j));
  }
}

TEST(GgufBlocks, TheMxfp4ScaleOf255IsNotANumber) {
  std::uint8_t block[17] = {255};
  float values[32] = {};
  dequantize_blocks(*find_block_type(39), block, 1, values);
  EXPECT_TRUE(std::isnan(values[0]));
}

}  // namespace
}  // namespace nibble::gguf_blocks
