#include "io/gguf_writer.h"

#include <cstring>

#include <gtest/gtest.h>

#include "io/gguf.h"
#include "io/gguf_blocks/encoders.h"
#include "io/temporary_folder_for_tests.h"
#include "io/text_file.h"

namespace nibble::io {
namespace {

using core::ErrorKind;

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i % 100);
  }
  return bytes;
}

GgufOutput output(const char* name, core::Shape shape, std::uint32_t type, std::size_t bytes) {
  return {name, std::move(shape), find_gguf_block_type(type), [bytes] { return bytes_of(bytes); }};
}

GgufKeys keys() {
  GgufKeys keys;
  const auto add = [&](const char* name, GgufValue::Storage value) {
    keys.emplace(name, GgufValue(std::move(value)));
  };
  add("general.architecture", std::string("llama"));
  add("a.u32", std::uint32_t{4000000000u});
  add("a.i64", std::int64_t{-5});
  add("a.f32", 1.5f);
  add("a.f64", 2.5);
  add("a.flag", true);
  add("a.texts", std::vector<std::string>{"one", "", "three"});
  add("a.types", std::vector<std::int32_t>{1, -3});
  add("a.bytes", std::vector<std::uint8_t>{0, 255});
  add("a.flags", std::vector<bool>{true, false});
  return keys;
}

class GgufWriterTest : public ::testing::Test {
 protected:
  const core::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "x.gguf";
};

TEST_F(GgufWriterTest, WhatIsWrittenIsRead) {
  write_gguf(path_, keys(), {output("plain", {4, 3}, 0, 48), output("blocks", {2, 32}, 2, 36)});
  const auto file = GgufFile::open(path_);
  EXPECT_EQ(file->version(), 3u);
  const auto& read = file->metadata();
  EXPECT_EQ(read.values().size(), keys().size());
  for (const auto& [name, value] : keys()) {
    ASSERT_NE(read.find(name), nullptr) << name;
    EXPECT_EQ(read.find(name)->storage(), value.storage()) << name;
  }
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].shape, (core::Shape{4, 3}));
  EXPECT_EQ(file->tensors()[1].shape, (core::Shape{2, 32}));
  EXPECT_EQ(file->tensors()[1].offset % 32, 0);
  EXPECT_EQ(std::memcmp(file->tensor("plain").raw(), bytes_of(48).data(), 48), 0);
}

// "GGUF", version, counts, then the first key: any reader looks at the architecture before the
// rest.
TEST_F(GgufWriterTest, TheArchitectureStandsFirst) {
  write_gguf(path_, keys(), {});
  EXPECT_EQ(read_text_file(path_, 1 << 20).substr(32, 20), "general.architecture");
}

TEST_F(GgufWriterTest, WhatIsThereStays) {
  write_gguf(path_, keys(), {});
  const std::string before = read_text_file(path_, 1 << 20);
  expect_error(ErrorKind::kIo, {"exists already"},
               [&] { write_gguf(path_, keys(), {output("plain", {4}, 0, 16)}); });
  EXPECT_EQ(read_text_file(path_, 1 << 20), before);
}

TEST_F(GgufWriterTest, NothingStaysOfWhatFails) {
  expect_error(ErrorKind::kFailed, {"15"},
               [&] { write_gguf(path_, keys(), {output("plain", {4}, 0, 15)}); });
  expect_error(ErrorKind::kFailed, {"twice"}, [&] {
    write_gguf(path_, keys(), {output("a", {4}, 0, 16), output("a", {4}, 0, 16)});
  });
  expect_error(ErrorKind::kFailed, {"blocks"},
               [&] { write_gguf(path_, keys(), {output("a", {33}, 2, 18)}); });
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// The blocks that gguf-py wrote, taken apart and put together again.
TEST(GgufEncoders, GiveTheBlocksOfTheIndependentImplementation) {
  const std::string golden =
      read_text_file(NIBBLE_SOURCE_DIR "/src/io/goldens/gguf_blocks.bin", 1 << 20);
  int types = 0;
  for (std::size_t at = 0; at < golden.size();) {
    std::uint32_t header[2];
    std::memcpy(header, golden.data() + at, sizeof(header));
    const GgufBlockType& type = *find_gguf_block_type(header[0]);
    const auto* blocks = reinterpret_cast<const std::uint8_t*>(golden.data() + at + sizeof(header));
    const auto block_bytes = static_cast<std::size_t>(type.block_bytes);
    at += sizeof(header) +
          header[1] * (block_bytes + static_cast<std::size_t>(type.block_elements) * sizeof(float));
    if (type.name != "Q4_0" && type.name != "Q4_1" && type.name != "Q8_0") {
      continue;
    }
    ++types;
    for (std::size_t i = 0; i < header[1]; ++i) {
      const std::uint8_t* block = blocks + i * block_bytes;
      core::Fp16 d;
      core::Fp16 m;
      std::memcpy(&d.bits, block, 2);
      std::memcpy(&m.bits, block + 2, 2);
      std::vector<std::uint8_t> codes(32);
      const std::uint8_t* nibbles = block + block_bytes - 16;
      for (std::size_t j = 0; j < 32; ++j) {
        codes[j] = type.name == "Q8_0"
                       ? static_cast<std::uint8_t>(static_cast<std::int8_t>(block[2 + j]) + 128)
                       : static_cast<std::uint8_t>(j < 16 ? nibbles[j] & 15 : nibbles[j - 16] >> 4);
      }
      std::vector<std::uint8_t> made(block_bytes);
      if (type.name == "Q4_0") {
        gguf_blocks::encode_q4_0(d, codes, made.data());
      } else if (type.name == "Q4_1") {
        gguf_blocks::encode_q4_1(d, m, codes, made.data());
      } else {
        gguf_blocks::encode_q8_0(d, codes, made.data());
      }
      ASSERT_EQ(std::memcmp(made.data(), block, block_bytes), 0) << type.name << " " << i;
    }
  }
  EXPECT_EQ(types, 3);
}

}  // namespace
}  // namespace nibble::io
