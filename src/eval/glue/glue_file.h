#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "eval/glue/glue_task.h"

namespace nibble::eval {

/// One item of a task.
struct GlueItem {
  std::int64_t line = 0;  // of the file, from 1
  std::string first;
  std::optional<std::string> second;
  std::int32_t gold = 0;  // the class; of tasks that have classes
  double value = 0;       // of others
};

/// The data of a task: `path` itself, or its file in the folder `path`.
std::filesystem::path find_glue_file(const std::filesystem::path& path, const GlueTask& task);

/// The first `limit` items of a .tsv file (0: all), whose header names the columns. Fields are what
/// stands between tabs, quotes mean nothing, and lines may end in "\r\n". Labels are names of
/// classes or their numbers. Throws kIo when the file cannot be read, and kInvalidModel, with the
/// file, the line and what is wrong, when a column is missing, a row or a label is malformed, or
/// there is no item.
std::vector<GlueItem> read_glue_items(const std::filesystem::path& file, const GlueTask& task,
                                      std::int64_t limit);

}  // namespace nibble::eval
