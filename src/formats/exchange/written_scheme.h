#pragma once

#include <cstdint>
#include <string>

#include "formats/scheme.h"

namespace nibble::formats::exchange {

/// Integers of `bits` in groups of `group` (0: whole rows) with float16 scales.
Scheme integer_scheme(int bits, std::int64_t group, Zero zero);

/// The groups that layers of another scheme get: their own, but of at least 32 inputs where codes
/// are chosen anew anyhow: those of books, and integers with other scales or with minima.
std::int64_t written_group(const Scheme& scheme);

/// The end of a message where groups do not divide rows of k inputs, which tools take for granted;
/// empty: they do.
std::string problem_of_groups(const Scheme& scheme, std::int64_t k);

/// "group_size" of configurations: -1 for whole rows.
std::int64_t written_group_size(const Scheme& scheme);

}  // namespace nibble::formats::exchange
