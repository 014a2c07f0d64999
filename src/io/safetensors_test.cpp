#include "io/safetensors.h"

#include <cstring>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "core/json.h"
#include "io/temporary_folder_for_tests.h"
#include "io/text_file.h"

namespace nibble::io {
namespace {

using core::DType;
using core::ErrorKind;
using core::Tensor;

// A file with that header and `data_bytes` bytes 0, 1, 2, ...
std::string file_of(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file += header;
  for (std::size_t i = 0; i < data_bytes; ++i) {
    file += static_cast<char>(i);
  }
  return file;
}

std::shared_ptr<const SafetensorsFile> parse(std::string_view bytes) {
  const HeapBytes heap(bytes);
  return SafetensorsFile::parse("x.safetensors", heap.span, heap.memory);
}

void expect_invalid(std::string_view file, std::vector<std::string> parts) {
  parts.emplace_back("x.safetensors");
  expect_error(ErrorKind::kInvalidModel, parts, [&] { parse(file); });
}

TEST(Safetensors, ReadsAFileByHand) {
  const auto file = parse(file_of(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2,2],"data_offsets":[4,8]},)"
      R"("a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}   )",
      8));
  EXPECT_EQ(file->names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->data_bytes(), 8);
  const Tensor a = file->tensor("a");
  EXPECT_EQ(a.shape(), core::Shape{2});
  EXPECT_EQ(a.data<std::int16_t>()[1], 0x0302);
  const Tensor b = file->tensor("b");
  EXPECT_EQ(b.shape(), (core::Shape{2, 2}));
  EXPECT_EQ(b.data<std::uint8_t>()[3], 7);
  EXPECT_TRUE(file->contains("a"));
  EXPECT_FALSE(file->contains("c"));
  expect_error(ErrorKind::kInvalidModel, {"x.safetensors", "no tensor 'c'"},
               [&] { file->tensor("c"); });
}

TEST(Safetensors, ReadsWhatHasNoElementsAndNoDimensions) {
  const auto file = parse(file_of(R"({"none":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]},)"
                                  R"("one":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                                  R"("end":{"dtype":"F32","shape":[0],"data_offsets":[1,1]}})",
                                  1));
  EXPECT_EQ(file->tensor("none").elements(), 0);
  EXPECT_EQ(file->tensor("one").elements(), 1);
  EXPECT_EQ(file->tensor("end").elements(), 0);
  EXPECT_EQ(parse(file_of("{}", 0))->names().size(), 0u);
}

TEST(Safetensors, CopiesUnalignedTensors) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.safetensors",
                                 file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                         R"("b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})",
                                         9));
  const Tensor b = SafetensorsFile::open(path)->tensor("b");
  std::uint32_t bits = 0;
  std::memcpy(&bits, b.data<float>().data(), sizeof(bits));
  EXPECT_EQ(bits, 0x04030201u);
}

TEST(Safetensors, RefusesTypesItCannotHoldOnlyWhenTheyAreLoaded) {
  for (const auto& [type, bytes] : {std::pair("F8_E4M3", 8),
                                    {"F8_E5M2", 8},
                                    {"F8_E8M0", 8},
                                    {"U16", 16},
                                    {"U32", 32},
                                    {"U64", 64},
                                    {"C64", 64},
                                    {"F4", 4},
                                    {"F6_E2M3", 6},
                                    {"F6_E3M2", 6}}) {
    const std::string header =
        fmt::format(R"({{"a":{{"dtype":"{}","shape":[2,4],"data_offsets":[0,{}]}}}})", type, bytes);
    const auto file = parse(file_of(header, static_cast<std::size_t>(bytes)));
    EXPECT_EQ(file->entry("a").type, type);
    expect_error(ErrorKind::kInvalidModel, {"x.safetensors", "'a'", type, "not supported"},
                 [&] { file->tensor("a"); });
  }
}

// The kinds of the reference's own tests, and those of its `attacks/`.
TEST(SafetensorsBadFiles, Lengths) {
  for (std::size_t size = 0; size < 8; ++size) {
    expect_invalid(std::string(size, '\0'), {"too few"});
  }
  expect_invalid(file_of("", 0), {"must begin with '{'"});
  std::string file = file_of("{}", 0);
  file[0] = 3;  // one byte more than there is
  expect_invalid(file, {"header length is 3", "2 bytes"});
  file[4] = 1;  // above 4 GiB
  expect_invalid(file, {"header length", "at most"});
  file[7] = static_cast<char>(0x80);  // above 2^63
  expect_invalid(file, {"header length", "at most"});
  const std::uint64_t one_too_many = kMaxSafetensorsHeaderBytes + 1;
  std::memcpy(file.data(), &one_too_many, sizeof(one_too_many));
  expect_invalid(file, {"100000001", "100000000"});
}

