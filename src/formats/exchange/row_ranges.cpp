#include "formats/exchange/row_ranges.h"

#include <algorithm>

#include "core/cpu_topology.h"

namespace nibble::formats::exchange {
namespace {

constexpr std::int64_t kElementsAlone = std::int64_t{1} << 20;  // fewer are not worth threads
constexpr int kMostThreads = 16;                                // they are started for each layer
constexpr std::int64_t kElementsPerRange = std::int64_t{1} << 18;

}  // namespace

void for_row_ranges(std::int64_t rows, std::int64_t row_elements,
                    core::FunctionRef<void(std::int64_t, std::int64_t)> body) {
  if (rows * row_elements < kElementsAlone) {
    body(0, rows);
    return;
  }
  core::ThreadPool pool(std::min(core::available_cores(), kMostThreads));
  pool.parallel_for(rows, std::max<std::int64_t>(1, kElementsPerRange / row_elements), body);
}

}  // namespace nibble::formats::exchange
