#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::eval {

/// Texts of `predicted` against those of `gold`, one for one; throws kUsage when the lists differ
/// in length or are empty.

/// Share of texts that are the same, byte for byte.
double exact_match(std::span<const std::string> predicted, std::span<const std::string> gold);

/// Words to insert, delete or replace to turn the predictions into the true texts (Levenshtein),
/// over the number of true words; may exceed 1. Words are what ASCII white space separates; nothing
/// is normalized. Throws kUsage when the true texts hold no word.
double word_error_rate(std::span<const std::string> predicted, std::span<const std::string> gold);

/// The Levenshtein distance of two lists of words.
std::int64_t edit_distance(std::span<const std::string_view> a,
                           std::span<const std::string_view> b);

}  // namespace nibble::eval
