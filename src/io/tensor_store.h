#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace nibble::io {

class GgufFile;

/// The tensors of a model by name, wherever they are stored.
class TensorStore {
 public:
  /// `path` is a folder with model.safetensors, a folder with model.safetensors.index.json and its
  /// shards, one .safetensors file, or one .gguf file.
  ///
  /// Throws kIo when files are missing or cannot be read; kInvalidModel when they are malformed,
  /// contradict each other, or are pickles (.bin, .pt, .pth, .ckpt), which run code when they are
  /// read: the message holds the command that converts them.
  static std::shared_ptr<TensorStore> open(const std::filesystem::path& path);

  virtual ~TensorStore() = default;
  TensorStore(const TensorStore&) = delete;
  TensorStore& operator=(const TensorStore&) = delete;

  /// In the order of their bytes, file by file.
  virtual std::vector<std::string> names() const = 0;
  virtual bool contains(std::string_view name) const = 0;

  /// These throw kInvalidModel, naming file and tensor, when there is no such tensor.
  virtual core::Shape shape(std::string_view name) const = 0;      // row-major
  virtual std::string type_name(std::string_view name) const = 0;  // as stored: "BF16", "Q4_K"
  virtual std::int64_t stored_bytes(std::string_view name) const = 0;

  /// Views the mapped file where it can (safetensors; GGUF's plain numbers); GGUF blocks are
  /// decoded to F32. Throws kInvalidModel also for types that are not supported.
  virtual core::Tensor load(std::string_view name) const = 0;
  /// The same; numbers of 8 bits that core::Tensor has no type for (safetensors: F8_E4M3, F8_E8M0)
  /// come as U8.
  virtual core::Tensor load_or_bytes(std::string_view name) const { return load(name); }

  /// Gives the pages of a tensor back to the system, for jobs that walk through a model larger than
  /// memory. Views of it stay valid: their pages are read again.
  virtual void release(std::string_view name) const = 0;

  /// The files that hold the tensors, in a fixed order.
  virtual std::vector<std::filesystem::path> files() const = 0;

  /// Throws kIo when a file has been truncated since it was opened.
  virtual void check_intact() const = 0;

  /// Throws kIntegrity when a file has been written to or replaced since it was opened.
  virtual void check_unchanged() const = 0;

  /// Bytes of all tensors as they are stored.
  virtual std::int64_t total_bytes() const = 0;

  /// "__metadata__" of the (first) safetensors file; empty for GGUF.
  virtual const std::map<std::string, std::string>& metadata() const = 0;

  /// The file itself, with its metadata, when the store is a GGUF file; otherwise null.
  virtual const GgufFile* gguf() const { return nullptr; }

 protected:
  TensorStore() = default;
};

}  // namespace nibble::io
