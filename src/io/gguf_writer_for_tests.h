#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::io {

/// Bytes of GGUF files for tests: right ones by default, wrong ones where a test changes a field.
class GgufBytes {
 public:
  template <typename T>
  GgufBytes& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  GgufBytes& u32(std::uint32_t value) { return number(value); }
  GgufBytes& u64(std::uint64_t value) { return number(value); }
  GgufBytes& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  GgufBytes& string(std::string_view text) { return u64(text.size()).raw(text); }

  GgufBytes& header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(tensors).u64(keys);
  }
  GgufBytes& key_u32(std::string_view key, std::uint32_t value) {
    return string(key).u32(4).u32(value);
  }
  GgufBytes& key_string(std::string_view key, std::string_view value) {
    return string(key).u32(8).string(value);
  }
  GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& extents,
                    std::uint32_t type, std::uint64_t offset) {
    string(name).u32(static_cast<std::uint32_t>(extents.size()));
    for (const std::uint64_t extent : extents) {
      u64(extent);
    }
    return u32(type).u64(offset);
  }
  GgufBytes& pad(std::size_t alignment = 32) {
    bytes_.append((alignment - bytes_.size() % alignment) % alignment, '\0');
    return *this;
  }
  GgufBytes& data(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      bytes_ += static_cast<char>(i % 100);
    }
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// A small valid file: keys of every type, a tensor of plain numbers and two of blocks.
inline std::string small_gguf() {
  GgufBytes file;
  file.header(3, 16);
  file.string("u8").u32(0).number<std::uint8_t>(200);
  file.string("i8").u32(1).number<std::int8_t>(-100);
  file.string("u16").u32(2).number<std::uint16_t>(60000);
  file.string("i16").u32(3).number<std::int16_t>(-30000);
  file.key_u32("u32", 4000000000u);
  file.string("i32").u32(5).number<std::int32_t>(-2000000000);
  file.string("f32").u32(6).number(1.5f);
  file.string("bool").u32(7).number<std::uint8_t>(1);
  file.key_string("string", "text");
  file.string("u64").u32(10).u64(~0ull);
  file.string("i64").u32(11).number<std::int64_t>(-5);
  file.string("f64").u32(12).number(2.5);
  file.string("strings").u32(9).u32(8).u64(2).string("one").string("");
  file.string("integers").u32(9).u32(5).u64(3).number(1).number(-2).number(3);
  file.string("numbers").u32(9).u32(6).u64(2).number(0.5f).number(-0.5f);
  file.string("bools").u32(9).u32(7).u64(2).number<std::uint8_t>(0).number<std::uint8_t>(1);
  file.tensor("plain", {4, 3}, 0, 0);   // F32, 48 bytes
  file.tensor("q4_0", {32, 2}, 2, 64);  // 36 bytes
  file.tensor("q6_k", {256}, 14, 128);  // 210 bytes
  return file.pad().data(64 + 64 + 210).bytes();
}

}  // namespace nibble::io
