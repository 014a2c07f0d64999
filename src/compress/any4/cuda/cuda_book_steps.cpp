#include "compress/any4/cuda_book_steps.h"

#include <algorithm>
#include <numeric>

#include "compress/any4/cuda/book_kernels.h"
#include "compress/any4/cuda/kmeans_kernels.h"
#include "compress/backend/cuda/cuda_context.h"
#include "compress/coding/cuda/book_tables.h"
#include "core/error.h"

namespace nibble::compress::cuda {
namespace {

using device::cuda::Buffer;

constexpr std::int64_t kPointsAtATime = std::int64_t{1} << 25;  // that are sorted together

class CudaBookSteps final : public BookSteps {
 public:
  CudaBookSteps(CudaContext& context, const BookProblem& problem, core::ThreadPool& pool)
      : context_(context),
        problem_(problem),
        pool_(pool),
        book_size_(formats::book_size(problem.scheme)),
        weights_(context.copy_of(problem.weights)),
        mean_squares_(context.copy_of(problem.mean_squares)) {
    layer_.k = problem.k;
    layer_.group = formats::group_size(problem.scheme, problem.k);
    layer_.groups = formats::groups_per_row(problem.scheme, problem.k);
    scales_ = CudaContext::room<float>(problem.n * layer_.groups);
    layer_.weights = weights_.as<float>();
    layer_.mean_squares = mean_squares_.as<float>();
    layer_.scales = scales_.as<float>();
  }

  void fit_largest() override {
    const Buffer not_finite = CudaContext::room<int>(1);
    context_.zero(not_finite);
    cuda::fit_largest(layer_, problem_.n, not_finite.as<int>(), context_.stream());
    if (context_.values_of<int>(not_finite).front() != 0) {
      make_cpu_book_steps(problem_, pool_)->fit_largest();  // says which weight it is
      core::fail(core::ErrorKind::kInvalidModel, "a weight is not finite");
    }
  }

  std::vector<float> learn(std::span<const std::int64_t> rows) override {
    const auto count = static_cast<std::int64_t>(rows.size());
    const std::int64_t step =
        std::clamp<std::int64_t>(kPointsAtATime / problem_.k, 1, std::max<std::int64_t>(1, count));
    const Buffer list = context_.copy_of(rows);
    const Buffer books = CudaContext::room<float>(count * book_size_);
    const Points points(step, problem_.k, static_cast<int>(book_size_),
                        context_.device().multiprocessors);
    for (std::int64_t first = 0; first < count; first += step) {
      learn(list.as<std::int64_t>() + first, std::min(step, count - first), points,
            books.as<float>() + first * book_size_);
    }
    return context_.values_of<float>(books);
  }

  std::vector<double> losses(std::span<const std::int64_t> rows,
                             std::span<const float> books) override {
    return sums_of(rows, books,
                   [&](const CoderView& coder, const std::int64_t* list, double* losses) {
                     group_losses(layer_, coder, list, std::ssize(rows), losses, context_.stream());
                   });
  }

  std::vector<double> fit_scales(std::span<const std::int64_t> rows, std::span<const float> books,
                                 int steps) override {
    return sums_of(
        rows, books, [&](const CoderView& coder, const std::int64_t* list, double* losses) {
          search_scales(layer_, coder, list, std::ssize(rows), steps, losses, context_.stream());
        });
  }

  std::vector<formats::GroupParameters> groups() override {
    const std::vector<float> scales = context_.values_of<float>(scales_);
    std::vector<formats::GroupParameters> result(scales.size());
    std::transform(scales.begin(), scales.end(), result.begin(), [](float scale) {
      return formats::GroupParameters{scale, 0};
    });
    return result;
  }

 private:
  // Memory for the points of some rows at a time.
  struct Points {
    Points(std::int64_t rows, std::int64_t k, int clusters, int multiprocessors)
        : values(CudaContext::room<float>(rows * k)),
          weights(CudaContext::room<float>(rows * k)),
          sorted_values(CudaContext::room<float>(rows * k)),
          sorted_weights(CudaContext::room<float>(rows * k)),
          count(CudaContext::room<std::int32_t>(rows)),
          blocks(kmeans_blocks(rows, multiprocessors)),
          clusters_workspace(Buffer(blocks * kmeans_block_bytes(k, clusters))) {
      sort_points(values.as<float>(), weights.as<float>(), sorted_values.as<float>(),
                  sorted_weights.as<float>(), rows, k, nullptr, sort_bytes, nullptr);
      sort_workspace = Buffer(std::max<std::int64_t>(1, static_cast<std::int64_t>(sort_bytes)));
    }
    Buffer values;
    Buffer weights;
    Buffer sorted_values;
    Buffer sorted_weights;
    Buffer count;  // of the points of each row
    std::int64_t blocks;
    Buffer clusters_workspace;
    std::size_t sort_bytes = 0;
    Buffer sort_workspace;
  };

  void learn(const std::int64_t* rows, std::int64_t count, const Points& points,
             float* books) const {
    const cudaStream_t stream = context_.stream();
    scaled_points(layer_, rows, count, problem_.kind == BookWeights::kRoot,
                  points.values.as<float>(), points.weights.as<float>(),
                  points.count.as<std::int32_t>(), stream);
    std::size_t bytes = points.sort_bytes;
    sort_points(points.values.as<float>(), points.weights.as<float>(),
                points.sorted_values.as<float>(), points.sorted_weights.as<float>(), count,
                problem_.k, points.sort_workspace.data(), bytes, stream);
    kmeans(points.sorted_values.as<float>(), points.sorted_weights.as<float>(),
           points.count.as<std::int32_t>(), count, problem_.k, static_cast<int>(book_size_),
           points.clusters_workspace.data(), std::min(points.blocks, count), books, stream);
  }

  // use(coder, rows, losses of all groups), added up by row.
  template <typename Use>
  std::vector<double> sums_of(std::span<const std::int64_t> rows, std::span<const float> books,
                              const Use& use) {
    const auto count = static_cast<std::int64_t>(rows.size());
    const std::int64_t tables = std::ssize(books) / book_size_;
    const Buffer list = context_.copy_of(rows);
    const Buffer values = context_.copy_of(books);
    const Buffer table = CudaContext::room<BookTable>(tables);
    make_tables(values.as<float>(), tables, static_cast<int>(book_size_), table.as<BookTable>(),
                context_.stream());
    CoderView coder;
    coder.books = table.as<BookTable>();
    coder.book_of_row = tables > 1;
    coder.learned = true;
    const Buffer losses = CudaContext::room<double>(count * layer_.groups);
    use(coder, list.as<std::int64_t>(), losses.as<double>());
    const std::vector<double> by_group = context_.values_of<double>(losses);
    std::vector<double> sums;
    for (auto at = by_group.begin(); at != by_group.end(); at += layer_.groups) {
      sums.push_back(std::accumulate(at, at + layer_.groups, 0.0));
    }
    return sums;
  }

  CudaContext& context_;
  BookProblem problem_;
  core::ThreadPool& pool_;
  std::int64_t book_size_;
  Buffer weights_;
  Buffer mean_squares_;
  Buffer scales_;
  BookLayer layer_;
};

}  // namespace

std::unique_ptr<BookSteps> make_cuda_book_steps(CudaContext& context, const BookProblem& problem,
                                                core::ThreadPool& pool) {
  return std::make_unique<CudaBookSteps>(context, problem, pool);
}

}  // namespace nibble::compress::cuda
