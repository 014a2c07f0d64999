#pragma once

#include <cstddef>

namespace nibble::io {

/// Bytes that operator new was ever asked for in this process, given back or not. Linking
/// allocation_counter_for_tests.cpp replaces operator new by one that counts.
std::size_t allocated_bytes();

}  // namespace nibble::io
