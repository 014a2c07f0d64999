#pragma once

#include <cstdint>
#include <span>

namespace nibble::ops::cpu {

/// The first row of task `task` of `tasks`, so that tasks of block-sparse rows have about equally
/// many kept groups; task `tasks` begins behind the last row. row_index [n + 1] counts
/// groups, as in formats/block_sparse.h, or units of them.
std::int64_t first_row(std::span<const std::int32_t> row_index, std::int64_t task,
                       std::int64_t tasks);

/// Into how many tasks n rows that take so many bytes are divided. Every thread has some. `again`:
/// many tokens read them again and again, so they stay in caches; else they are long, for memory is
/// read faster in long runs.
std::int64_t task_count(std::int64_t n, std::int64_t bytes, int threads, bool again);

}  // namespace nibble::ops::cpu
