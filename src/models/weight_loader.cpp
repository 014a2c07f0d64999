#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "models/foreign_layers.h"
#include "models/weight_source.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Tensor;

constexpr std::string_view kWeightEnd = ".weight";

// A table of embeddings that another tool compressed: rows are looked up, not multiplied.
Tensor decoded(const formats::PackedWeight& weight, const std::string& name) {
  const auto k = static_cast<std::size_t>(weight.k);
  Tensor table = Tensor::zeros(core::DType::kF16, {weight.n, weight.k});
  const auto values = table.mutable_data<core::Fp16>();
  std::vector<float> row(k);
  for (std::int64_t n = 0; n < weight.n; ++n) {
    formats::decode_row(weight, n, row);
    for (std::size_t i = 0; i < k; ++i) {
      const core::Fp16 value = core::to_fp16(row[i]);
      core::require(std::isfinite(core::to_float(value)), ErrorKind::kInvalidModel,
                    "tensor '{}' holds {}, which is not finite in float16", core::printable(name),
                    row[i]);
      values[static_cast<std::size_t>(n) * k + i] = value;
    }
  }
  return table;
}

void check_shape(const Tensor& tensor, const std::string& name, const core::Shape& expected) {
  core::require(tensor.shape() == expected, ErrorKind::kInvalidModel,
                "tensor '{}' has shape {}, expected {}", core::printable(name),
                core::printable(tensor.shape()), core::printable(expected));
  const core::DType type = tensor.dtype();
  core::require(
      type == core::DType::kF32 || type == core::DType::kF16 || type == core::DType::kBF16,
      ErrorKind::kInvalidModel, "tensor '{}' holds {}, expected F32, F16 or BF16",
      core::printable(name), core::name_of(type));
}

// Rows become columns; element size 2 or 4 bytes.
template <typename T>
Tensor transpose(const Tensor& tensor) {
  const std::int64_t rows = tensor.dim(0);
  const std::int64_t columns = tensor.dim(1);
  Tensor result = Tensor::zeros(tensor.dtype(), {columns, rows});
  const auto* from = reinterpret_cast<const T*>(tensor.raw());
  auto* to = reinterpret_cast<T*>(result.mutable_raw());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      to[j * rows + i] = from[i * columns + j];
    }
  }
  return result;
}

}  // namespace

Tensor WeightLoader::take(const std::string& name) {
  core::require(source_.contains(name), ErrorKind::kInvalidModel, "the model has no tensor '{}'",
                name);
  used_.insert(name);
  return source_.load(name);
}

bool WeightLoader::compressed(const std::string& prefix, std::int64_t n, std::int64_t k,
                              ops::Linear& layer) {
  const auto scheme = schemes_.find(prefix);
  if (scheme == schemes_.end()) {
    return foreign(prefix, n, k, layer);
  }
  formats::PackedWeight& weight = layer.weight;
  weight.scheme = scheme->second;
  weight.n = n;
  weight.k = k;
  for (const formats::PartSlot& slot : formats::part_slots()) {
    const std::string full = prefix + "." + std::string(slot.name);
    if (source_.contains(full)) {
      weight.*slot.tensor = take(full);
    }
  }
  formats::validate(weight, prefix);
  compressed_.insert(prefix);
  return true;
}

bool WeightLoader::foreign(const std::string& prefix, std::int64_t n, std::int64_t k,
                           ops::Linear& layer) {
  std::optional<ForeignLayer> found = source_.foreign_layer(prefix, n, k);
  if (!found) {
    return false;
  }
  imports_.add(prefix, found->read);
  used_.insert(found->tensors.begin(), found->tensors.end());
  layer.weight = foreign_ == nullptr ? std::move(found->read.weight)
                                     : foreign_->keep(prefix, std::move(found->read.weight));
  return true;
}

ops::Linear WeightLoader::linear(const std::string& prefix, std::int64_t n, std::int64_t k,
                                 bool bias) {
  ops::Linear layer;
  layer.name = prefix;
  if (!compressed(prefix, n, k, layer)) {
    const Tensor tensor = take(prefix + ".weight");
    check_shape(tensor, prefix + ".weight", {n, k});
    layer.weight = formats::dense_weight(tensor);
  }
  if (bias) {
    layer.bias = vector(prefix + ".bias", n);
  }
  return layer;
}

