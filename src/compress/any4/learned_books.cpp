#include "compress/any4/learned_books.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compress/any4/kmeans.h"
#include "compress/search/group_search.h"
#include "formats/book_size.h"
#include "formats/fp16_scale.h"

namespace nibble::compress {
namespace {

using formats::GroupParameters;
using formats::Scheme;

constexpr std::int64_t kRows = 2;        // rows of one task
constexpr std::int64_t kBins = 1 << 16;  // a book for a matrix is learned from a histogram
using BookValues = std::vector<float>;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

class BookLearner {
 public:
  BookLearner(std::span<const float> weights, std::int64_t n, std::int64_t k, const Scheme& scheme,
              std::span<const float> mean_squares, const BookOptions& options)
      : weights_(weights),
        n_(n),
        k_(k),
        scheme_(scheme),
        mean_squares_(mean_squares),
        options_(options),
        groups_(formats::groups_per_row(scheme, k)),
        book_size_(formats::book_size(scheme)) {
    parameters_.groups.resize(index(n * groups_));
    parameters_.books.resize(index(scheme.book == formats::Book::kPerRow ? n : 1) *
                             index(book_size_));
  }

  Parameters run(core::ThreadPool& pool) {
    if (scheme_.book == formats::Book::kPerRow) {
      learn_rows(pool);
    } else {
      learn_matrix(pool);
    }
    return std::move(parameters_);
  }

 private:
  std::span<const float> row_weights(std::int64_t row) const {
    return weights_.subspan(index(row * k_), index(k_));
  }
  std::span<GroupParameters> row_groups(std::int64_t row) {
    return std::span(parameters_.groups).subspan(index(row * groups_), index(groups_));
  }
  std::span<float> book(std::int64_t row) {
    return std::span(parameters_.books).subspan(index(row * book_size_), index(book_size_));
  }

  // The scale with which the element of largest magnitude becomes 1.
  void fit_scales(std::int64_t row) {
    for (std::int64_t g = 0; g < groups_; ++g) {
      const GroupRange range = group_range(scheme_, k_, g);
      float extreme = 0;
      for (const float w : row_weights(row).subspan(index(range.begin), index(range.width))) {
        core::require(std::isfinite(w), core::ErrorKind::kInvalidModel,
                      "row {} of the weight holds {}; quantization needs finite weights", row, w);
        extreme = std::abs(w) > std::abs(extreme) ? w : extreme;
      }
      row_groups(row)[index(g)].scale = formats::round_scale(extreme);
    }
  }

  template <typename Use>
  void for_each_point(std::int64_t row, Use use) {
    for (std::int64_t j = 0; j < k_; ++j) {
      const double scale = row_groups(row)[index(j / formats::group_size(scheme_, k_))].scale;
      const double importance = mean_squares_[index(j)];
      const double weight = options_.weights == BookWeights::kExact
                                ? importance * scale * scale
                                : std::sqrt(importance) * std::abs(scale);
      use(WeightedPoint{row_weights(row)[index(j)] / scale, weight});
    }
  }

  static BookValues to_book(const std::vector<double>& centres) {
    BookValues values(centres.begin(), centres.end());
    if (std::all_of(values.begin(), values.end(), [](float value) { return value == 0; })) {
      values.back() = 1;  // weights that are all zero leave the book without a unit
    }
    return values;
  }

  // Calls use(search, format, weights, importance, group) for each group of a row and adds up.
  template <typename Use>
  double sum_groups(std::int64_t row, std::span<const float> values, int steps, Use use) {
    const auto format = formats::make_format(scheme_, values);
    GroupSearch search(steps);
    double total = 0;
    for (std::int64_t g = 0; g < groups_; ++g) {
      const GroupRange range = group_range(scheme_, k_, g);
      total += use(
          search, *format, row_weights(row).subspan(index(range.begin), index(range.width)),
          mean_squares_.subspan(index(range.begin), index(range.width)), row_groups(row)[index(g)]);
    }
    return total;
  }

  double row_loss(std::int64_t row, std::span<const float> values) {
    return sum_groups(
        row, values, 0,
        [](GroupSearch& search, const formats::Format& format, auto w, auto h,
           const GroupParameters& group) { return search.loss(format, w, h, group); });
  }

