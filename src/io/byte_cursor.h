#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/error.h"

namespace nibble::io {

/// Reads little-endian values from bytes that nobody has checked. Every read is checked against
/// what remains; a failure throws kInvalidModel: "<what>: <place>, byte <offset>: ...".
class ByteCursor {
 public:
  ByteCursor(std::span<const std::byte> bytes, std::string_view what)
      : bytes_(bytes), what_(what) {}

  /// What is being read, for messages: "version", "tensor 3", "value of 'general.name'". Texts are
  /// viewed until the next call.
  void set_place(std::string_view what) { place_ = {what, std::nullopt, std::nullopt}; }
  void set_place(std::string_view what, std::int64_t number) {
    place_ = {what, number, std::nullopt};
  }
  void set_place(std::string_view what, std::string_view name) {
    place_ = {what, std::nullopt, name};
  }

  std::int64_t position() const { return static_cast<std::int64_t>(position_); }
  std::int64_t remaining() const { return static_cast<std::int64_t>(bytes_.size() - position_); }

  template <typename T>
  requires std::is_arithmetic_v<T> T read() {
    static_assert(std::endian::native == std::endian::little);
    T value = {};
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }

  /// A u64 length and that many bytes.
  std::string_view read_string() {
    const auto length = read<std::uint64_t>();
    require(length <= static_cast<std::uint64_t>(remaining()),
            "a string of {} bytes is longer than the {} bytes that are left", length, remaining());
    return {reinterpret_cast<const char*>(take(static_cast<std::size_t>(length))),
            static_cast<std::size_t>(length)};
  }

  /// `count` values of at least `bytes_each` bytes: throws unless that many bytes remain. The check
  /// to make before any allocation by a count from the file.
  std::int64_t checked_count(std::uint64_t count, std::int64_t bytes_each,
                             std::string_view of) const {
    require(count <= static_cast<std::uint64_t>(remaining() / bytes_each),
            "{} {} cannot be in the {} bytes that are left", count, of, remaining());
    return static_cast<std::int64_t>(count);
  }

  template <typename... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    core::refuse_strings_made_for_the_call<Args...>();
    if (!condition) [[unlikely]] {
      core::fail(core::ErrorKind::kInvalidModel, "{}: {}, byte {}: {}", what_, place(), position_,
                 fmt::format(format, std::forward<Args>(args)...));
    }
  }

 private:
  struct Place {
    std::string_view what;
    std::optional<std::int64_t> number;
    std::optional<std::string_view> name;
  };

  std::string place() const {
    std::string text(place_.what);
    text += place_.number ? fmt::format(" {}", *place_.number) : "";
    text += place_.name ? fmt::format(" '{}'", core::printable(*place_.name)) : "";
    return text;
  }

  const std::byte* take(std::size_t count) {
    require(count <= bytes_.size() - position_,
            "the file ends here, {} more bytes are needed (is it cut off?)",
            count - (bytes_.size() - position_));
    const std::byte* at = bytes_.data() + position_;
    position_ += count;
    return at;
  }

  std::span<const std::byte> bytes_;
  std::string_view what_;
  Place place_;
  std::size_t position_ = 0;
};

}  // namespace nibble::io
