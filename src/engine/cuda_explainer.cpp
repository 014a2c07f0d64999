#include <algorithm>
#include <optional>

#include "device/cuda_devices.h"
#include "engine/kernel_explainer.h"
#include "ops/cuda/limits/multiply_add_rate.h"
#include "ops/cuda/limits/read_bandwidth.h"
#include "ops/cuda/linear/layer_parts.h"
#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/packed/unit_rows.h"

namespace nibble::engine {
namespace {

using ops::cuda::LayerPlan;
using ops::cuda::LinearSchedules;
using ops::cuda::LinearShape;
using ops::cuda::Schedules;

struct GpuLimits {
  double read_bytes_per_second = ops::cuda::measure_read_bandwidth();
  double multiply_adds_per_second = ops::cuda::measure_multiply_add_rate();
};

class CudaExplainer final : public KernelExplainer {
 public:
  explicit CudaExplainer(const RunnerOptions& runner)
      : device_(device::require_cuda_device(runner.place.index)),
        schedules_(runner.schedules
                       ? runner.schedules
                       : std::make_shared<const Schedules>(ops::cuda::origin_of(device_))),
        exact_(runner.cpu.activations == ops::ActivationPrecision::kFloat) {}

  std::string device() const override { return device_.name; }

  LayerCuts cuts() const override { return {ops::cuda::joint_parts, ops::cuda::joint_problem}; }

  ExplainedRun explain(const LayerGroup& group, std::int64_t tokens) override {
    const formats::Scheme& scheme = group.problem.scheme;
    LayerPlan plan;
    plan.device = ops::cuda::device_kernels(*schedules_);
    if (ops::cuda::wants_units(scheme)) {
      plan = plan_layer(ops::cuda::linear_shape(scheme, group.problem.n, group.problem.k),
                        *schedules_, plan.device);
    }
    ops::cuda::LayerProblem problem{group.problem, plan};
    problem.linear.m = tokens;
    problem.linear.exact = exact_;
    ExplainedRun run =
        explain_run(ops::cuda::linear_kernels(), problem, group.places.front().alone);
    if (ops::cuda::wants_units(scheme) && run.kernel != ops::cuda::kInt4Gemm) {
      run.time = measured(plan.shape, tokens);
    }
    return run;
  }

  void keep() override {}  // nibble tune-kernels measures

 private:
  std::optional<KernelTime> measured(const LinearShape& shape, std::int64_t tokens) {
    const LinearSchedules* const layer = schedules_->find(shape);
    const auto microseconds = layer == nullptr ? std::nullopt : layer->microseconds(tokens);
    if (!microseconds) {
      return std::nullopt;
    }
    if (!limits_) {
      limits_.emplace();
    }
    const double reads =
        static_cast<double>(ops::cuda::unit_grid(shape.n, shape.k).count() * shape.format.bytes()) /
        limits_->read_bytes_per_second;
    const double products = static_cast<double>(shape.n) * static_cast<double>(shape.k) *
                            static_cast<double>(tokens) / limits_->multiply_adds_per_second;
    KernelTime time;
    time.microseconds = *microseconds;
    time.limited_by_memory = reads > products;
    time.limit_microseconds = 1e6 * std::max(reads, products);
    time.date = layer->date;
    return time;
  }

  device::CudaDevice device_;
  std::shared_ptr<const Schedules> schedules_;
  bool exact_;
  std::optional<GpuLimits> limits_;
};

}  // namespace

std::unique_ptr<KernelExplainer> make_cuda_explainer(const RunnerOptions& runner) {
  return std::make_unique<CudaExplainer>(runner);
}

}  // namespace nibble::engine
