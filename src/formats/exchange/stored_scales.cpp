#include "formats/exchange/stored_scales.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/float16.h"

namespace nibble::formats::exchange {

using core::ErrorKind;

float StoredScales::round(float scale) {
  const float stored = core::to_float(core::to_fp16(scale));
  core::require(std::isfinite(stored), ErrorKind::kInvalidModel,
                "{}: a scale of {} is not finite in float16", core::printable(layer_), scale);
  if (stored != scale) {
    const double change = std::abs(static_cast<double>(stored) - static_cast<double>(scale));
    error_ = std::max(error_, change / std::abs(static_cast<double>(scale)));
  }
  return stored;
}

std::vector<float> float_part(const StoredLayer& layer, std::string_view part,
                              const core::Shape& shape) {
  const core::Tensor& tensor = layer.part(part);
  core::require(core::is_floating(tensor.dtype()) && tensor.shape() == shape,
                ErrorKind::kInvalidModel, "tensor '{}.{}' is {} {}, expected floats {}",
                core::printable(layer.name), part, core::name_of(tensor.dtype()),
                core::printable(tensor.shape()), core::printable(shape));
  return core::to_float32(tensor);
}

float single_float(const StoredLayer& layer, std::string_view part) {
  const core::Tensor& tensor = layer.part(part);
  core::require(core::is_floating(tensor.dtype()) && tensor.elements() == 1,
                ErrorKind::kInvalidModel, "tensor '{}.{}' is {} {}, expected one float",
                core::printable(layer.name), part, core::name_of(tensor.dtype()),
                core::printable(tensor.shape()));
  return core::to_float32(tensor).front();
}

std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows,
                              std::int64_t columns) {
  std::vector<float> result(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      result[static_cast<std::size_t>(column * rows + row)] =
          values[static_cast<std::size_t>(row * columns + column)];
    }
  }
  return result;
}

}  // namespace nibble::formats::exchange
