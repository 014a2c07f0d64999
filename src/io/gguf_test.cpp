#include "io/gguf.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "io/gguf_writer_for_tests.h"
#include "io/temporary_folder_for_tests.h"
#include "io/text_file.h"

namespace nibble::io {
namespace {

using core::DType;
using core::ErrorKind;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ4K = 12;

std::shared_ptr<const GgufFile> parse(std::string_view bytes) {
  const HeapBytes heap(bytes);
  return GgufFile::parse("x.gguf", heap.span, heap.memory);
}

void expect_invalid(const GgufBytes& file, std::vector<std::string> parts) {
  parts.emplace_back("x.gguf");
  expect_error(ErrorKind::kInvalidModel, parts, [&] { parse(file.bytes()); });
}

TEST(Gguf, ReadsKeysOfEveryType) {
  const auto file = parse(small_gguf());
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 32);
  const GgufMetadata& keys = file->metadata();
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(keys.get_integer("u8", kMin, kMax), 200);
  EXPECT_EQ(keys.get_integer("i8", kMin, kMax), -100);
  EXPECT_EQ(keys.get_integer("u16", kMin, kMax), 60000);
  EXPECT_EQ(keys.get_integer("i16", kMin, kMax), -30000);
  EXPECT_EQ(keys.get_integer("u32", kMin, kMax), 4000000000);
  EXPECT_EQ(keys.get_integer("i32", kMin, kMax), -2000000000);
  EXPECT_EQ(keys.get_integer("i64", kMin, kMax), -5);
  EXPECT_EQ(keys.get_number("f32"), 1.5);
  EXPECT_EQ(keys.get_number("f64"), 2.5);
  EXPECT_EQ(keys.get_number("u8"), 200.0);
  EXPECT_EQ(keys.find_bool("bool"), true);
  EXPECT_EQ(keys.get_string("string"), "text");
  EXPECT_EQ(keys.get_strings("strings"), (std::vector<std::string>{"one", ""}));
  EXPECT_EQ(keys.find_integers("integers"), (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(keys.find_numbers("numbers"), (std::vector<double>{0.5, -0.5}));
  EXPECT_EQ(keys.find("bools")->as_bools(), (std::vector<bool>{false, true}));
  EXPECT_EQ(keys.find("bools")->array_size(), 2);
  EXPECT_EQ(keys.find("strings")->array_size(), 2);
  EXPECT_EQ(keys.find("string")->array_size(), std::nullopt);
  EXPECT_EQ(keys.find("numbers")->type_name(), "f32 array");
  EXPECT_EQ(keys.values().size(), 16u);
  EXPECT_EQ(keys.find("missing"), nullptr);
  EXPECT_EQ(keys.find_integer("missing", 0, 1), std::nullopt);
}

TEST(Gguf, GettersNameFileAndKey) {
  const auto file = parse(small_gguf());
  const GgufMetadata& keys = file->metadata();
  const auto expect_message = [](std::vector<std::string> parts, auto action) {
    parts.emplace_back("x.gguf");
    expect_error(ErrorKind::kInvalidModel, parts, action);
  };
  expect_message({"'string'", "an integer", "string"}, [&] { keys.get_integer("string", 0, 1); });
  expect_message({"'u8'", "200", "0 to 100"}, [&] { keys.get_integer("u8", 0, 100); });
  expect_message({"'u64'", "an integer"}, [&] { keys.get_integer("u64", 0, 100); });
  expect_message({"'bool'", "an integer"}, [&] { keys.find_integer("bool", 0, 100); });
  expect_message({"'f32'", "an integer"}, [&] { keys.find_integer("f32", 0, 100); });
  expect_message({"'bool'", "number"}, [&] { keys.find_number("bool"); });
  expect_message({"'u8'", "true or false"}, [&] { keys.find_bool("u8"); });
  expect_message({"'u8'", "a string"}, [&] { keys.find_string("u8"); });
  expect_message({"'string'", "strings"}, [&] { keys.find_strings("string"); });
  expect_message({"'numbers'", "integers", "f32 array"}, [&] { keys.find_integers("numbers"); });
  expect_message({"'strings'", "numbers"}, [&] { keys.find_numbers("strings"); });
  expect_message({"'bools'", "numbers"}, [&] { keys.find_numbers("bools"); });
  expect_message({"'none'", "missing"}, [&] { keys.get_integer("none", 0, 1); });
  expect_message({"'none'", "missing"}, [&] { keys.get_number("none"); });
  expect_message({"'none'", "missing"}, [&] { keys.get_string("none"); });
  expect_message({"'none'", "missing"}, [&] { keys.get_strings("none"); });
  GgufBytes nan;
  nan.header(0, 1).string("eps").u32(6).number(std::nanf(""));
  const auto nan_file = parse(nan.bytes());
  expect_message({"'eps'", "finite"}, [&] { nan_file->metadata().get_number("eps"); });
}

TEST(Gguf, ReadsTensors) {
  const std::string bytes = small_gguf();
  const auto file = parse(bytes);
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->data_bytes(), 48 + 36 + 210);
  const core::Tensor plain = file->tensor("plain");
  EXPECT_EQ(plain.shape(), (core::Shape{3, 4}));
  EXPECT_EQ(std::memcmp(plain.raw(), bytes.data() + file->entry("plain").offset, 48), 0);
  const core::Tensor blocks = file->tensor("q4_0");
  EXPECT_EQ(blocks.shape(), (core::Shape{2, 32}));
  EXPECT_EQ(blocks.dtype(), DType::kF32);
  // Its data begin with bytes 64, 65, ...: d = f16 0x4140, first code = low nibble of 66.
  EXPECT_EQ(blocks.data<float>()[0], core::to_float(core::Fp16{0x4140}) * (2 - 8));
  EXPECT_EQ(file->tensor("q6_k").shape(), core::Shape{256});
  EXPECT_FALSE(file->contains("other"));
  expect_error(ErrorKind::kInvalidModel, {"x.gguf", "no tensor 'other'"},
               [&] { file->tensor("other"); });
}

TEST(Gguf, ReadsVersion2AndAnyAlignment) {
  GgufBytes file;
  file.header(2, 1, 2).key_u32("general.alignment", 8);
  file.tensor("a", {3}, kF32, 0).tensor("b", {1}, 28, 16).pad(8).data(24);
  const auto read = parse(file.bytes());
  EXPECT_EQ(read->version(), 2u);
  EXPECT_EQ(read->alignment(), 8);
  EXPECT_EQ(read->tensor("b").dtype(), DType::kF64);
}

TEST(Gguf, CopiesUnalignedNumbers) {
  GgufBytes file;
  file.header(2, 1).key_u32("general.alignment", 1);
  file.tensor("a", {1}, 24, 0).tensor("b", {2}, kF32, 1).data(9);
  const core::Tensor b = parse(file.bytes())->tensor("b");
  std::uint32_t bits = 0;
  std::memcpy(&bits, b.data<float>().data(), sizeof(bits));
  EXPECT_EQ(bits, 0x04030201u);
}

TEST(Gguf, RefusesBlockTypesItCannotDecodeOnlyWhenTheyAreLoaded) {
  GgufBytes file;
  file.header(1, 0).tensor("a", {256}, 16, 0).pad().data(66);
  const auto read = parse(file.bytes());
  expect_error(ErrorKind::kInvalidModel, {"x.gguf", "'a'", "IQ2_XXS", "not supported"},
               [&] { read->tensor("a"); });
}

// Kinds of llama.cpp's handcrafted files: the header.
TEST(GgufBadFiles, Header) {
  expect_invalid(GgufBytes(), {"magic", "byte 0", "cut off"});
  expect_invalid(GgufBytes().raw("GGU"), {"magic"});
  expect_invalid(GgufBytes().raw("GGML").u32(3).u64(0).u64(0), {"magic", "GGML"});
  expect_invalid(GgufBytes().raw(std::string_view("\0\0\0\0", 4)), {"magic"});
  expect_invalid(GgufBytes().header(0, 0, 0), {"version 0"});
  expect_invalid(GgufBytes().header(0, 0, 1), {"version 1 is not supported"});
  expect_invalid(GgufBytes().header(0, 0, 4), {"version 4 is unknown"});
  expect_invalid(GgufBytes().header(0, 0, 0x03000000), {"big-endian"});
  expect_invalid(GgufBytes().header(0, 0, 0x02000000), {"big-endian"});
  EXPECT_TRUE(parse(GgufBytes().header(0, 0).bytes())->tensors().empty());
  for (const std::uint64_t count : {1ull, 1ull << 32, 1ull << 63, ~0ull}) {
    expect_invalid(GgufBytes().header(count, 0), {"tensors", std::to_string(count)});
    expect_invalid(GgufBytes().header(0, count), {"keys", std::to_string(count)});
  }
}

TEST(GgufBadFiles, Keys) {
  const auto one = [] { return GgufBytes().header(0, 1); };
  const std::string rest(20, 'x');
  expect_invalid(one().u64(~0ull).raw(rest), {"key 0", "18446744073709551615", "left"});
  expect_invalid(one().u64(21).raw(rest), {"key 0", "21", "20"});
  expect_invalid(one().key_u32("", 1).raw(rest), {"key 0", "empty"});
  expect_invalid(one().key_u32(std::string_view("a\0b", 3), 1), {"key 0", "a\\x00b"});
  expect_invalid(one().key_u32("a\nb", 1), {"key 0", "a\\x0ab"});
  expect_invalid(one().key_u32(std::string(65536, 'k'), 1), {"key 0", "65536"});
  EXPECT_TRUE(parse(one().key_u32(std::string(65535, 'k'), 1).bytes())
                  ->metadata()
                  .contains(std::string(65535, 'k')));
  expect_invalid(one().string("k").u32(13).u64(0), {"'k'", "type 13"});
  expect_invalid(one().string("k").u32(~0u).u64(0), {"'k'", "type 4294967295"});
  expect_invalid(GgufBytes().header(0, 2).key_u32("k", 1).key_u32("k", 2), {"'k'", "twice"});
  expect_invalid(one().string("k").u32(7).number<std::uint8_t>(2), {"'k'", "bool", "2"});
  expect_invalid(one().string("k").u32(10).u32(0), {"'k'", "cut off"});
  expect_invalid(one().string("k").u32(8).u64(1000), {"'k'", "1000"});
}

TEST(GgufBadFiles, Arrays) {
  const auto array = [](std::uint32_t type, std::uint64_t count) {
    return GgufBytes().header(0, 1).string("k").u32(9).u32(type).u64(count);
  };
  for (const std::uint32_t type : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 10u, 11u, 12u}) {
    EXPECT_EQ(parse(array(type, 0).bytes())->metadata().find("k")->array_size(), 0);
    for (const std::uint64_t count :
         {1ull, 1ull << 32, 1ull << 60, 1ull << 61, 1ull << 62, 1ull << 63, ~0ull}) {
      expect_invalid(array(type, count), {"'k'", std::to_string(count)});
    }
  }
  expect_invalid(array(8, 1).u64(1), {"'k'", "string of 1 bytes"});
  expect_invalid(array(8, 2).string("12345678").u64(9), {"'k'", "string of 9 bytes"});
  expect_invalid(array(9, 1).u32(4).u64(1).u32(1), {"'k'", "arrays of arrays"});
  expect_invalid(array(13, 1).u64(0), {"'k'", "type 13"});
  expect_invalid(array(7, 2).number<std::uint8_t>(1).number<std::uint8_t>(3), {"'k'", "bool"});
}

TEST(GgufBadFiles, Alignment) {
  for (const std::uint32_t alignment : {0u, 3u, 33u, 1u << 31, ~0u}) {
    expect_invalid(GgufBytes().header(0, 1).key_u32("general.alignment", alignment),
                   {"general.alignment", std::to_string(alignment), "power of two"});
  }
  expect_invalid(GgufBytes().header(0, 1).string("general.alignment").u32(10).u64(32),
                 {"general.alignment", "u32", "u64"});
  expect_invalid(GgufBytes().header(0, 1).key_string("general.alignment", "32"),
                 {"general.alignment", "u32", "string"});
}

TEST(GgufBadFiles, Tensors) {
  const auto one = [] { return GgufBytes().header(1, 0); };
  const std::string rest(64, 'x');
  expect_invalid(one().u64(~0ull).raw(rest), {"tensor 0", "18446744073709551615"});
  expect_invalid(one().tensor("", {4}, kF32, 0).data(64), {"tensor 0", "empty"});
  expect_invalid(one().tensor(std::string(65, 'n'), {4}, kF32, 0), {"tensor 0", "65", "64"});
  expect_invalid(one().tensor(std::string_view("a\0b", 3), {4}, kF32, 0), {"a\\x00b"});
  expect_invalid(one().string("a").u32(0).u32(kF32).u64(0).data(64), {"'a'", "dimensions is 0"});
  for (const std::uint32_t dimensions : {5u, 1u << 31, ~0u}) {
    expect_invalid(one().string("a").u32(dimensions).raw(rest),
                   {"'a'", "dimensions", std::to_string(dimensions)});
  }
  expect_invalid(one().tensor("a", {4, 0}, kF32, 0), {"'a'", "dimension 1 is 0"});
  expect_invalid(one().tensor("a", {~0ull}, kF32, 0), {"'a'", "dimension 0 is -1"});
  expect_invalid(one().tensor("a", {1ull << 32, 1ull << 32}, kF32, 0), {"'a'", "too large"});
  expect_invalid(one().tensor("a", {1ull << 62, 4}, 24, 0), {"'a'", "too large"});
  expect_invalid(one().tensor("a", {1ull << 62}, 27, 0), {"'a'", "size in bytes"});
  expect_invalid(one().tensor("a", {4, 1073741823, 1073741825}, kF32, 0), {"'a'", "too large"});
  expect_invalid(one().tensor("a", {0x7fffffffffffffc0}, 24, 0).pad().data(32), {"'a'", "cut off"});
  for (const std::uint32_t type : {4u, 5u, 31u, 36u, 43u, 1000u, ~0u}) {
    expect_invalid(one().tensor("a", {4}, type, 0), {"'a'", "type " + std::to_string(type)});
  }
  expect_invalid(one().tensor("a", {255}, kQ4K, 0), {"'a'", "255", "256", "Q4_K"});
  expect_invalid(one().tensor("a", {128, 2}, kQ4K, 0), {"'a'", "128", "256"});
  expect_invalid(one().tensor("a", {33}, 2, 0), {"'a'", "33", "Q4_0"});
  expect_invalid(
      GgufBytes().header(2, 0).tensor("a", {4}, kF32, 0).tensor("a", {4}, kF32, 32).pad().data(48),
      {"'a'", "twice"});
}

TEST(GgufBadFiles, Placement) {
  const auto two = [](std::uint64_t first, std::uint64_t second, std::size_t data_bytes) {
    return GgufBytes()
        .header(2, 0)
        .tensor("a", {4}, kF32, first)
        .tensor("b", {4}, kF32, second)
        .pad()
        .data(data_bytes);
  };
  EXPECT_EQ(parse(two(0, 32, 48).bytes())->tensors().size(), 2u);
  expect_invalid(two(1, 32, 48), {"'a'", "offset", "1", "expected 0"});
  expect_invalid(two(0, 33, 64), {"'b'", "offset", "33", "expected 32"});
  expect_invalid(two(0, 16, 48), {"'b'", "offset", "16"});    // packed without alignment
  expect_invalid(two(0, 0, 48), {"'b'", "offset", "0"});      // overlap
  expect_invalid(two(32, 0, 48), {"'a'", "offset", "32"});    // in another order
  expect_invalid(two(0, 64, 100), {"'b'", "offset", "64"});   // a hole
  expect_invalid(two(0, ~0ull - 31, 48), {"'b'", "offset"});  // negative
  expect_invalid(two(0, 1ull << 62, 48), {"'b'", "offset"});  // far beyond the end
  expect_invalid(two(0, 32, 47), {"'b'", "cut off"});
  expect_invalid(two(0, 32, 32), {"'b'", "cut off", "has 0"});
  expect_invalid(two(0, 32, 0), {"'a'", "cut off"});
  GgufBytes no_padding;  // the file ends before the data begin
  no_padding.header(1, 0).tensor("a", {4}, kF32, 0);
  expect_invalid(no_padding, {"'a'", "cut off", "has 0"});
}

TEST(Gguf, ReadsARealModel) {
  const std::string path = NIBBLE_SOURCE_DIR "/../shared/models/stories260K/stories260Ktok512.gguf";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is missing";
  }
  const auto file = GgufFile::open(path);
  EXPECT_EQ(file->tensors().size(), 48u);
  EXPECT_EQ(file->metadata().values().size(), 19u);
  EXPECT_EQ(file->metadata().get_string("general.architecture"), "llama");
  EXPECT_EQ(file->metadata().get_integer("llama.embedding_length", 1, 1 << 20), 64);
  EXPECT_EQ(file->metadata().get_strings("tokenizer.ggml.tokens").size(), 512u);
  EXPECT_EQ(file->entry("token_embd.weight").offset, 14176);
  EXPECT_EQ(file->entry("token_embd.weight").shape, (core::Shape{512, 64}));
  for (const GgufTensor& entry : file->tensors()) {
    const core::Tensor tensor = file->tensor(entry.name);
    for (const float value : core::to_float32(tensor)) {
      ASSERT_TRUE(std::isfinite(value)) << entry.name;
    }
  }
}

TEST(Gguf, ReadsVocabulariesOfOtherModels) {
  const std::filesystem::path folder =
      NIBBLE_SOURCE_DIR "/../shared/data/tokenizers/llama.cpp-vocab";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << folder << " is missing";
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") {
      const auto file = GgufFile::open(entry.path());
      EXPECT_FALSE(file->metadata().get_strings("tokenizer.ggml.tokens").empty()) << entry.path();
      ++files;
    }
  }
  EXPECT_GE(files, 1);
}

}  // namespace
}  // namespace nibble::io
