#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nibble::core {

/// XXH64 with seed 0 (Yann Collet; github.com/Cyan4973/xxHash, doc/xxhash_spec.md): tells contents
/// apart that differ by accident. No protection from somebody who wants a collision.
std::uint64_t hash64(std::span<const std::byte> bytes);

}  // namespace nibble::core
