#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace nibble::core {

/// The candidate that `name` was most likely meant to be, or nothing: the one with the fewest
/// edits (a letter inserted, removed or replaced, or two neighbours swapped), where those are at
/// most `most` and a third of the longer word (but one always may be); or else one that begins with
/// `name` or that `name` begins with. Capitals count as small letters, underscores as hyphens. Of
/// equals the first.
std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates,
                              std::size_t most = 8);

/// "; did you mean 'gptq'?" behind what refuses a name, or nothing.
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

}  // namespace nibble::core
