#pragma once

#include <span>

#include "compress/any4/book_steps.h"
#include "compress/backend/backend.h"
#include "compress/coding/coded_weight.h"
#include "formats/scheme.h"

namespace nibble::compress {

struct BookOptions {
  BookWeights weights = BookWeights::kExact;
  int rounds = 3;  // times that the scales follow the books; 0: scales of the largest weights
  int steps = 8;   // ranges tried for the scale of each group in the first round
  bool exact_zero = false;  // the value of each book that is nearest to 0 becomes 0: for weights
                            // that are pruned
};

/// any4 (arXiv 2507.04610) without zero points: w = scale * book[code], 2^bits learned values (16,
/// 8 or 4) for each row (Book::kPerRow) or for the matrix (kPerMatrix). The scale of a group starts
/// as its element of largest magnitude, with its sign. The book is the exact weighted k-means of
/// the scaled weights. Then scales and book follow one another; each step is kept only where it
/// loses less. Of block-sparse rows groups of zeros get the scale 0, so that they are not stored,
/// and books are learned of the others alone. weights [n, k]; mean_squares [k].
Parameters learn_books(std::span<const float> weights, std::int64_t n, std::int64_t k,
                       const formats::Scheme& scheme, std::span<const float> mean_squares,
                       const BookOptions& options, const Backend& backend);

}  // namespace nibble::compress
