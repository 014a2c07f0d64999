#include "io/safetensors.h"

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
    : TensorFile(std::move(what), bytes, std::move(owner), std::move(mapping)),
      header_(parse_safetensors_header(this->bytes(), this->what())) {
  index(header_.tensors);
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(header_.tensors.size());
  for (const SafetensorsEntry& entry : header_.tensors) {
    names.push_back(entry.name);
  }
  return names;
}

core::Tensor SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  const auto dtype = find_dtype(found.type);
  require(dtype.has_value(), ErrorKind::kInvalidModel,
          "{}: tensor '{}' has dtype {}, which is not supported", what(), printable(name),
          found.type);
  check_intact();
  return numbers(*dtype, core::size_of(*dtype), found);
}

core::Tensor SafetensorsFile::tensor_or_bytes(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  const bool bytes = found.type == "F8_E4M3" || found.type == "F8_E8M0";
  if (!bytes && found.type != "U32") {
    return tensor(name);
  }
  check_intact();
  const core::DType type = bytes ? core::DType::kU8 : core::DType::kI32;
  return numbers(type, core::size_of(type), found);
}

}  // namespace nibble::io
