#include "ops/cuda/linear/layer_plan.h"

#include "device/cuda/blas_lt.h"
#include "ops/cuda/gemm/int4/gemm_int4.h"
#include "ops/cuda/linear/linear_kernels.h"

namespace nibble::ops::cuda {

DeviceKernels device_kernels(const Schedules& schedules) {
  return {schedules.origin().multiprocessors, medium_batch_runs(), device::cuda::BlasLt::absence,
          int4_products_run()};
}

const ManyTokens* LayerPlan::measured_choice(std::int64_t m) const {
  const auto& choice = many[bucket_of(m)];
  return choice && choice->serves(m, most_few) ? &*choice : nullptr;
}

LayerPlan plan_layer(const LinearShape& shape, const Schedules& schedules,
                     const DeviceKernels& device) {
  const UnitsView units = weights_of(shape).units;
  LayerPlan plan;
  plan.shape = shape;
  plan.device = device;
  plan.is_planned = planned_product(shape) != nullptr;
  plan.most_few = max_small_batch(shape.format, shape.digits());
  plan.few = small_batch_schedule(units, device.multiprocessors);
  plan.medium.fill(medium_batch_schedule(units, device.multiprocessors));
  const LinearSchedules* measured = schedules.find(shape);
  if (measured == nullptr) {
    return plan;
  }
  plan.few = measured->few.value_or(plan.few);
  for (const MediumTokens& each : measured->medium) {
    plan.medium[medium_index(each.columns)] = each.schedule;
  }
  for (const ManyTokens& each : measured->many) {
    plan.many[bucket_of(each.tokens)] = each;
  }
  return plan;
}

}  // namespace nibble::ops::cuda