TEST(SafetensorsBadFiles, Json) {
  expect_invalid(file_of("{\"\xff\":1}", 0), {});
  expect_invalid(file_of("{", 0), {});
  expect_invalid(file_of("[]", 0), {"must begin with '{'"});
  expect_invalid(file_of(" {}", 0), {"must begin with '{'"});
  expect_invalid(file_of("{}x", 0), {});
  expect_invalid(file_of("{\"a\":" + std::string(1000000, '['), 0), {});
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  expect_invalid(file_of("{" + a + "," + a + "}", 1), {"'a'", "twice"});
  expect_invalid(
      file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
      {"'dtype'", "twice"});
  expect_invalid(file_of(R"({"__metadata__":[]})", 0), {"__metadata__"});
  expect_invalid(file_of(R"({"__metadata__":{"k":1}})", 0), {"__metadata__", "'k'"});
}

TEST(SafetensorsBadFiles, Entries) {
  const auto one = [](std::string_view entry, std::size_t data_bytes = 4) {
    return file_of(fmt::format(R"({{"a":{}}})", entry), data_bytes);
  };
  expect_invalid(one("1"), {"'a'", "object"});
  expect_invalid(one(R"({"shape":[1],"data_offsets":[0,4]})"), {"'a'", "'dtype'"});
  expect_invalid(one(R"({"dtype":"F32","data_offsets":[0,4]})"), {"'a'", "'shape'"});
  expect_invalid(one(R"({"dtype":"F32","shape":[1]})"), {"'a'", "'data_offsets'"});
  expect_invalid(one(R"({"dtype":3,"shape":[1],"data_offsets":[0,4]})"), {"'a'", "'dtype'"});
  expect_invalid(one(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})"), {"'a'", "F33"});
  expect_invalid(one(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})"), {"'a'", "'shape'"});
  expect_invalid(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), {"'shape'", "-1"});
  expect_invalid(one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})"), {"'shape'", "1.5"});
  expect_invalid(one(R"({"dtype":"F32","shape":["1"],"data_offsets":[0,4]})"), {"'shape'"});
  expect_invalid(one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})"),
                 {"'shape'", "18446744073709551615"});
  expect_invalid(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})"),
                 {"'a'", "too large"});
  expect_invalid(one(R"({"dtype":"F32","shape":[2305843009213693952],"data_offsets":[0,4]})"),
                 {"'a'", "too large"});
  expect_invalid(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})"), {"'data_offsets'"});
  expect_invalid(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})"), {"'data_offsets'"});
  expect_invalid(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"), {"'data_offsets'"});
  expect_invalid(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,9223372036854775808]})"),
                 {"'data_offsets'"});
  expect_invalid(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"),
                 {"'a'", "8 bytes", "hold 4"});
  expect_invalid(one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})", 1), {"whole bytes"});
}

TEST(SafetensorsBadFiles, Ranks) {
  const auto with_rank = [](int rank) {
    std::string shape = "1";
    for (int i = 1; i < rank; ++i) {
      shape += ",1";
    }
    return file_of(R"({"a":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]}})", 1);
  };
  EXPECT_EQ(parse(with_rank(8))->tensor("a").rank(), 8u);
  expect_invalid(with_rank(9), {"'shape' of tensor 'a' holds 9 numbers, at most 8"});
}

TEST(SafetensorsBadFiles, Coverage) {
  const auto two = [](int a_begin, int a_end, int b_begin, int b_end, std::size_t data_bytes) {
    return file_of(fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                               R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                               a_end - a_begin, a_begin, a_end, b_end - b_begin, b_begin, b_end),
                   data_bytes);
  };
  EXPECT_EQ(parse(two(0, 4, 4, 8, 8))->names().size(), 2u);
  expect_invalid(two(1, 4, 4, 8, 8), {"'a'", "data_offsets", "hole"});
  expect_invalid(two(0, 4, 5, 8, 8), {"'b'", "data_offsets", "hole"});
  expect_invalid(two(0, 4, 3, 8, 8), {"'b'", "data_offsets", "overlaps"});
  expect_invalid(two(0, 4, 0, 4, 4), {"'b'", "data_offsets", "overlaps"});
  expect_invalid(two(0, 4, 4, 8, 7), {"'b'", "cut off"});
  expect_invalid(two(0, 4, 4, 8, 0), {"'a'", "cut off"});
  expect_invalid(two(0, 4, 4, 8, 9), {"1 bytes", "no tensor"});
  expect_invalid(file_of("{}", 1), {"1 bytes", "no tensor"});
}

