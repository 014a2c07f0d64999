#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nibble::core {

/// Bytes of a size as people write it: a positive number, with a fraction if need be, and a unit.
/// K, M, G, T and KiB, MiB, GiB, TiB are powers of 1024; kB (KB), MB, GB, TB powers of 1000; B or
/// nothing are bytes ("6GiB", "500MB", "1.5G"). `option` names the place in the message. Throws
/// kUsage for everything else, and for less than a byte or more than 2^62.
std::int64_t parse_byte_size(std::string_view text, std::string_view option);

/// The size in the largest binary unit of which it is at least one: "1.5 GiB", "300 B".
std::string format_byte_size(std::int64_t bytes);

}  // namespace nibble::core
