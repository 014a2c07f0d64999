#include "io/gguf.h"

#include <cstring>
#include <utility>

#include "core/error.h"

namespace nibble::io {

using core::ErrorKind;
using core::printable;
using core::require;

std::shared_ptr<const GgufFile> GgufFile::open(const std::filesystem::path& path) {
  auto mapping = MappedFile::open(path);
  return std::shared_ptr<const GgufFile>(
      new GgufFile(shown(path), mapping->bytes(), mapping, mapping));
}

std::shared_ptr<const GgufFile> GgufFile::parse(std::string what, std::span<const std::byte> bytes,
                                                std::shared_ptr<const void> owner) {
  return std::shared_ptr<const GgufFile>(
      new GgufFile(std::move(what), bytes, std::move(owner), nullptr));
}

GgufFile::GgufFile(std::string what, std::span<const std::byte> bytes,
                   std::shared_ptr<const void> owner, std::shared_ptr<const MappedFile> mapping)
    : what_(std::move(what)),
      bytes_(bytes),
      owner_(std::move(owner)),
      mapping_(std::move(mapping)),
      contents_(parse_gguf(bytes_, what_)) {
  for (std::size_t i = 0; i < contents_.tensors.size(); ++i) {
    by_name_.emplace(contents_.tensors[i].name, i);
  }
}

std::filesystem::path GgufFile::path() const {
  return mapping_ == nullptr ? std::filesystem::path() : mapping_->path();
}

const GgufTensor& GgufFile::entry(std::string_view name) const {
  const auto at = by_name_.find(name);
  require(at != by_name_.end(), ErrorKind::kInvalidModel, "{}: there is no tensor '{}'", what_,
          printable(name));
  return contents_.tensors[at->second];
}

core::Tensor GgufFile::tensor(std::string_view name) const {
  const GgufTensor& found = entry(name);
  const GgufBlockType& type = *found.type;
  require(type.dense.has_value() || type.decode != nullptr, ErrorKind::kInvalidModel,
          "{}: tensor '{}' has type {}, which is not supported", what_, printable(name), type.name);
  check_intact();
  const std::byte* data = bytes_.data() + found.offset;
  if (type.decode != nullptr) {
    core::Tensor decoded = core::Tensor::zeros(core::DType::kF32, found.shape);
    dequantize_blocks(type, reinterpret_cast<const std::uint8_t*>(data),
                      found.bytes / type.block_bytes, decoded.mutable_data<float>().data());
    check_intact();
    return decoded;
  }
  const auto alignment = static_cast<std::uintptr_t>(type.block_bytes);
  if (reinterpret_cast<std::uintptr_t>(data) % alignment == 0) {
    return core::Tensor::view(*type.dense, found.shape, data, owner_);
  }
  core::Tensor copy = core::Tensor::zeros(*type.dense, found.shape);
  std::memcpy(copy.mutable_raw(), data, static_cast<std::size_t>(found.bytes));
  check_intact();
  return copy;
}

void GgufFile::check_intact() const {
  if (mapping_ != nullptr) {
    mapping_->check_intact();
  }
}

void GgufFile::check_unchanged() const {
  if (mapping_ != nullptr) {
    mapping_->check_unchanged();
  }
}

void GgufFile::release(std::string_view name) const {
  const GgufTensor& found = entry(name);
  if (mapping_ != nullptr) {
    mapping_->advise(Access::kDontNeed, found.offset, found.bytes);
  }
}

std::int64_t GgufFile::data_bytes() const {
  std::int64_t total = 0;
  for (const GgufTensor& tensor : contents_.tensors) {
    total += tensor.bytes;
  }
  return total;
}

}  // namespace nibble::io
