#include "ops/cpu/sparse/row_tasks.h"

#include <algorithm>
#include <iterator>

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kTasksPerThread = 8;       // at least
constexpr std::int64_t kCachedBytes = 128 << 10;  // of a task
constexpr std::int64_t kStreamedBytes = 1 << 20;

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

}  // namespace

void RowTasks::add(std::span<const std::int32_t> row_index, std::int64_t bytes, std::int64_t tile) {
  const auto rows = static_cast<std::int64_t>(row_index.size()) - 1;
  const std::int64_t tasks = std::min(
      rows, std::max(kTasksPerThread * threads_, bytes / (again_ ? kCachedBytes : kStreamedBytes)));
  layers_.push_back({row_index, count_, tasks, width_});
  count_ += tasks;
  width_ += rows * tile;
}

RowTasks::Rows RowTasks::at(std::int64_t task) const {
  const auto layer = std::prev(std::find_if(
      layers_.begin(), layers_.end(), [&](const Layer& each) { return each.first_task > task; }));
  const std::int64_t at = task - layer->first_task;
  return {static_cast<std::size_t>(layer - layers_.begin()),
          first_row(layer->row_index, at, layer->tasks),
          first_row(layer->row_index, at + 1, layer->tasks), layer->column};
}

}  // namespace nibble::ops::cpu
