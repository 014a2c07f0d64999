#include "core/error.h"
#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

using core::ErrorKind;

const core::Tensor* StoredLayer::find(std::string_view part_name) const {
  const auto at = parts.find(part_name);
  return at == parts.end() ? nullptr : &at->second;
}

const core::Tensor& StoredLayer::part(std::string_view part_name) const {
  const core::Tensor* const found = find(part_name);
  core::require(found != nullptr, ErrorKind::kInvalidModel, "the model has no tensor '{}.{}'",
                core::printable(name), part_name);
  return *found;
}

const core::Tensor& StoredLayer::part(std::string_view part_name, core::DType type,
                                      const core::Shape& shape) const {
  const core::Tensor& found = part(part_name);
  core::require(found.dtype() == type && found.shape() == shape, ErrorKind::kInvalidModel,
                "tensor '{}.{}' is {} {}, expected {} {}", core::printable(name), part_name,
                core::name_of(found.dtype()), core::printable(found.shape()), core::name_of(type),
                core::printable(shape));
  return found;
}

}  // namespace nibble::formats::exchange
