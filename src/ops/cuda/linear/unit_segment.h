#pragma once

#include <cstdint>

#include "device/cuda/memory.h"
#include "ops/cuda/linear/layer_plan.h"
#include "ops/cuda/packed/unit_format.h"
#include "ops/cuda/packed/unit_packer.h"
#include "ops/cuda/packed/unit_rows.h"

namespace nibble::ops::cuda {

/// Compressed weights of a run of a layer's inputs, in units on the device: all kernels of
/// compressed layers read them.
class UnitSegment {
 public:
  /// Packs and uploads rows of plan.shape. Throws kOutOfMemory.
  UnitSegment(const UnitRows& rows, const LayerPlan& plan, UnitPacker& packer);

  const UnitsView& view() const { return view_; }
  const LayerPlan& plan() const { return plan_; }
  std::int64_t bytes() const { return units_.bytes() + tables_.bytes() + factors_.bytes(); }

 private:
  void add_tables(const UnitRows& rows, core::ThreadPool& pool);

  LayerPlan plan_;
  device::cuda::Buffer units_;
  device::cuda::Buffer tables_;
  device::cuda::Buffer factors_;
  UnitsView view_;
};

}  // namespace nibble::ops::cuda
