#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "io/file_descriptor.h"

namespace nibble::io {

struct MappedRegion;

/// How a range of a mapped file will be read; a hint to the kernel.
enum class Access { kNormal, kSequential, kRandom, kWillNeed, kDontNeed, kHugePages };

/// A regular file mapped read-only into memory. Tensors that view its bytes keep it alive.
///
/// When someone truncates the file meanwhile, reading the lost bytes raises SIGBUS. A program that
/// has called install_truncation_guard() reads zeros instead, and check_intact() throws.
class MappedFile {
 public:
  /// Throws kIo when the file cannot be opened or is not a regular file, kOutOfMemory when there is
  /// no room for the mapping. An empty file has no bytes.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  /// The whole file, or the pages that hold [offset, offset + length) (cut at the file's end).
  void advise(Access access) const;
  void advise(Access access, std::int64_t offset, std::int64_t length) const;

  /// Throws kIo when the file has been truncated since it was opened, so what was read may be
  /// wrong.
  void check_intact() const;

  /// Throws kIntegrity when the file has been written to, or its name given to another file, since
  /// it was opened.
  void check_unchanged() const;

 private:
  MappedFile(std::filesystem::path path, OpenFile file);

  std::filesystem::path path_;
  FileDescriptor descriptor_;
  FileState opened_;
  std::span<const std::byte> bytes_;
  MappedRegion* region_ = nullptr;
};

/// Makes truncated mappings readable as zeros for the whole process (a SIGBUS handler; other bus
/// errors go on to the handler that was there before). For programs, once, at their start.
void install_truncation_guard();

}  // namespace nibble::io
