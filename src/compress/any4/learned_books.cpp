#include "compress/any4/learned_books.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compress/any4/book_values.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kBins = 1 << 16;  // a book for a matrix is learned from a histogram
constexpr double kLeastGain = 1e-3;      // of the loss, for another round

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

std::vector<std::int64_t> all_rows(std::int64_t n) {
  std::vector<std::int64_t> rows(index(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// A book for each row. Rows go through the rounds together; each leaves when it gains too little.
std::vector<float> learn_rows(BookSteps& steps, std::int64_t n, std::int64_t book_size,
                              const BookOptions& options) {
  std::vector<std::int64_t> rows = all_rows(n);
  std::vector<float> best = steps.learn(rows);  // of all rows
  std::vector<double> reached = steps.losses(rows, best);
  const auto book_of = [&](std::vector<float>& books, std::int64_t i) {
    return books.begin() + i * book_size;
  };
  for (int round = 0; round < options.rounds && !rows.empty(); ++round) {
    std::vector<float> books(rows.size() * index(book_size));
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
      std::copy_n(book_of(best, rows[index(i)]), book_size, book_of(books, i));
    }
    // Only the first round looks far away.
    const auto fitted = steps.fit_scales(rows, books, round == 0 ? options.steps : 0);
    std::vector<float> next = steps.learn(rows);
    const auto now = steps.losses(rows, next);
    std::vector<std::int64_t> left;
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
      const std::int64_t row = rows[index(i)];
      if (now[index(i)] < fitted[index(i)]) {
        std::copy_n(book_of(next, i), book_size, book_of(best, row));
      }
      const double least = std::min(now[index(i)], fitted[index(i)]);
      if (least < reached[index(row)] * (1 - kLeastGain)) {
        left.push_back(row);
      }
      reached[index(row)] = least;
    }
    rows = std::move(left);
  }
  return best;
}

// Points of all rows in bins of equal width, each at its centre of weight: the same for any
// number of threads, and sorted.
std::vector<float> matrix_book(const BookProblem& problem,
                               std::span<const formats::GroupParameters> groups) {
  double limit = 0;
  for (std::int64_t row = 0; row < problem.n; ++row) {
    for_each_point(problem, groups, row, [&](const WeightedPoint& point) {
      limit = std::max(limit, std::abs(point.value));
    });
  }
  std::vector<WeightedPoint> bins(kBins);  // value holds the sum of weight * value
  for (std::int64_t row = 0; row < problem.n; ++row) {
    for_each_point(problem, groups, row, [&](const WeightedPoint& point) {
      const double place = limit > 0 ? (point.value / limit + 1) / 2 : 0.5;
      WeightedPoint& bin = bins[index(std::min<std::int64_t>(
          kBins - 1, static_cast<std::int64_t>(place * static_cast<double>(kBins))))];
      bin.weight += point.weight;
      bin.value += point.weight * point.value;
    });
  }
  for (WeightedPoint& bin : bins) {
    bin.value = bin.weight > 0 ? bin.value / bin.weight : 0;
  }
  KMeans kmeans;
  return book_values(kmeans.centres(bins, static_cast<int>(formats::book_size(problem.scheme))));
}

// One book for all rows.
std::vector<float> learn_matrix(BookSteps& steps, const BookProblem& problem,
                                const BookOptions& options) {
  const std::vector<std::int64_t> rows = all_rows(problem.n);
  const auto sum = [](const std::vector<double>& losses) {
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  };
  std::vector<float> best = matrix_book(problem, steps.groups());
  for (int round = 0; round < options.rounds; ++round) {
    const double fitted = sum(steps.fit_scales(rows, best, round == 0 ? options.steps : 0));
    std::vector<float> next = matrix_book(problem, steps.groups());
    if (sum(steps.losses(rows, next)) >= fitted) {
      break;
    }
    best = std::move(next);
  }
  return best;
}

// Puts 0 in the place of the value of each book that is nearest to it.
void take_zero(std::span<float> books, std::int64_t book_size) {
  for (std::size_t book = 0; book < books.size(); book += index(book_size)) {
    const std::span<float> values = books.subspan(book, index(book_size));
    *std::min_element(values.begin(), values.end(),
                      [](float a, float b) { return std::abs(a) < std::abs(b); }) = 0.0f;
  }
}

}  // namespace

Parameters learn_books(std::span<const float> weights, std::int64_t n, std::int64_t k,
                       const formats::Scheme& scheme, std::span<const float> mean_squares,
                       const BookOptions& options, const Backend& backend) {
  const BookProblem problem{weights, n, k, scheme, mean_squares, options.weights};
  const std::unique_ptr<BookSteps> steps = make_book_steps(problem, backend);
  steps->fit_largest();
  Parameters parameters;
  parameters.books = scheme.code.book == formats::Book::kPerRow
                         ? learn_rows(*steps, n, formats::book_size(scheme), options)
                         : learn_matrix(*steps, problem, options);
  for (float& value : parameters.books) {
    value = core::to_float(core::to_fp16(value));  // as it is stored; codes are chosen with it
  }
  if (options.exact_zero) {
    take_zero(parameters.books, formats::book_size(scheme));
  }
  parameters.groups = steps->groups();
  return parameters;
}

}  // namespace nibble::compress
