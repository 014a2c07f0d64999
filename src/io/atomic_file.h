#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "io/file_descriptor.h"

namespace nibble::io {

/// A file that appears under its name only when it is complete. Bytes go to
/// ".<name>.<number>.partial" beside the target; commit() makes them durable and renames. Without
/// commit() the target stays as it was and the temporary is removed. Temporaries that a killed
/// process left behind for the same target are removed by the next AtomicFile.
///
/// Links are followed: what they lead to is replaced. A file keeps its mode. What is no file (a
/// pipe, a terminal, /dev/stdout) stays and is written to directly; block devices are refused.
///
/// All failures throw kIo (disk full included). A process that limits file sizes must ignore
/// SIGXFSZ to get the error instead of the signal.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  std::int64_t written() const { return written_; }

  /// fsync, rename over the target (an existing file is replaced), fsync of the folder. Once.
  void commit();

 private:
  void open_temporary(mode_t mode);

  std::filesystem::path target_;     // as it was asked for
  std::filesystem::path place_;      // the same behind links
  std::filesystem::path temporary_;  // empty: the target itself is written to
  FileDescriptor descriptor_;
  std::int64_t written_ = 0;
};

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// A folder that appears under its name only when it is complete: files are written into
/// ".<name>.partial" beside the target, which commit() renames. Without commit() that folder stays,
/// so that an interrupted job can go on in it; discard() removes it. A lock keeps other processes
/// out and vanishes with the process that holds it.
///
/// Throws kIo: the target exists already (even as an empty folder), another process works on it, or
/// the system refuses.
class AtomicFolder {
 public:
  /// Begins with an empty folder; what an interrupted job left is removed.
  static AtomicFolder create(const std::filesystem::path& target);

  /// Goes on with what an interrupted job left, if there is something.
  static AtomicFolder open_or_create(const std::filesystem::path& target);

  /// Whether open_or_create() found the folder of an interrupted job.
  bool resumed() const { return resumed_; }

  /// Where to write. Files written with AtomicFile are complete when a job is resumed.
  const std::filesystem::path& path() const { return partial_; }
  const std::filesystem::path& target() const { return target_; }

  /// Names of the files in it, sorted, without folders and hidden files.
  std::vector<std::string> files() const;

  /// Makes every file durable and gives the folder its name. Once; nothing may be written after it.
  void commit();

  /// Removes the folder with everything in it.
  void discard();

 private:
  enum class Leftover { kKeep, kRemove };
  AtomicFolder(const std::filesystem::path& target, Leftover leftover);

  std::filesystem::path target_;
  std::filesystem::path partial_;
  FileDescriptor lock_;
  bool resumed_ = false;
};

}  // namespace nibble::io
