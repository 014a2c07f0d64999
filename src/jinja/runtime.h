#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"

namespace nibble::jinja {

/// A place in the template's source; both count from 1, columns in bytes.
struct Position {
  std::int32_t line = 1;
  std::int32_t column = 1;
};

/// Throws kInvalidModel with the place in front of the message.
template <typename... Args>
[[noreturn]] void fail_at(Position at, fmt::format_string<Args...> format, Args&&... args) {
  core::fail(core::ErrorKind::kInvalidModel, "chat template line {}, column {}: {}", at.line,
             at.column, fmt::format(format, std::forward<Args>(args)...));
}

/// Counts a level of recursion while the object lives; refuses more than `most`.
class DepthGuard {
 public:
  DepthGuard(int& depth, int most, Position at, std::string_view what);
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int& depth_;
};

/// What one rendering has left to spend, and where in the template it stands. Everything that works
/// or allocates in proportion to its input pays here first.
class Runtime {
 public:
  Runtime(std::int64_t input_bytes, std::int64_t now_unix_seconds);

  /// Says which part of the template the following work belongs to.
  void at(Position position) { position_ = position; }
  Position position() const { return position_; }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(position_, format, std::forward<Args>(args)...);
  }

  template <typename... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    core::refuse_strings_made_for_the_call<Args...>();
    if (!condition) [[unlikely]] {
      fail_at(position_, format, std::forward<Args>(args)...);
    }
  }

  /// Pays for `count` units of work; throws kInvalidModel when the template has used up its share.
  void step(std::int64_t count = 1);

  /// Pays for reading `bytes` of text.
  void scan(std::size_t bytes) { step(1 + static_cast<std::int64_t>(bytes / 16)); }

  /// Pays for `bytes` of memory that are about to be made.
  void grow(std::size_t bytes);

  std::int64_t now() const { return now_unix_seconds_; }

  /// Keeps an object alive until the rendering ends, for values that point to it without owning it.
  void keep(std::shared_ptr<void> object) { kept_.push_back(std::move(object)); }

 private:
  Position position_;
  std::int64_t steps_left_;
  std::int64_t bytes_left_;
  std::int64_t now_unix_seconds_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace nibble::jinja
