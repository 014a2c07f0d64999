#include "ops/cuda/range_flag.h"

namespace nibble::ops::cuda {

RangeFlag::RangeFlag() : memory_(sizeof(std::int32_t)) {
  *on_device() = 0;
}

bool RangeFlag::take() {
  volatile std::int32_t& flag = *on_device();  // the device writes to it
  const bool raised = flag != 0;
  flag = 0;
  return raised;
}

}  // namespace nibble::ops::cuda