ops::Linear WeightLoader::conv1d(const std::string& prefix, std::int64_t n, std::int64_t k) {
  ops::Linear layer;
  layer.name = prefix;
  if (!compressed(prefix, n, k, layer)) {
    Tensor tensor = take(prefix + ".weight");
    if (source_.stores_conv1d()) {
      check_shape(tensor, prefix + ".weight", {k, n});
      tensor = core::size_of(tensor.dtype()) == 2 ? transpose<std::uint16_t>(tensor)
                                                  : transpose<std::uint32_t>(tensor);
    }
    check_shape(tensor, prefix + ".weight", {n, k});
    layer.weight = formats::dense_weight(tensor);
  }
  layer.bias = vector(prefix + ".bias", n);
  return layer;
}

ops::Norm WeightLoader::norm(const std::string& prefix, ops::NormKind kind, std::int64_t width,
                             float eps, float stored_less) {
  ops::Norm norm;
  norm.name = prefix;
  norm.kind = kind;
  const bool old = contains(prefix + ".gamma");  // as TensorFlow names them: BERT of 2018
  norm.weight = vector(prefix + (old ? ".gamma" : ".weight"), width);
  if (kind == ops::NormKind::kLayer) {
    norm.bias = vector(prefix + (old ? ".beta" : ".bias"), width);
  }
  for (float& value : norm.weight) {
    value += stored_less;
  }
  norm.eps = eps;
  norm.stored_less = stored_less;
  return norm;
}

std::vector<float> WeightLoader::vector(const std::string& name, std::int64_t size) {
  const Tensor tensor = take(name);
  check_shape(tensor, name, {size});
  std::vector<float> values = core::to_float32(tensor);
  for (const float value : values) {
    core::require(std::isfinite(value), ErrorKind::kInvalidModel,
                  "tensor '{}' holds NaN or infinite values", core::printable(name));
  }
  return values;
}

std::string key_centre_name(const ops::LinearSet& qkv) {
  const std::string& layer = qkv.parts.front().name;
  return layer.substr(0, layer.rfind('.')) + ".key_centre";
}

std::vector<float> WeightLoader::key_centre(const ops::LinearSet& qkv, std::int64_t size) {
  const std::string name = key_centre_name(qkv);
  return contains(name) ? vector(name, size) : std::vector<float>();
}

Tensor WeightLoader::matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  if (name.ends_with(kWeightEnd)) {
    const std::string prefix = name.substr(0, name.size() - kWeightEnd.size());
    if (auto table = source_.foreign_layer(prefix, rows, columns)) {
      imports_.add_table(prefix, table->read);
      used_.insert(table->tensors.begin(), table->tensors.end());
      return decoded(table->read.weight, name);
    }
  }
  const Tensor tensor = take(name);
  check_shape(tensor, name, {rows, columns});
  return tensor;
}

TokenTable WeightLoader::table(const std::string& name, std::int64_t rows, std::int64_t columns) {
  auto stored = source_.stored_rows(name);
  if (stored == nullptr) {
    return matrix(name, rows, columns);
  }
  const core::Shape shape = {stored->rows(), stored->columns()};
  core::require(shape == core::Shape{rows, columns}, ErrorKind::kInvalidModel,
                "tensor '{}' has shape {}, expected {}", core::printable(name),
                core::printable(shape), core::printable(core::Shape{rows, columns}));
  used_.insert(name);
  return TokenTable(std::move(stored));
}

ops::LinearSet WeightLoader::set(std::vector<ops::Linear> parts) {
  ops::LinearSet set;
  set.id = next_id_++;
  set.parts = std::move(parts);
  return set;
}

void WeightLoader::require_all_used(const std::string& family,
                                    const std::vector<std::string_view>& harmless,
                                    const std::vector<std::string_view>& left_out) {
  std::map<std::string_view, std::int64_t> parts;
  for (const std::string& name : source_.names()) {
    bool ignored = used_.contains(name);
    for (const std::string_view part : harmless) {
      ignored = ignored || name.find(part) != std::string::npos;
    }
    for (const std::string_view part : left_out) {
      if (!ignored && name.starts_with(part)) {
        ignored = true;
        ++parts[part];
      }
    }
    core::require(ignored, ErrorKind::kInvalidModel,
                  "the model has a tensor '{}' that family '{}' does not use",
                  core::printable(name), family);
  }
  for (const auto& [part, count] : parts) {
    remarks_.push_back(fmt::format(
        "{} tensors '{}*' are left out: of this model only the text part runs", count, part));
  }
}

void WeightLoader::require_schemes_used() const {
  for (const auto& [prefix, scheme] : schemes_) {
    core::require(compressed_.contains(prefix), ErrorKind::kInvalidModel,
                  "config.json quantization_config names a layer '{}' that the model does not have",
                  core::printable(prefix));
  }
}

}  // namespace nibble::models
