#pragma once

#include "ops/cuda/elementwise/digit_sink.cuh"
#include "ops/cuda/elementwise/row_sinks.cuh"
#include "ops/cuda/fp8/e4m3_sink.cuh"

namespace nibble::ops::cuda {

template <typename... Sinks>
struct SinkList {};

/// All ways in which rows become the input of linear layers. The first that serves an InputTarget
/// takes it: Sink::serves(target), and Sink::of(target, columns) makes it.
using InputSinks = SinkList<HalfSink, Int8RowSink, DigitSink, IntegerSink, E4m3RowSink>;

}  // namespace nibble::ops::cuda
