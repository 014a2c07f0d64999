#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "io/file_descriptor.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// The hidden states of calibration windows, float32 [tokens, hidden] each: in memory, or in a file
/// without a name that vanishes with the process, however it ends. What is read is bit for bit what
/// was written.
class WindowStore {
 public:
  /// Keeps the windows in memory; or, with a folder, in a file there.
  explicit WindowStore(const std::optional<std::filesystem::path>& folder);

  std::size_t size() const { return windows_.size(); }
  bool is_file() const { return file_.is_open(); }

  /// A window behind the last one. Throws kIo when the file can't be written (disk full).
  void add(ops::cpu::Matrix&& x);

  /// A copy of a window. Throws kIo when the file can't be read.
  ops::cpu::Matrix read(std::size_t window, ops::cpu::CpuOps& ops) const;
  /// The same to memory of the caller, [tokens, hidden]. Threads may read at the same time.
  void read(std::size_t window, float* to) const;

  /// Replaces a window by one of the same shape.
  void write(std::size_t window, ops::cpu::Matrix&& x);

 private:
  struct Window {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t offset = 0;  // in the file, bytes
    ops::cpu::Matrix values;  // empty when there is a file
  };

  std::filesystem::path folder_;  // for messages
  io::FileDescriptor file_;
  std::int64_t end_ = 0;  // of the file, bytes
  std::vector<Window> windows_;
};

}  // namespace nibble::compress
