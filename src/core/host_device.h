#pragma once

/// Before a function that runs on the host and, where nvcc compiles it, on GPUs too.
#ifdef __CUDACC__
#define NIBBLE_HOST_DEVICE __host__ __device__
#else
#define NIBBLE_HOST_DEVICE
#endif
