#pragma once

#include <memory>
#include <string_view>

#include "device/cuda/memory.h"
#include "formats/packed_weight.h"
#include "ops/cuda/attention/hadamard_signs.h"
#include "ops/cuda/input_transform/input_transform.h"

namespace nibble::ops::cuda {

/// Order and Hadamards of a weight's inputs on the device.
class DeviceTransform {
 public:
  /// Null where inputs stay as they are. Throws kUsage, naming the layer, for a Hadamard of more
  /// than kMaxHadamard inputs, or an order of more than kMaxOrdered.
  static std::shared_ptr<const DeviceTransform> of(const formats::PackedWeight& weight,
                                                   std::string_view layer);

  const InputTransformView& view() const { return view_; }
  /// The order, where it is all there is and rows are what ordered_rows.h takes; else null.
  const std::uint16_t* order_alone() const { return is_order_ ? view_.order : nullptr; }

 private:
  device::cuda::Buffer order_;
  std::unique_ptr<HadamardSigns> signs_;
  std::unique_ptr<HadamardSigns> last_signs_;
  InputTransformView view_;
  bool is_order_ = false;
};

}  // namespace nibble::ops::cuda
