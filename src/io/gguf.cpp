#include "io/gguf.h"

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
    : TensorFile(std::move(what), bytes, std::move(owner), std::move(mapping)),
      contents_(parse_gguf(this->bytes(), this->what())) {
  index(contents_.tensors);
}

core::Tensor GgufFile::tensor(std::string_view name) const {
  const GgufTensor& found = entry(name);
  const gguf_blocks::BlockType& type = *found.type;
  require(type.dense.has_value() || type.form != nullptr, ErrorKind::kInvalidModel,
          "{}: tensor '{}' has type {}, which is not supported", what(), printable(name),
          type.name);
  check_intact();
  if (type.form != nullptr) {
    core::Tensor decoded = core::Tensor::zeros(core::DType::kF32, found.shape);
    gguf_blocks::dequantize_blocks(
        type, reinterpret_cast<const std::uint8_t*>(bytes().data() + found.offset),
        found.bytes / type.block_bytes, decoded.mutable_data<float>().data());
    check_intact();
    return decoded;
  }
  return numbers(*type.dense, type.block_bytes, found);
}

std::span<const std::byte> GgufFile::stored_bytes(std::string_view name) const {
  const GgufTensor& found = entry(name);
  check_intact();
  return bytes().subspan(static_cast<std::size_t>(found.offset),
                         static_cast<std::size_t>(found.bytes));
}

}  // namespace nibble::io
