#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"
#include "io/mapped_file.h"
#include "io/safetensors_header.h"

namespace nibble::io {

/// A safetensors file, mapped into memory; its header has been checked
/// (parse_safetensors_header says what).
class SafetensorsFile {
 public:
  /// Throws kIo when the file cannot be read, kInvalidModel when it is not a valid safetensors
  /// file.
  static std::shared_ptr<const SafetensorsFile> open(const std::filesystem::path& path);

  /// The same for bytes in memory, which `owner` keeps alive. `what` names them in messages.
  static std::shared_ptr<const SafetensorsFile> parse(std::string what,
                                                      std::span<const std::byte> bytes,
                                                      std::shared_ptr<const void> owner);

  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// Empty for bytes in memory.
  std::filesystem::path path() const;

  /// In the order of the tensors' bytes.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;

  /// Throws kInvalidModel naming file and tensor when there is no such tensor.
  const SafetensorsEntry& entry(std::string_view name) const;

  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  /// Views the mapping; a tensor whose bytes are not aligned for its type is copied. Throws
  /// kInvalidModel when there is no such tensor or core::Tensor has no such type (F8_E4M3, U16,
  /// ...), kIo when the file has been truncated.
  core::Tensor tensor(std::string_view name) const;

  /// Gives the pages of a tensor back to the system; they are read again when they are used again.
  void release(std::string_view name) const;

  /// Throws kIo when the file has been truncated since it was opened (MappedFile::check_intact).
  void check_intact() const;

  /// Throws kIntegrity when the file has changed (MappedFile::check_unchanged).
  void check_unchanged() const;

  /// Bytes of all tensors.
  std::int64_t data_bytes() const;

 private:
  SafetensorsFile(std::string what, std::span<const std::byte> bytes,
                  std::shared_ptr<const void> owner, std::shared_ptr<const MappedFile> mapping);

  std::string what_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const MappedFile> mapping_;  // null for bytes in memory
  SafetensorsHeader header_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // views header_.tensors
};

struct NamedTensor {
  std::string name;
  core::Tensor tensor;
};

/// Writes a safetensors file atomically (AtomicFile), straight from the tensors' memory. The data
/// begin at a multiple of 8 bytes. Tensors stand in the given order unless that would leave one of
/// them unaligned for its type; then they are ordered by element size, largest first, otherwise as
/// given. The same arguments give the same bytes.
///
/// Throws kIo when the file cannot be written, kFailed when a name stands twice, is reserved
/// ("__metadata__") or is not UTF-8.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace nibble::io
