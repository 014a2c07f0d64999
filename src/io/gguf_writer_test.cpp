#include "io/gguf_writer.h"

#include <gtest/gtest.h>

#include "io/gguf.h"
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
  return {name, std::move(shape), gguf_blocks::find_block_type(type),
          [bytes] { return bytes_of(bytes); }};
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

}  // namespace
}  // namespace nibble::io
