#include "compress/awq/cuda_awq.h"

#include <algorithm>

#include "compress/awq/cuda/awq_kernels.h"
#include "compress/awq/scale_search.h"
#include "compress/backend/cuda/cuda_context.h"
#include "compress/coding/cuda/device_coder.h"

namespace nibble::compress::cuda {
namespace {

using device::cuda::Buffer;

constexpr std::int64_t kClipValues = std::int64_t{1} << 26;  // errors of clips held at a time

Buffer symmetric_hessian(const CudaContext& context, const SetWork& set) {
  Buffer hessian = context.copy_of(std::span(set.statistics->hessian()));
  mirror_lower(hessian.as<float>(), set.layers.front().k(), context.stream());
  return hessian;
}

// The rows of a layer that the search of scales looks at, [rows, k].
std::vector<float> searched_rows(const LayerWork& layer, std::int64_t rows) {
  const std::int64_t k = layer.k();
  std::vector<float> searched;
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* row = layer.weights.data() + searched_row(i, rows, layer.n()) * k;
    searched.insert(searched.end(), row, row + k);
  }
  return searched;
}

// tr(E H E^T) on the searched rows, for each candidate; see scale_errors().
void add_errors(const CudaContext& context, const LayerWork& layer, const float* hessian,
                std::span<const std::vector<float>> scales, std::vector<double>& errors) {
  const std::int64_t k = layer.k();
  const std::int64_t rows = std::min(layer.n(), kSearchedRows);
  const std::vector<float> searched = searched_rows(layer, rows);
  const formats::Scheme scheme = trial_scheme(layer.scheme);
  const DeviceCoder coder(context, scheme, {});
  const Buffer weights = context.copy_of(std::span<const float>(searched));
  const Buffer error = CudaContext::room<float>(rows * k);
  const Buffer product = CudaContext::room<float>(rows * k);
  const Buffer factors = CudaContext::room<float>(k);
  const Buffer sums = CudaContext::room<double>(rows);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    context.upload(std::span(scales[i]), factors.as<float>());
    scale_rounding_errors(weights.as<float>(), factors.as<float>(), coder.view(), rows, k,
                          formats::group_size(scheme, k), error.as<float>(), context.stream());
    context.blas().multiply(rows, k, k, 1.0f, {error.as<float>(), k}, {hessian, k}, 0.0f,
                            {product.as<float>(), k});
    row_products(error.as<float>(), product.as<float>(), rows, k, sums.as<double>(),
                 context.stream());
    double sum = 0;
    for (const double of_row : context.values_of<double>(sums)) {
      sum += of_row;
    }
    errors[i] += sum * static_cast<double>(layer.n()) / static_cast<double>(rows);
  }
}

void clip_layer(const CudaContext& context, LayerWork& layer, const float* hessian) {
  const std::int64_t k = layer.k();
  const std::int64_t group = formats::group_size(layer.scheme, k);
  const DeviceCoder coder(context, layer.scheme, {});
  const Buffer weights = context.copy_of(std::span<const float>(layer.weights));
  const std::int64_t step =
      std::clamp<std::int64_t>(kClipValues / (kClipSteps * group), 1, layer.n());
  const Buffer error = CudaContext::room<float>(step * kClipSteps * group);
  const Buffer product = CudaContext::room<float>(step * kClipSteps * group);
  for (std::int64_t begin = 0; begin < k; begin += group) {
    const std::int64_t width = std::min(group, k - begin);
    for (std::int64_t row = 0; row < layer.n(); row += step) {
      const WeightGroup rows{weights.as<float>() + row * k + begin, k,
                             std::min(step, layer.n() - row), width};
      clip_errors(rows, coder.view(), error.as<float>(), context.stream());
      context.blas().multiply(rows.rows * kClipSteps, width, width, 1.0f,
                              {error.as<float>(), width}, {hessian + begin * k + begin, k}, 0.0f,
                              {product.as<float>(), width});
      clip_to_best(rows, error.as<float>(), product.as<float>(), context.stream());
    }
  }
  context.download(weights.as<float>(), std::span(layer.weights));
}

}  // namespace

std::vector<double> scale_errors(CudaContext& context, const SetWork& set,
                                 std::span<const std::vector<float>> scales) {
  const Buffer hessian = symmetric_hessian(context, set);
  std::vector<double> errors(scales.size());
  for (const LayerWork& layer : set.layers) {
    if (!layer.is_dense()) {
      add_errors(context, layer, hessian.as<float>(), scales, errors);
    }
  }
  return errors;
}

void clip_set(CudaContext& context, SetWork& set) {
  const Buffer hessian = symmetric_hessian(context, set);
  for (LayerWork& layer : set.layers) {
    if (!layer.is_dense()) {
      clip_layer(context, layer, hessian.as<float>());
    }
  }
}

}  // namespace nibble::compress::cuda