  // New scales for the groups of a row where they lose less; what the row loses then. Only the
  // first round looks far away.
  double fit_row(std::int64_t row, std::span<const float> values, int round) {
    return sum_groups(row, values, round == 0 ? options_.steps : 0,
                      [](GroupSearch& search, const formats::Format& format, auto w, auto h,
                         GroupParameters& group) {
                        const GroupFit fit = search.search_from(format, w, h, group);
                        group = fit.parameters;
                        return fit.loss;
                      });
  }

  void learn_rows(core::ThreadPool& pool) {
    pool.parallel_for(n_, kRows, [&](std::int64_t begin, std::int64_t end) {
      KMeans kmeans;
      std::vector<WeightedPoint> points;
      for (std::int64_t row = begin; row < end; ++row) {
        fit_scales(row);
        learn_row(row, kmeans, points);
      }
    });
  }

  BookValues row_book(std::int64_t row, KMeans& kmeans, std::vector<WeightedPoint>& points) {
    points.clear();
    for_each_point(row, [&](const WeightedPoint& point) { points.push_back(point); });
    return to_book(kmeans.centres(points, static_cast<int>(book_size_)));
  }

  void learn_row(std::int64_t row, KMeans& kmeans, std::vector<WeightedPoint>& points) {
    BookValues best = row_book(row, kmeans, points);
    double loss = row_loss(row, best);
    for (int round = 0; round < options_.rounds; ++round) {
      const double fitted = fit_row(row, best, round);
      const BookValues next = row_book(row, kmeans, points);
      const double now = row_loss(row, next);
      best = now < fitted ? next : best;
      const double reached = std::min(now, fitted);
      if (reached >= loss * (1 - kLeastGain)) {
        break;
      }
      loss = reached;
    }
    std::copy(best.begin(), best.end(), book(row).begin());
  }

  // Points of all rows in bins of equal width, each at its centre of weight: the same for any
  // number of threads, and sorted.
  BookValues matrix_book() {
    double limit = 0;
    for (std::int64_t row = 0; row < n_; ++row) {
      for_each_point(
          row, [&](const WeightedPoint& point) { limit = std::max(limit, std::abs(point.value)); });
    }
    std::vector<WeightedPoint> bins(kBins);  // value holds the sum of weight * value
    for (std::int64_t row = 0; row < n_; ++row) {
      for_each_point(row, [&](const WeightedPoint& point) {
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
    return to_book(kmeans.centres(bins, static_cast<int>(book_size_)));
  }

  // The sum of loss_of(row) over all rows, added in the order of the rows.
  template <typename Loss>
  double sum_rows(core::ThreadPool& pool, Loss loss_of) {
    std::vector<double> losses(index(n_));
    pool.parallel_for(n_, kRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        losses[index(row)] = loss_of(row);
      }
    });
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  }

  void learn_matrix(core::ThreadPool& pool) {
    for (std::int64_t row = 0; row < n_; ++row) {
      fit_scales(row);
    }
    BookValues best = matrix_book();
    for (int round = 0; round < options_.rounds; ++round) {
      const double fitted =
          sum_rows(pool, [&](std::int64_t row) { return fit_row(row, best, round); });
      const BookValues next = matrix_book();
      if (sum_rows(pool, [&](std::int64_t row) { return row_loss(row, next); }) >= fitted) {
        break;
      }
      best = next;
    }
    std::copy(best.begin(), best.end(), book(0).begin());
  }

  static constexpr double kLeastGain = 1e-3;  // of the loss, for another round

  std::span<const float> weights_;
  std::int64_t n_;
  std::int64_t k_;
  Scheme scheme_;
  std::span<const float> mean_squares_;
  BookOptions options_;
  std::int64_t groups_;
  std::int64_t book_size_;
  Parameters parameters_;
};

}  // namespace

Parameters learn_books(std::span<const float> weights, std::int64_t n, std::int64_t k,
                       const Scheme& scheme, std::span<const float> mean_squares,
                       const BookOptions& options, core::ThreadPool& pool) {
  return BookLearner(weights, n, k, scheme, mean_squares, options).run(pool);
}

}  // namespace nibble::compress
