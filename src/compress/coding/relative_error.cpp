#include "compress/coding/relative_error.h"

#include <numeric>

namespace nibble::compress {

// Summed row by row, then over the rows.
double relative_error(const std::vector<float>& target, const formats::PackedWeight& packed,
                      core::ThreadPool& pool) {
  constexpr std::int64_t kRows = 16;  // of one task
  std::vector<double> errors(static_cast<std::size_t>(packed.n));
  std::vector<double> totals(errors.size());
  pool.parallel_for(packed.n, kRows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> row(static_cast<std::size_t>(packed.k));
    for (std::int64_t i = begin; i < end; ++i) {
      formats::decode_row(packed, i, row);
      for (std::int64_t j = 0; j < packed.k; ++j) {
        const double weight = target[static_cast<std::size_t>(i * packed.k + j)];
        const double difference = weight - row[static_cast<std::size_t>(j)];
        errors[static_cast<std::size_t>(i)] += difference * difference;
        totals[static_cast<std::size_t>(i)] += weight * weight;
      }
    }
  });
  const double total = std::accumulate(totals.begin(), totals.end(), 0.0);
  return total > 0 ? std::accumulate(errors.begin(), errors.end(), 0.0) / total : 0;
}

}  // namespace nibble::compress
