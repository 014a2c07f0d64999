#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nibble::core {

/// SipHash-1-3 (Aumasson and Bernstein 2012) under the given key.
std::uint64_t siphash13(std::string_view text, std::uint64_t key_low, std::uint64_t key_high);

/// For hash tables whose keys come from files or clients: under a key that the process draws at
/// random, so that nobody can choose many texts with one hash. std::hash has no key, and texts
/// with equal hashes are found in no time. The order in such a table differs from run to run.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const;
};

}  // namespace nibble::core
