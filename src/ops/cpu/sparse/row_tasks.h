#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nibble::ops::cpu {

/// How block-sparse layers that stand side by side are divided among threads: into tasks of rows,
/// or of tiles of rows, of one layer that hold about equally much, several for each thread.
class RowTasks {
 public:
  /// `again`: many tokens read a task's rows again and again, so that they stay in caches; else
  /// tasks are long, for memory is read faster in long runs.
  RowTasks(int threads, bool again) : threads_(threads), again_(again) {}

  /// The next layer, which takes so many bytes. row_index [n / tile + 1] counts what is stored
  /// before each tile of `tile` rows, as in formats/block_sparse.h; it must stay where it is.
  void add(std::span<const std::int32_t> row_index, std::int64_t bytes, std::int64_t tile = 1);

  std::int64_t count() const { return count_; }
  /// Outputs of all layers.
  std::int64_t width() const { return width_; }

  /// Rows, or tiles, [begin, end) of a layer, whose outputs begin in `column`.
  struct Rows {
    std::size_t layer;
    std::int64_t begin;
    std::int64_t end;
    std::int64_t column;
  };
  Rows at(std::int64_t task) const;

 private:
  struct Layer {
    std::span<const std::int32_t> row_index;
    std::int64_t first_task;
    std::int64_t tasks;
    std::int64_t column;
  };
  int threads_;
  bool again_;
  std::int64_t count_ = 0;
  std::int64_t width_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace nibble::ops::cpu
