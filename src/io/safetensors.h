#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "io/safetensors_header.h"
#include "io/tensor_file.h"

namespace nibble::io {

/// A safetensors file, mapped into memory; its header has been checked
/// (parse_safetensors_header says what).
class SafetensorsFile : public TensorFile<SafetensorsEntry> {
 public:
  /// Throws kIo when the file cannot be read, kInvalidModel when it is not a valid safetensors
  /// file.
  static std::shared_ptr<const SafetensorsFile> open(const std::filesystem::path& path);

  /// The same for bytes in memory, which `owner` keeps alive. `what` names them in messages.
  static std::shared_ptr<const SafetensorsFile> parse(std::string what,
                                                      std::span<const std::byte> bytes,
                                                      std::shared_ptr<const void> owner);

  /// In the order of the tensors' bytes.
  std::vector<std::string> names() const;

  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  /// Views the mapping; a tensor whose bytes are not aligned for its type is copied. Throws
  /// kInvalidModel when there is no such tensor or core::Tensor has no such type (F8_E4M3, U16,
  /// ...), kIo when the file has been truncated.
  core::Tensor tensor(std::string_view name) const;

  /// The same; numbers that core::Tensor has no type for come as others of their size: F8_E4M3 and
  /// F8_E8M0 as U8, U32 as I32.
  core::Tensor tensor_or_bytes(std::string_view name) const;

 private:
  SafetensorsFile(std::string what, std::span<const std::byte> bytes,
                  std::shared_ptr<const void> owner, std::shared_ptr<const MappedFile> mapping);

  SafetensorsHeader header_;
};

struct NamedTensor {
  std::string name;
  core::Tensor tensor;
  /// What the file calls its type, where core::Tensor has no such type ("U32"), of as many bytes;
  /// empty: the tensor's own.
  std::string_view stored_as = {};
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
