#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "compress/coding/cuda/coder.h"

namespace nibble::compress::cuda {

/// Books [count, book size] ready for coding: tables [count]. All pointers are of the device.
void make_tables(const float* books, std::int64_t count, int book_size, BookTable* tables,
                 cudaStream_t stream);

}  // namespace nibble::compress::cuda
