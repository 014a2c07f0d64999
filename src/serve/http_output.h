#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "serve/body_source.h"

namespace nibble::serve {

/// What a connection has to write: bytes, and a body that is made as the client takes it. Knows no
/// sockets.
class HttpOutput {
 public:
  void append(std::string_view bytes) { pending_ += bytes; }
  /// Comes behind the bytes, in chunks (RFC 9112) or as it is. Nothing may be appended before it
  /// has ended.
  void append(std::shared_ptr<BodySource> source, bool chunked);
  bool has_source() const { return source_ != nullptr; }

  /// The bytes to be written next, the same until they are taken; empty where there is nothing just
  /// now.
  std::string_view front();
  void take(std::size_t bytes);
  void clear();

  /// Bytes that were not taken.
  std::size_t size() const { return pending_.size() + current_.size() - at_; }
  /// The same, with what is kept to make more of them.
  std::size_t held_bytes() const { return size() + (source_ ? source_->held_bytes() : 0); }
  /// Bytes that were taken since the beginning.
  std::uint64_t taken() const { return taken_; }

 private:
  void make_more();

  std::string pending_;
  std::string current_;
  std::size_t at_ = 0;  // of current_
  std::shared_ptr<BodySource> source_;
  bool chunked_ = false;
  std::uint64_t taken_ = 0;
};

/// A part of a body in chunks; nothing for an empty one, which would end it.
std::string chunk_of(std::string_view part);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace nibble::serve
