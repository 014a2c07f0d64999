#pragma once

namespace nibble::ops::cuda {

/// Bytes per second at which this GPU reads memory that is in no cache, from a kernel that does
/// nothing else. The best of a few readings of 2 GB (or of what is free), which take milliseconds.
double measure_read_bandwidth();

}  // namespace nibble::ops::cuda
