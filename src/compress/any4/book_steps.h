#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/backend/backend.h"
#include "core/threads.h"
#include "formats/format.h"

namespace nibble::compress {

/// How much a squared error counts while a book is learned.
enum class BookWeights {
  kExact,  // E[x^2] scale^2: what the error costs at the layer's output, when inputs don't
           // correlate
  kRoot,   // sqrt(E[x^2]) |scale|: first powers, as in arXiv 2507.04610, section 3.2, which takes
           // the mean of x where this takes the root mean square
};

/// A layer whose books are wanted.
struct BookProblem {
  std::span<const float> weights;  // [n, k]
  std::int64_t n = 0;
  std::int64_t k = 0;
  formats::Scheme scheme;
  std::span<const float> mean_squares;  // [k]
  BookWeights kind = BookWeights::kExact;
};

/// The steps that learning books is made of. They know the scale of each group of each row, which
/// fit_largest() and fit_scales() set. `books` has book_size() values for each of `rows`, or for
/// all of them.
class BookSteps {
 public:
  virtual ~BookSteps() = default;

  /// With the scale of a group its element of largest magnitude becomes 1. Of block-sparse rows
  /// groups of zeros, which are pruned, get the scale 0, which stays, and count nowhere. Throws
  /// kInvalidModel for weights that are not finite.
  virtual void fit_largest() = 0;

  /// The books of rows: exact weighted k-means of their scaled weights (kmeans.h).
  virtual std::vector<float> learn(std::span<const std::int64_t> rows) = 0;

  /// What each of the rows loses with its book: sum of E[x^2] (w - decoded)^2.
  virtual std::vector<double> losses(std::span<const std::int64_t> rows,
                                     std::span<const float> books) = 0;

  /// New scales for the groups of the rows where they lose less (GroupSearch::search_from); what
  /// the rows lose then.
  virtual std::vector<double> fit_scales(std::span<const std::int64_t> rows,
                                         std::span<const float> books, int steps) = 0;

  /// [n, groups of a row].
  virtual std::vector<formats::GroupParameters> groups() = 0;
};

/// What the problem points to must outlive the result.
std::unique_ptr<BookSteps> make_cpu_book_steps(const BookProblem& problem, core::ThreadPool& pool);

/// On the backend's GPU where books_run_on_gpu() and rows are not too long for it, else on its
/// threads.
std::unique_ptr<BookSteps> make_book_steps(const BookProblem& problem, const Backend& backend);

/// Whether GPUs learn the books of the scheme.
bool books_run_on_gpu(const formats::Scheme& scheme);

}  // namespace nibble::compress