std::vector<NamedTensor> tensors_of_every_type() {
  std::vector<NamedTensor> tensors;
  unsigned char next = 1;
  for (const DType type : {DType::kF64, DType::kF32, DType::kI64, DType::kI32, DType::kF16,
                           DType::kBF16, DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    Tensor tensor = Tensor::zeros(type, {3, 2});
    for (std::int64_t i = 0; i < tensor.bytes(); ++i) {
      tensor.mutable_raw()[i] = static_cast<std::byte>(next++);
    }
    tensors.push_back({std::string(core::name_of(type)), tensor});
  }
  tensors.push_back({"none", Tensor::zeros(DType::kF32, {0, 5})});
  tensors.push_back({"single", Tensor::from<std::uint8_t>(std::vector<std::uint8_t>{9}, {})});
  return tensors;
}

void expect_same(const SafetensorsFile& file, const std::vector<NamedTensor>& tensors) {
  ASSERT_EQ(file.names().size(), tensors.size());
  for (const NamedTensor& named : tensors) {
    const Tensor read = file.tensor(named.name);
    ASSERT_EQ(read.dtype(), named.tensor.dtype()) << named.name;
    ASSERT_EQ(read.shape(), named.tensor.shape()) << named.name;
    EXPECT_EQ(std::memcmp(read.raw(), named.tensor.raw(), static_cast<std::size_t>(read.bytes())),
              0)
        << named.name;
  }
}

TEST(SafetensorsWriter, EveryTypeSurvivesTheRoundTrip) {
  const TemporaryFolder folder;
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"quote\"", "ü\n"}};
  const auto tensors = tensors_of_every_type();
  write_safetensors(folder / "x.safetensors", tensors, metadata);
  const auto file = SafetensorsFile::open(folder / "x.safetensors");
  expect_same(*file, tensors);
  EXPECT_EQ(file->metadata(), metadata);
  write_safetensors(folder / "y.safetensors", tensors, metadata);
  EXPECT_EQ(read_text_file(folder / "x.safetensors", 1 << 20),
            read_text_file(folder / "y.safetensors", 1 << 20));
}

TEST(SafetensorsWriter, WritesTheseBytes) {
  const TemporaryFolder folder;
  const std::vector<std::uint8_t> values = {1, 2, 3};
  const std::vector<NamedTensor> tensors = {{"a", Tensor::from<std::uint8_t>(values, {3})}};
  write_safetensors(folder / "x", tensors);
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_text_file(folder / "x", 1000), std::string(1, static_cast<char>(padded.size())) +
                                                    std::string(7, '\0') + padded + "\x01\x02\x03");
}

TEST(SafetensorsWriter, KeepsTheOrderUnlessATensorWouldBeUnaligned) {
  const TemporaryFolder folder;
  const Tensor bytes4 = Tensor::zeros(DType::kU8, {4});
  const Tensor bytes3 = Tensor::zeros(DType::kU8, {3});
  const Tensor floats = Tensor::zeros(DType::kF32, {2});
  const Tensor halves = Tensor::zeros(DType::kF16, {3});
  write_safetensors(folder / "x", std::vector<NamedTensor>{{"b", bytes4}, {"a", floats}});
  EXPECT_EQ(SafetensorsFile::open(folder / "x")->names(), (std::vector<std::string>{"b", "a"}));
  write_safetensors(folder / "x", std::vector<NamedTensor>{
                                      {"b", bytes3}, {"h", halves}, {"z", floats}, {"a", floats}});
  const auto file = SafetensorsFile::open(folder / "x");
  EXPECT_EQ(file->names(), (std::vector<std::string>{"z", "a", "h", "b"}));
  for (const std::string& name : file->names()) {
    const auto& entry = file->entry(name);
    EXPECT_EQ(entry.offset % core::size_of(*find_dtype(entry.type)), 0) << name;
  }
}

TEST(SafetensorsWriter, RefusesNamesThatCannotBeStored) {
  const TemporaryFolder folder;
  const Tensor x = Tensor::zeros(DType::kU8, {1});
  const auto write = [&](const std::vector<NamedTensor>& tensors) {
    write_safetensors(folder / "x", tensors);
  };
  expect_error(ErrorKind::kFailed, {"'a'", "twice"}, [&] { write({{"a", x}, {"a", x}}); });
  expect_error(ErrorKind::kFailed, {"__metadata__"}, [&] { write({{"__metadata__", x}}); });
  expect_error(ErrorKind::kFailed, {"UTF-8"}, [&] { write({{"\xff", x}}); });
  EXPECT_TRUE(folder.entries().empty());
}

TEST(Safetensors, TensorsKeepTheMappingAliveAndReportTruncation) {
  const TemporaryFolder folder;
  std::vector<float> values(10000);
  std::iota(values.begin(), values.end(), 0.0f);
  write_safetensors(folder / "x",
                    std::vector<NamedTensor>{{"a", Tensor::from<float>(values, {10000})}});
  auto file = SafetensorsFile::open(folder / "x");
  const Tensor a = file->tensor("a");
  file->release("a");
  EXPECT_EQ(a.data<float>()[9999], 9999.0f);
  std::filesystem::resize_file(folder / "x", 5000);
  expect_error(ErrorKind::kIo, {"lost bytes"}, [&] { file->tensor("a"); });
  file.reset();
  EXPECT_EQ(a.data<float>()[100], 100.0f);
}

}  // namespace
}  // namespace nibble::io
