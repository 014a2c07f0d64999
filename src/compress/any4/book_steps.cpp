#include "compress/any4/book_steps.h"

#include <algorithm>
#include <cmath>

#include "compress/any4/book_values.h"
#include "compress/any4/cuda_book_steps.h"
#include "compress/any4/kmeans.h"
#include "compress/coding/coded_weight.h"
#include "compress/coding/gpu_coder.h"
#include "compress/search/group_search.h"
#include "formats/fp16_scale.h"

namespace nibble::compress {
namespace {

using formats::GroupParameters;

constexpr std::int64_t kRows = 2;  // rows of one task

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

class CpuBookSteps final : public BookSteps {
 public:
  CpuBookSteps(const BookProblem& problem, core::ThreadPool& pool)
      : problem_(problem),
        pool_(pool),
        groups_of_row_(formats::groups_per_row(problem.scheme, problem.k)),
        book_size_(formats::book_size(problem.scheme)),
        groups_(index(problem.n * groups_of_row_)) {}

  void fit_largest() override {
    pool_.parallel_for(problem_.n, kRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        fit_largest(row);
      }
    });
  }

  std::vector<float> learn(std::span<const std::int64_t> rows) override {
    std::vector<float> books(rows.size() * index(book_size_));
    pool_.parallel_for(std::ssize(rows), kRows, [&](std::int64_t begin, std::int64_t end) {
      KMeans kmeans;
      std::vector<WeightedPoint> points;
      for (std::int64_t i = begin; i < end; ++i) {
        points.clear();
        for_each_point(problem_, groups_, rows[index(i)],
                       [&](const WeightedPoint& point) { points.push_back(point); });
        const auto book =
            book_values(points.empty() ? std::vector<double>(index(book_size_))
                                       : kmeans.centres(points, static_cast<int>(book_size_)));
        std::copy(book.begin(), book.end(), books.begin() + i * book_size_);
      }
    });
    return books;
  }

  std::vector<double> losses(std::span<const std::int64_t> rows,
                             std::span<const float> books) override {
    return sum_rows(rows, books, 0,
                    [](GroupSearch& search, const formats::Format& format, auto w, auto h,
                       const GroupParameters& group) { return search.loss(format, w, h, group); });
  }

  std::vector<double> fit_scales(std::span<const std::int64_t> rows, std::span<const float> books,
                                 int steps) override {
    return sum_rows(rows, books, steps,
                    [](GroupSearch& search, const formats::Format& format, auto w, auto h,
                       GroupParameters& group) {
                      const GroupFit fit = search.search_from(format, w, h, group);
                      group = fit.parameters;
                      return fit.loss;
                    });
  }

  std::vector<GroupParameters> groups() override { return groups_; }

 private:
  std::span<const float> row_weights(std::int64_t row) const {
    return problem_.weights.subspan(index(row * problem_.k), index(problem_.k));
  }
  std::span<GroupParameters> row_groups(std::int64_t row) {
    return std::span(groups_).subspan(index(row * groups_of_row_), index(groups_of_row_));
  }

  void fit_largest(std::int64_t row) {
    for (std::int64_t g = 0; g < groups_of_row_; ++g) {
      const GroupRange range = group_range(problem_.scheme, problem_.k, g);
      float extreme = 0;
      for (const float w : row_weights(row).subspan(index(range.begin), index(range.width))) {
        core::require(std::isfinite(w), core::ErrorKind::kInvalidModel,
                      "row {} of the weight holds {}; quantization needs finite weights", row, w);
        extreme = std::abs(w) > std::abs(extreme) ? w : extreme;
      }
      const bool pruned = extreme == 0 && formats::is_block_sparse(problem_.scheme);
      row_groups(row)[index(g)].scale = pruned ? 0.0f : formats::round_scale(extreme);
    }
  }

  // use(search, format, weights, importance, group) for each group of each row that is not pruned,
  // added up by row.
  template <typename Use>
  std::vector<double> sum_rows(std::span<const std::int64_t> rows, std::span<const float> books,
                               int steps, Use use) {
    std::vector<double> sums(rows.size());
    const bool shared = std::ssize(books) == book_size_;
    pool_.parallel_for(std::ssize(rows), kRows, [&](std::int64_t begin, std::int64_t end) {
      GroupSearch search(steps);
      for (std::int64_t i = begin; i < end; ++i) {
        const auto format = formats::make_format(
            problem_.scheme, books.subspan(shared ? 0 : index(i * book_size_), index(book_size_)));
        const std::int64_t row = rows[index(i)];
        for (std::int64_t g = 0; g < groups_of_row_; ++g) {
          if (row_groups(row)[index(g)].scale == 0) {
            continue;
          }
          const GroupRange range = group_range(problem_.scheme, problem_.k, g);
          sums[index(i)] +=
              use(search, *format, row_weights(row).subspan(index(range.begin), index(range.width)),
                  problem_.mean_squares.subspan(index(range.begin), index(range.width)),
                  row_groups(row)[index(g)]);
        }
      }
    });
    return sums;
  }

  BookProblem problem_;
  core::ThreadPool& pool_;
  std::int64_t groups_of_row_;
  std::int64_t book_size_;
  std::vector<GroupParameters> groups_;
};

}  // namespace

std::unique_ptr<BookSteps> make_cpu_book_steps(const BookProblem& problem, core::ThreadPool& pool) {
  return std::make_unique<CpuBookSteps>(problem, pool);
}

std::unique_ptr<BookSteps> make_book_steps(const BookProblem& problem, const Backend& backend) {
  const bool on_gpu =
      backend.has_gpu() && books_run_on_gpu(problem.scheme) && problem.k <= cuda::kMostPoints;
  return on_gpu ? cuda::make_cuda_book_steps(backend.gpu(), problem, backend.pool())
                : make_cpu_book_steps(problem, backend.pool());
}

bool books_run_on_gpu(const formats::Scheme& scheme) {
  return scheme.code.book == formats::Book::kPerRow && has_gpu_coder(scheme) &&
         !formats::is_block_sparse(scheme);
}

}  // namespace nibble::compress
