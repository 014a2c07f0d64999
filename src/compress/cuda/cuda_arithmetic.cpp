#include <algorithm>
#include <cmath>

#include "compress/arithmetic.h"
#include "compress/awq/scale_search.h"
#include "compress/cuda/awq_kernels.h"
#include "compress/cuda/cuda_block_runner.h"
#include "compress/cuda/cuda_book_steps.h"
#include "compress/cuda/device_coder.h"
#include "compress/cuda/gptq_kernels.h"
#include "compress/cuda/kmeans_kernels.h"
#include "core/error.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using device::cuda::Buffer;
using formats::Scheme;

constexpr std::int64_t kClipValues = std::int64_t{1} << 26;  // errors of clips held at a time

class CudaArithmetic final : public Arithmetic {
 public:
  CudaArithmetic(int gpu, core::ThreadPool& pool) : Arithmetic(pool), cpu_(pool), context_(gpu) {}

  bool has_gpu() const override { return true; }

  bool on_gpu(Task task, const Scheme& scheme) const override {
    switch (task) {
      case Task::kGptq:
        return cuda::has_device_coder(scheme);
      case Task::kAwq:
        return cuda::has_device_coder(trial_scheme(scheme)) && cuda::has_device_coder(scheme);
      case Task::kBooks:
        return scheme.code.book == formats::Book::kPerRow && cuda::has_device_coder(scheme);
    }
    return false;
  }

  std::unique_ptr<BlockRunner> make_runner(const models::Decoder& decoder,
                                           const CalibrationWindows& windows, ops::cpu::CpuOps& ops,
                                           bool keeps_original,
                                           const std::optional<std::filesystem::path>&,
                                           const std::map<std::string, Scheme>& schemes) override {
    for (const auto& [layer, scheme] : schemes) {
      core::require(scheme.activation.is_float() && scheme.inputs.hadamard == 0, ErrorKind::kUsage,
                    "layer {}: calibration behind {}, whose activations are quantized or turned, "
                    "does not run on a GPU yet; use --device cpu",
                    core::printable(layer), scheme);
    }
    return cuda::make_cuda_block_runner(context_, decoder, windows, ops, keeps_original);
  }

  std::optional<std::vector<float>> factor(const OrderedHessian& hessian) override {
    const std::int64_t k = hessian.k();
    const Order order(context_, hessian.order, hessian.dead);
    const Buffer a = cuda::CudaContext::room<double>(k * k);
    {
      const Buffer lower = context_.copy_of(std::span(hessian.lower));
      cuda::order_hessian(lower.as<float>(), order.inputs.as<std::int32_t>(),
                          order.dead.as<std::uint8_t>(), hessian.added, k, a.as<double>(),
                          context_.stream());
      context_.wait();
    }
    device::cuda::Solver& solver = context_.solver();
    const bool factored = solver.factor(a.as<double>(), k) && solver.invert(a.as<double>(), k) &&
                          solver.factor(a.as<double>(), k);
    double last = 0;
    context_.download(a.as<double>() + k * k - 1, std::span(&last, 1));
    if (!factored || !std::isfinite(last)) {
      return std::nullopt;
    }
    const Buffer upper = cuda::CudaContext::room<float>(k * k);
    cuda::extract_upper(a.as<double>(), k, upper.as<float>(), context_.stream());
    return context_.values_of<float>(upper);
  }

