#include "io/safetensors.h"

#include <cstring>
#include <utility>

#include "core/error.h"

namespace nibble::io {

using core::ErrorKind;
using core::printable;
using core::require;

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  auto mapping = MappedFile::open(path);
  return std::shared_ptr<const SafetensorsFile>(
      new SafetensorsFile(shown(path), mapping->bytes(), mapping, mapping));
}

std::shared_ptr<const SafetensorsFile> SafetensorsFile::parse(std::string what,
                                                              std::span<const std::byte> bytes,
                                                              std::shared_ptr<const void> owner) {
  return std::shared_ptr<const SafetensorsFile>(
      new SafetensorsFile(std::move(what), bytes, std::move(owner), nullptr));
}

SafetensorsFile::SafetensorsFile(std::string what, std::span<const std::byte> bytes,
                                 std::shared_ptr<const void> owner,
                                 std::shared_ptr<const MappedFile> mapping)
    : what_(std::move(what)),
      bytes_(bytes),
      owner_(std::move(owner)),
      mapping_(std::move(mapping)),
      header_(parse_safetensors_header(bytes_, what_)) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
    by_name_.emplace(header_.tensors[i].name, i);
  }
}

std::filesystem::path SafetensorsFile::path() const {
  return mapping_ == nullptr ? std::filesystem::path() : mapping_->path();
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(header_.tensors.size());
  for (const SafetensorsEntry& entry : header_.tensors) {
    names.push_back(entry.name);
  }
  return names;
}

bool SafetensorsFile::contains(std::string_view name) const {
  return by_name_.contains(name);
}

const SafetensorsEntry& SafetensorsFile::entry(std::string_view name) const {
  const auto at = by_name_.find(name);
  require(at != by_name_.end(), ErrorKind::kInvalidModel, "{}: there is no tensor '{}'", what_,
          printable(name));
  return header_.tensors[at->second];
}

core::Tensor SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  const auto dtype = find_dtype(found.type);
  require(dtype.has_value(), ErrorKind::kInvalidModel,
          "{}: tensor '{}' has dtype {}, which is not supported", what_, printable(name),
          found.type);
  check_intact();
  const std::byte* data = bytes_.data() + found.offset;
  const auto alignment = static_cast<std::uintptr_t>(core::size_of(*dtype));
  if (reinterpret_cast<std::uintptr_t>(data) % alignment == 0) {
    return core::Tensor::view(*dtype, found.shape, data, owner_);
  }
  core::Tensor copy = core::Tensor::zeros(*dtype, found.shape);
  std::memcpy(copy.mutable_raw(), data, static_cast<std::size_t>(found.bytes));
  check_intact();
  return copy;
}

void SafetensorsFile::check_intact() const {
  if (mapping_ != nullptr) {
    mapping_->check_intact();
  }
}

void SafetensorsFile::check_unchanged() const {
  if (mapping_ != nullptr) {
    mapping_->check_unchanged();
  }
}

void SafetensorsFile::release(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  if (mapping_ != nullptr) {
    mapping_->advise(Access::kDontNeed, found.offset, found.bytes);
  }
}

std::int64_t SafetensorsFile::data_bytes() const {
  std::int64_t total = 0;
  for (const SafetensorsEntry& entry : header_.tensors) {
    total += entry.bytes;
  }
  return total;
}

}  // namespace nibble::io
