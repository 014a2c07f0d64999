#pragma once

#include <cstddef>
#include <cstdint>

namespace nibble::io {

/// Bytes that operator new was ever asked for in this process, given back or not. Linking
/// allocation_counter_for_tests.cpp replaces operator new by one that counts.
std::size_t allocated_bytes();

/// The allocation after `count` more is refused, once; negative: none is.
void refuse_allocation_after(std::int64_t count);
/// Whether one is still to be refused.
bool refusal_is_pending();

}  // namespace nibble::io
