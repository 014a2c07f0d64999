#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"
#include "io/mapped_file.h"

namespace nibble::io {

/// What the formats of files of tensors share: bytes that are mapped, or lie in memory, and entries
/// that say where in them each tensor lies (`name`, `shape`, `offset`, `bytes`).
template <class Entry>
class TensorFile {
 public:
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  /// Empty for bytes in memory.
  std::filesystem::path path() const {
    return mapping_ == nullptr ? std::filesystem::path() : mapping_->path();
  }

  bool contains(std::string_view name) const { return by_name_.contains(name); }

  /// Throws kInvalidModel naming file and tensor when there is no such tensor.
  const Entry& entry(std::string_view name) const {
    const auto at = by_name_.find(name);
    core::require(at != by_name_.end(), core::ErrorKind::kInvalidModel,
                  "{}: there is no tensor '{}'", what_, core::printable(name));
    return entries_[at->second];
  }

  /// Gives the pages of a tensor back to the system; they are read again when they are used again.
  void release(std::string_view name) const {
    const Entry& found = entry(name);
    if (mapping_ != nullptr) {
      mapping_->advise(Access::kDontNeed, found.offset, found.bytes);
    }
  }

  /// Throws kIo when the file has been truncated since it was opened (MappedFile::check_intact).
  void check_intact() const {
    if (mapping_ != nullptr) {
      mapping_->check_intact();
    }
  }

  /// Throws kIntegrity when the file has changed (MappedFile::check_unchanged).
  void check_unchanged() const {
    if (mapping_ != nullptr) {
      mapping_->check_unchanged();
    }
  }

  /// Bytes of all tensors as they are stored.
  std::int64_t data_bytes() const {
    std::int64_t total = 0;
    for (const Entry& entry : entries_) {
      total += entry.bytes;
    }
    return total;
  }

 protected:
  /// `owner` keeps the bytes alive; `mapping` is null for bytes in memory.
  TensorFile(std::string what, std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
             std::shared_ptr<const MappedFile> mapping)
      : what_(std::move(what)),
        bytes_(bytes),
        owner_(std::move(owner)),
        mapping_(std::move(mapping)) {}
  ~TensorFile() = default;

  /// The entries, which must live as long as this.
  void index(const std::vector<Entry>& entries) {
    entries_ = entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      by_name_.emplace(entries[i].name, i);
    }
  }

  /// A view of plain numbers, aligned for `alignment` bytes; a copy where they are not.
  core::Tensor numbers(core::DType type, std::int64_t alignment, const Entry& found) const {
    const std::byte* data = bytes_.data() + found.offset;
    if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment) == 0) {
      return core::Tensor::view(type, found.shape, data, owner_);
    }
    core::Tensor copy = core::Tensor::zeros(type, found.shape);
    std::memcpy(copy.mutable_raw(), data, static_cast<std::size_t>(found.bytes));
    check_intact();
    return copy;
  }

  const std::string& what() const { return what_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string what_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const MappedFile> mapping_;
  std::span<const Entry> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // views the entries
};

}  // namespace nibble::io
