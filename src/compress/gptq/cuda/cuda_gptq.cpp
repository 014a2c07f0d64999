#include "compress/gptq/cuda_gptq.h"

#include <algorithm>
#include <cmath>

#include "compress/backend/cuda/cuda_context.h"
#include "compress/coding/cuda/device_coder.h"
#include "compress/gptq/cuda/gptq_kernels.h"

namespace nibble::compress::cuda {
namespace {

using device::cuda::Buffer;

// The order in which inputs are processed, and those that never were active.
struct Order {
  Order(const CudaContext& context, const std::vector<std::int64_t>& order,
        const std::vector<bool>& is_dead) {
    const std::vector<std::int32_t> list(order.begin(), order.end());
    const std::vector<std::uint8_t> flags(is_dead.begin(), is_dead.end());
    inputs = context.copy_of(std::span(list));
    dead = context.copy_of(std::span(flags));
  }
  Buffer inputs;
  Buffer dead;
};

// The weights [n, k] with their inputs in that order.
Buffer ordered_weights(const CudaContext& context, std::span<const float> weights, std::int64_t n,
                       std::int64_t k, const Order& order) {
  Buffer ordered = CudaContext::room<float>(n * k);
  const Buffer stored = context.copy_of(weights);
  order_weights(stored.as<float>(), order.inputs.as<std::int32_t>(), order.dead.as<std::uint8_t>(),
                n, k, ordered.as<float>(), context.stream());
  context.wait();
  return ordered;
}

// The Hessian in float64, ordered and damped.
Buffer ordered_hessian(const CudaContext& context, const OrderedHessian& hessian) {
  const std::int64_t k = hessian.k();
  const Order order(context, hessian.order, hessian.dead);
  Buffer ordered = CudaContext::room<double>(k * k);
  const Buffer lower = context.copy_of(std::span(hessian.lower));
  order_hessian(lower.as<float>(), order.inputs.as<std::int32_t>(), order.dead.as<std::uint8_t>(),
                hessian.added, k, ordered.as<double>(), context.stream());
  context.wait();
  return ordered;
}

// Block by block; one product corrects all inputs behind a block.
void run(const CudaContext& context, const GptqSweep& sweep) {
  const std::int64_t k = sweep.k;
  for (std::int64_t begin = 0; begin < k; begin += kGptqBlock) {
    const std::int64_t end = std::min(k, begin + kGptqBlock);
    gptq_block(sweep, begin, end, context.stream());
    context.blas().multiply(sweep.n, k - end, end - begin, -1.0f, {sweep.error, kGptqBlock},
                            {sweep.upper + begin * k + end, k}, 1.0f, {sweep.weights + end, k});
  }
}

}  // namespace

std::optional<std::vector<float>> upper_factor(CudaContext& context,
                                               const OrderedHessian& hessian) {
  const std::int64_t k = hessian.k();
  const Buffer a = ordered_hessian(context, hessian);
  device::cuda::Solver& solver = context.solver();
  const bool factored = solver.factor(a.as<double>(), k) && solver.invert(a.as<double>(), k) &&
                        solver.factor(a.as<double>(), k);
  double last = 0;
  context.download(a.as<double>() + k * k - 1, std::span(&last, 1));
  if (!factored || !std::isfinite(last)) {
    return std::nullopt;
  }
  const Buffer upper = CudaContext::room<float>(k * k);
  extract_upper(a.as<double>(), k, upper.as<float>(), context.stream());
  return context.values_of<float>(upper);
}

CodedWeight gptq(CudaContext& context, std::span<const float> weights, std::int64_t n,
                 std::int64_t k, const formats::Scheme& scheme, Parameters parameters,
                 const InverseFactor& factor, std::span<const std::uint8_t> kept) {
  const Order order(context, factor.order, factor.dead);
  const DeviceCoder coder(context, scheme, parameters);
  const Buffer upper = context.copy_of(std::span(factor.upper));
  const Buffer ordered = ordered_weights(context, weights, n, k, order);
  const Buffer groups = device_groups(context, parameters);
  const Buffer mask = context.copy_of(kept);
  const Buffer codes = CudaContext::room<std::uint8_t>(n * k);
  const Buffer error = CudaContext::room<float>(n * kGptqBlock);
  GptqSweep sweep;
  sweep.weights = ordered.as<float>();
  sweep.upper = upper.as<float>();
  sweep.order = order.inputs.as<std::int32_t>();
  sweep.groups = groups.as<GroupValues>();
  sweep.row_groups = parameter_groups(scheme, k);
  sweep.group = formats::group_size(scheme, k);
  sweep.head = formats::head_inputs(scheme, k);
  sweep.kept = mask.as<std::uint8_t>();
  sweep.codes = codes.as<std::uint8_t>();
  sweep.error = error.as<float>();
  sweep.coder = coder.view();
  sweep.tail_coder = DeviceCoder(context, formats::tail_scheme(), {}).view();
  sweep.n = n;
  sweep.k = k;
  run(context, sweep);
  CodedWeight coded{std::move(parameters), {}};
  coded.codes = context.values_of<std::uint8_t>(codes);
  return coded;
}

}  // namespace nibble::compress::cuda
