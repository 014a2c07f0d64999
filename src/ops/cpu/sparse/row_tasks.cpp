#include "ops/cpu/sparse/row_tasks.h"

#include <algorithm>

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kTasksPerThread = 8;      // at least
constexpr std::int64_t kCachedBytes = 128 << 10;  // of a task, at most
constexpr std::int64_t kStreamedBytes = 1 << 20;

}  // namespace

std::int64_t first_row(std::span<const std::int32_t> row_index, std::int64_t task,
                       std::int64_t tasks) {
  if (task == 0) {
    return 0;
  }
  const auto rows = static_cast<std::int64_t>(row_index.size()) - 1;
  if (task == tasks) {
    return rows;
  }
  const std::int64_t wanted = row_index.back() * task / tasks;
  return std::lower_bound(row_index.begin(), row_index.end() - 1, wanted) - row_index.begin();
}

std::int64_t task_count(std::int64_t n, std::int64_t bytes, int threads, bool again) {
  return std::min(n, std::max(kTasksPerThread * threads,
                              bytes / (again ? kCachedBytes : kStreamedBytes)));
}

}  // namespace nibble::ops::cpu
