#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "io/gguf_parser.h"
#include "io/tensor_file.h"

namespace nibble::io {

/// A GGUF file, mapped into memory; what stands before its data has been checked (parse_gguf says
/// how).
class GgufFile : public TensorFile<GgufTensor> {
 public:
  /// Throws kIo when the file cannot be read, kInvalidModel when it is not a valid GGUF file.
  static std::shared_ptr<const GgufFile> open(const std::filesystem::path& path);

  /// The same for bytes in memory, which `owner` keeps alive. `what` names them in messages.
  static std::shared_ptr<const GgufFile> parse(std::string what, std::span<const std::byte> bytes,
                                               std::shared_ptr<const void> owner);

  std::uint32_t version() const { return contents_.version; }
  std::int64_t alignment() const { return contents_.alignment; }
  const GgufMetadata& metadata() const { return contents_.metadata; }

  /// In the order of the file.
  const std::vector<GgufTensor>& tensors() const { return contents_.tensors; }

  /// Plain numbers (F32, F16, BF16, F64, I8...I64) view the mapping, or are copied where the file
  /// does not align them; blocks are decoded to F32 in memory of its own. Throws kInvalidModel for
  /// a tensor that is not there or a block type that is not supported, kIo when the file has been
  /// truncated.
  core::Tensor tensor(std::string_view name) const;

  /// The bytes of a tensor as they are stored. Throws kInvalidModel for a tensor that is not there.
  /// check_intact() says afterwards whether they were there.
  std::span<const std::byte> stored_bytes(std::string_view name) const;

 private:
  GgufFile(std::string what, std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
           std::shared_ptr<const MappedFile> mapping);

  GgufContents contents_;
};

}  // namespace nibble::io
