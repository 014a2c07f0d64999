#pragma once

#include <algorithm>
#include <limits>

#include "device/cuda/event.h"
#include "device/cuda/stream.h"

namespace nibble::ops::cuda {

/// Seconds of the fastest of `count` readings of what `launch(stream)` puts on a stream.
template <typename Launch>
double best_reading(int count, const Launch& launch) {
  device::cuda::Stream stream;
  device::cuda::Event begin;
  device::cuda::Event end;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < count; ++i) {
    begin.record(stream.get());
    launch(stream.get());
    end.record(stream.get());
    end.synchronize();
    best = std::min(best, end.seconds_since(begin));
  }
  return best;
}

}  // namespace nibble::ops::cuda
