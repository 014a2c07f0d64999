#include "compress/coding/cuda/book_tables.h"
#include "device/cuda/blocks.h"
#include "device/cuda/check.h"

namespace nibble::compress::cuda {
namespace {

constexpr int kThreads = 256;

// Books are ascending but where a shorter one is filled up.
__global__ void make_tables_kernel(const float* books, std::int64_t count, int book_size,
                                   BookTable* tables) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= count) {
    return;
  }
  const float* book = books + at * book_size;
  BookTable table;
  for (int i = 0; i < kBookSize; ++i) {  // insertion keeps the order of equal values
    const float value = book[min(i, book_size - 1)];
    int to = i;
    for (; to > 0 && table.values[to - 1] > value; --to) {
      table.values[to] = table.values[to - 1];
      table.codes[to] = table.codes[to - 1];
    }
    table.values[to] = value;
    table.codes[to] = static_cast<std::uint8_t>(i);
  }
  for (int i = 1; i < kBookSize; ++i) {
    if (table.values[i] == table.values[i - 1]) {
      table.codes[i] = table.codes[i - 1];
    }
  }
  tables[at] = table;
}

}  // namespace

void make_tables(const float* books, std::int64_t count, int book_size, BookTable* tables,
                 cudaStream_t stream) {
  make_tables_kernel<<<device::cuda::blocks_for(count, kThreads), kThreads, 0, stream>>>(
      books, count, book_size, tables);
  device::cuda::check_launch("make_tables_kernel");
}

}  // namespace nibble::compress::cuda
