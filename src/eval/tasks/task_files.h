#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "eval/tasks/task.h"

namespace nibble::eval {

/// One data file of a task.
struct TaskPart {
  std::string name;  // the task's, or "blimp_adjunct_island" for a file of a folder
  std::filesystem::path file;
};

/// The files of a task in `folder`, in the order of their names. Throws kIo when there are none.
std::vector<TaskPart> find_task_parts(const std::filesystem::path& folder, const Task& task);

/// The first `limit` items of a file (0: all). Throws kIo when it cannot be read and kInvalidModel,
/// with the file, the line and what is wrong, when it is malformed or holds no item.
std::vector<TaskItem> read_task_items(const std::filesystem::path& file, const Task& task,
                                      std::int64_t limit);

}  // namespace nibble::eval