  CodedWeight gptq(std::span<const float> weights, std::int64_t n, std::int64_t k,
                   const Scheme& scheme, Parameters parameters, const InverseFactor& inverse,
                   std::span<const std::uint8_t> kept) override {
    if (!on_gpu(Task::kGptq, scheme)) {
      return cpu_.gptq(weights, n, k, scheme, std::move(parameters), inverse, kept);
    }
    const Order order(context_, inverse.order, inverse.dead);
    const cuda::DeviceCoder coder(context_, scheme, parameters);
    const Buffer upper = context_.copy_of(std::span(inverse.upper));
    const Buffer ordered = cuda::CudaContext::room<float>(n * k);
    {
      const Buffer stored = context_.copy_of(weights);
      cuda::order_weights(stored.as<float>(), order.inputs.as<std::int32_t>(),
                          order.dead.as<std::uint8_t>(), n, k, ordered.as<float>(),
                          context_.stream());
      context_.wait();
    }
    const Buffer groups = cuda::device_groups(context_, parameters);
    const Buffer mask = context_.copy_of(kept);
    const Buffer codes = cuda::CudaContext::room<std::uint8_t>(n * k);
    const Buffer error = cuda::CudaContext::room<float>(n * cuda::kGptqBlock);
    cuda::GptqSweep sweep;
    sweep.weights = ordered.as<float>();
    sweep.upper = upper.as<float>();
    sweep.order = order.inputs.as<std::int32_t>();
    sweep.groups = groups.as<cuda::GroupValues>();
    sweep.group = formats::group_size(scheme, k);
    sweep.kept = mask.as<std::uint8_t>();
    sweep.codes = codes.as<std::uint8_t>();
    sweep.error = error.as<float>();
    sweep.coder = coder.view();
    sweep.n = n;
    sweep.k = k;
    for (std::int64_t begin = 0; begin < k; begin += cuda::kGptqBlock) {
      const std::int64_t end = std::min(k, begin + cuda::kGptqBlock);
      cuda::gptq_block(sweep, begin, end, context_.stream());
      context_.blas().multiply(
          n, k - end, end - begin, -1.0f, {error.as<float>(), cuda::kGptqBlock},
          {upper.as<float>() + begin * k + end, k}, 1.0f, {ordered.as<float>() + end, k});
    }
    CodedWeight coded{std::move(parameters), {}};
    coded.codes = context_.values_of<std::uint8_t>(codes);
    return coded;
  }

  std::vector<double> errors_of_scales(const SetWork& set,
                                       std::span<const std::vector<float>> scales) override {
    if (!all_on_gpu(Task::kAwq, set)) {
      return cpu_.errors_of_scales(set, scales);
    }
    const Buffer hessian = symmetric_hessian(set);
    std::vector<double> errors(scales.size());
    for (const LayerWork& layer : set.layers) {
      if (!layer.is_dense()) {
        add_errors(layer, hessian.as<float>(), scales, errors);
      }
    }
    return errors;
  }

  void clip(SetWork& set) override {
    if (!all_on_gpu(Task::kAwq, set)) {
      cpu_.clip(set);
      return;
    }
    const Buffer hessian = symmetric_hessian(set);
    for (LayerWork& layer : set.layers) {
      if (!layer.is_dense()) {
        clip(layer, hessian.as<float>());
      }
    }
  }

  std::unique_ptr<BookSteps> book_steps(const BookProblem& problem) override {
    if (!on_gpu(Task::kBooks, problem.scheme) || problem.k > cuda::kMostPoints) {
      return cpu_.book_steps(problem);
    }
    return cuda::make_cuda_book_steps(context_, problem, pool());
  }

 private:
  // The order in which inputs are processed, and those that never were active.
  struct Order {
    Order(const cuda::CudaContext& context, const std::vector<std::int64_t>& order,
          const std::vector<bool>& is_dead) {
      const std::vector<std::int32_t> list(order.begin(), order.end());
      const std::vector<std::uint8_t> flags(is_dead.begin(), is_dead.end());
      inputs = context.copy_of(std::span(list));
      dead = context.copy_of(std::span(flags));
    }
    Buffer inputs;
    Buffer dead;
  };

  bool all_on_gpu(Task task, const SetWork& set) const {
    return std::all_of(set.layers.begin(), set.layers.end(), [&](const LayerWork& layer) {
      return layer.is_dense() || on_gpu(task, layer.scheme);
    });
  }

