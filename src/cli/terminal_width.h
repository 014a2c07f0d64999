#pragma once

#include <cstddef>
#include <optional>

namespace nibble::cli {

/// Columns that text which is no terminal's is made for.
inline constexpr std::size_t kPageColumns = 100;

/// Columns of the terminal that `descriptor` is, as it is now; nullopt when it is none. 80 for one
/// that does not say.
std::optional<std::size_t> terminal_columns(int descriptor);

}  // namespace nibble::cli
