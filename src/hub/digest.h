#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace nibble::hub {

/// The checksum by which the hub names a file, over bytes that come one after another: SHA-256 of
/// a large one (64 digits), SHA-1 of git's blob, "blob SIZE\0" and the bytes, of a small one (40).
class Digest {
 public:
  /// For a file of `size` bytes whose checksum is `expected`. Throws kIntegrity where that is
  /// neither.
  Digest(std::string_view expected, std::int64_t size);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void reset();
  void add(std::string_view bytes);
  /// Hexadecimal digits. Once; then reset().
  std::string finish();

  /// Whether it could be one of the two.
  static bool is_checksum(std::string_view text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nibble::hub
