#pragma once

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/json.h"
#include "core/tensor.h"
#include "formats/exchange/base64_for_tests.h"
#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

using core::Json;
using core::Tensor;

/// Layers as other tools compressed them (tests/exchange/make_goldens.py).
inline const Json& goldens() {
  static const Json json = [] {
    std::ifstream file(NIBBLE_SOURCE_DIR "/tests/exchange/layers.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return core::parse_json(text, "layers.json");
  }();
  return json;
}

inline core::DType dtype_of(const std::string& name) {
  for (const auto type : {core::DType::kF32, core::DType::kF16, core::DType::kBF16,
                          core::DType::kI32, core::DType::kI64, core::DType::kI8}) {
    if (name == core::name_of(type)) {
      return type;
    }
  }
  if (name == "U32") {
    return core::DType::kI32;  // as io::SafetensorsFile gives it
  }
  return core::DType::kU8;  // U8, and types of 8 bits that are read as such
}

inline Tensor tensor_of(const Json& part) {
  const std::string bytes = from_base64(part.at("data").get<std::string>());
  Tensor tensor = Tensor::zeros(dtype_of(part.at("dtype").get<std::string>()),
                                part.at("shape").get<core::Shape>());
  EXPECT_EQ(static_cast<std::int64_t>(bytes.size()), tensor.bytes());
  std::memcpy(tensor.mutable_raw(), bytes.data(), bytes.size());
  return tensor;
}

inline StoredLayer layer_of(const Json& golden) {
  StoredLayer layer{
      "layer", golden.at("n").get<std::int64_t>(), golden.at("k").get<std::int64_t>(), {}};
  for (const auto& [name, part] : golden.at("parts").items()) {
    layer.parts.emplace(name, tensor_of(part));
  }
  return layer;
}

/// All weights, in the order of the layer's inputs.
inline std::vector<float> decoded(const PackedWeight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.n * weight.k));
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t n = 0; n < weight.n; ++n) {
    decode_row(weight, n, row);
    for (std::int64_t i = 0; i < weight.k; ++i) {
      const std::int64_t input =
          weight.permutation.empty()
              ? i
              : weight.permutation.data<std::int32_t>()[static_cast<std::size_t>(i)];
      values[static_cast<std::size_t>(n * weight.k + input)] = row[static_cast<std::size_t>(i)];
    }
  }
  return values;
}

}  // namespace nibble::formats::exchange