  Buffer symmetric_hessian(const SetWork& set) const {
    Buffer hessian = context_.copy_of(std::span(set.statistics->hessian()));
    cuda::mirror_lower(hessian.as<float>(), set.layers.front().k(), context_.stream());
    return hessian;
  }

  // tr(E H E^T) on the searched rows, for each candidate; see scale_errors().
  void add_errors(const LayerWork& layer, const float* hessian,
                  std::span<const std::vector<float>> scales, std::vector<double>& errors) const {
    const std::int64_t k = layer.k();
    const std::int64_t rows = std::min(layer.n(), kSearchedRows);
    std::vector<float> searched;
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* row = layer.weights.data() + searched_row(i, rows, layer.n()) * k;
      searched.insert(searched.end(), row, row + k);
    }
    const Scheme scheme = trial_scheme(layer.scheme);
    const cuda::DeviceCoder coder(context_, scheme, {});
    const Buffer weights = context_.copy_of(std::span<const float>(searched));
    const Buffer error = cuda::CudaContext::room<float>(rows * k);
    const Buffer product = cuda::CudaContext::room<float>(rows * k);
    const Buffer factors = cuda::CudaContext::room<float>(k);
    const Buffer sums = cuda::CudaContext::room<double>(rows);
    for (std::size_t i = 0; i < scales.size(); ++i) {
      context_.upload(std::span(scales[i]), factors.as<float>());
      cuda::scale_rounding_errors(weights.as<float>(), factors.as<float>(), coder.view(), rows, k,
                                  formats::group_size(scheme, k), error.as<float>(),
                                  context_.stream());
      context_.blas().multiply(rows, k, k, 1.0f, {error.as<float>(), k}, {hessian, k}, 0.0f,
                               {product.as<float>(), k});
      cuda::row_products(error.as<float>(), product.as<float>(), rows, k, sums.as<double>(),
                         context_.stream());
      double sum = 0;
      for (const double of_row : context_.values_of<double>(sums)) {
        sum += of_row;
      }
      errors[i] += sum * static_cast<double>(layer.n()) / static_cast<double>(rows);
    }
  }

  void clip(LayerWork& layer, const float* hessian) const {
    const std::int64_t k = layer.k();
    const std::int64_t group = formats::group_size(layer.scheme, k);
    const cuda::DeviceCoder coder(context_, layer.scheme, {});
    const Buffer weights = context_.copy_of(std::span<const float>(layer.weights));
    const std::int64_t step =
        std::clamp<std::int64_t>(kClipValues / (cuda::kClipSteps * group), 1, layer.n());
    const Buffer error = cuda::CudaContext::room<float>(step * cuda::kClipSteps * group);
    const Buffer product = cuda::CudaContext::room<float>(step * cuda::kClipSteps * group);
    for (std::int64_t begin = 0; begin < k; begin += group) {
      const std::int64_t width = std::min(group, k - begin);
      for (std::int64_t row = 0; row < layer.n(); row += step) {
        const cuda::WeightGroup rows{weights.as<float>() + row * k + begin, k,
                                     std::min(step, layer.n() - row), width};
        cuda::clip_errors(rows, coder.view(), error.as<float>(), context_.stream());
        context_.blas().multiply(rows.rows * cuda::kClipSteps, width, width, 1.0f,
                                 {error.as<float>(), width}, {hessian + begin * k + begin, k}, 0.0f,
                                 {product.as<float>(), width});
        cuda::clip_to_best(rows, error.as<float>(), product.as<float>(), context_.stream());
      }
    }
    context_.download(weights.as<float>(), std::span(layer.weights));
  }

  CpuArithmetic cpu_;
  cuda::CudaContext context_;
};

}  // namespace

std::unique_ptr<Arithmetic> make_cuda_arithmetic(int gpu, core::ThreadPool& pool) {
  return std::make_unique<CudaArithmetic>(gpu, pool);
}

}  // namespace nibble::compress
