// Layers as other tools compressed them (tests/exchange/make_goldens.py) against the weights that
// those tools read from them, and each way in which one can be malformed.

#include "formats/exchange/exchange.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "core/random.h"
#include "formats/exchange/golden_layers_for_tests.h"
#include "formats/exchange/row_ranges.h"

namespace nibble::formats::exchange {
namespace {

using core::Json;
using core::Tensor;

// The largest difference, relative to the largest weight.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return worst / largest;
}

TEST(Exchange, LayersAreReadAsTheToolsThatWroteThemReadThem) {
  for (const auto& [name, golden] : goldens().items()) {
    SCOPED_TRACE(name);
    const ReadLayer read = make_reader(golden.at("config"))->read(layer_of(golden));
    EXPECT_EQ(to_string(read.weight.scheme), golden.at("scheme").get<std::string>());
    const Tensor expected = tensor_of({{"dtype", "F32"},
                                       {"shape", {read.weight.n, read.weight.k}},
                                       {"data", golden.at("weights")}});
    const double found = difference(decoded(read.weight), core::to_float32(expected));
    const double bound = golden.value("tolerance", 0.0);
    EXPECT_LE(found, bound);
    EXPECT_EQ(read.scale_error > 0, golden.value("rounds_scales", false));
    EXPECT_LE(read.scale_error, 0x1p-11);
  }
  EXPECT_GE(goldens().size(), 12u);
}

std::string refusal(const std::string& name,
                    const std::function<void(StoredLayer&, Json&)>& damage) {
  StoredLayer layer = layer_of(goldens().at(name));
  Json config = goldens().at(name).at("config");
  damage(layer, config);
  try {
    const ReadLayer read = make_reader(config)->read(layer);
    return "";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
}

// What config.json may say that is not read.
std::string config_refusal(const std::string& name, const char* key, const Json& value) {
  return refusal(name, [&](StoredLayer&, Json& config) { config[key] = value; });
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

TEST(Exchange, UnknownMethodsAreNamed) {
  expect_part(config_refusal("awq-g32", "quant_method", "hqq"), "'hqq'");
  expect_part(config_refusal("awq-g32", "quant_method", 4), "quant_method");
}

TEST(Gptq, SettingsThatAreNotReadAreNamed) {
  const std::string name = "gptq-4-sym-g32";
  expect_part(config_refusal(name, "bits", 5), "5 bits");
  expect_part(config_refusal(name, "bits", "four"), "bits");
  expect_part(config_refusal(name, "group_size", 0), "group_size");
  expect_part(config_refusal(name, "group_size", -2), "group_size");
  expect_part(config_refusal(name, "checkpoint_format", "marlin"), "'marlin'");
  expect_part(config_refusal(name, "checkpoint_format", "gptq_p"), "'gptq_p'");
  expect_part(config_refusal(name, "is_marlin_format", true), "Marlin");
}

TEST(Gptq, ALabelThatTheZerosContradictIsCorrectedAndRemarked) {
  const Json& golden = goldens().at("gptq-4-sym-g32-mislabelled");
  const ReadLayer read = make_reader(golden.at("config"))->read(layer_of(golden));
  ASSERT_EQ(read.remarks.size(), 1u);
  expect_part(read.remarks.front(), "gptq_v2");
}

// Sets every zero point of a layer to 15 or to something uneven.
TEST(Gptq, ZeroPointsThatMayMeanTwoThingsAreRefused) {
  const auto fill = [](std::int32_t word) {
    return [word](StoredLayer& layer, Json&) {
      auto words = layer.parts.at("qzeros").mutable_data<std::int32_t>();
      std::fill(words.begin(), words.end(), word);
    };
  };
  expect_part(refusal("gptq-4-asym-g32-order", fill(-1)), "output 0, group 0 holds 15");
  expect_part(refusal("gptq-4-sym-g32", fill(0x77777778)), "neither all 7 nor all 8");
  EXPECT_EQ(refusal("gptq-4-sym-g32", fill(0x77777777)), "");
  EXPECT_EQ(refusal("gptq-4-sym-g32", fill(static_cast<std::int32_t>(0x88888888))), "");
}

TEST(Gptq, OrdersThatAreNoneAreRefused) {
  const auto set = [](std::int32_t value) {
    return [value](StoredLayer& layer, Json&) {
      layer.parts.at("g_idx").mutable_data<std::int32_t>()[3] = value;
    };
  };
  expect_part(refusal("gptq-4-asym-g32-order", set(-1)), "g_idx");
  expect_part(refusal("gptq-4-asym-g32-order", set(2)), "g_idx");
  expect_part(refusal("gptq-4-asym-g32-order", set(1 << 30)), "g_idx");
  const auto together = [](StoredLayer& layer, Json&) {
    auto groups = layer.parts.at("g_idx").mutable_data<std::int32_t>();
    std::fill(groups.begin(), groups.end(), 0);
  };
  expect_part(refusal("gptq-4-asym-g32-order", together), "uneven");
}

TEST(Gptq, BitsAndGroupsOfALayerFollowFromItsShapesWhereTheyMayDiffer) {
  const auto other = [](StoredLayer&, Json& config) {
    config["bits"] = 4;
    config["group_size"] = 128;
    config["dynamic"] = {{"+:layer", {{"bits", 3}}}};
  };
  EXPECT_EQ(refusal("gptq-3-asym-g32-order", other), "");
  EXPECT_EQ(refusal("gptq-2-asym-g16", other), "");
}

TEST(Awq, SettingsThatAreNotReadAreNamed) {
  expect_part(config_refusal("awq-g32", "version", "gemv_fast"), "'gemv_fast'");
  expect_part(config_refusal("awq-g32", "bits", 8), "8 bits");
  EXPECT_EQ(config_refusal("awq-g32", "version", "GEMM"), "");
  const auto older = [](StoredLayer&, Json& config) {
    config = {{"quant_method", "awq"}, {"w_bit", 4}, {"q_group_size", 32}};
  };
  EXPECT_EQ(refusal("awq-g32", older), "");
}

TEST(Awq, OutputsThatAreNoMultipleOfEightAreRefused) {
  expect_part(refusal("awq-g32", [](StoredLayer& layer, Json&) { layer.n = 33; }), "33");
}

// The group of a configuration of compressed-tensors, changed.
std::string group_refusal(const std::string& name, const std::function<void(Json&)>& change) {
  return refusal(name,
                 [&](StoredLayer&, Json& config) { change(config["config_groups"]["group_0"]); });
}

TEST(CompressedTensors, SettingsThatAreNotReadAreNamed) {
  const std::string name = "ct-pack-4-sym-g32";
  expect_part(config_refusal(name, "format", "marlin-24"), "'marlin-24'");
  expect_part(config_refusal(name, "format", "float-quantized"), "'float-quantized' with integers");
  expect_part(config_refusal("ct-fp8-channel", "format", "mxfp8-quantized"), "with floats");
  expect_part(config_refusal(name, "kv_cache_scheme", {{"num_bits", 8}}), "kv_cache_scheme");
  expect_part(config_refusal(name, "transform_config", {{"config_groups", {{"a", 1}}}}),
              "transform_config");
  expect_part(config_refusal(name, "sparsity_config", {{"format", "sparse-24-bitmask"}}),
              "'sparse-24-bitmask'");
  EXPECT_EQ(config_refusal(name, "sparsity_config", {{"format", "dense"}}), "");
  EXPECT_EQ(config_refusal(name, "transform_config", Json::object()), "");
  expect_part(config_refusal(name, "quantization_status", "frozen"), "'frozen'");
  expect_part(config_refusal(name, "config_groups", Json::object()), "config_groups");
  expect_part(group_refusal(name, [](Json& group) { group["weights"]["num_bits"] = 6; }), "6 bits");
  expect_part(group_refusal(name, [](Json& group) { group["weights"]["strategy"] = "block"; }),
              "'block'");
  expect_part(group_refusal(name,
                            [](Json& group) {
                              group["output_activations"] = {{"a", 1}};
                            }),
              "output_activations");
  expect_part(group_refusal(name, [](Json& group) { group["weights"] = nullptr; }), "group_0");
}

TEST(CompressedTensors, GroupsThatDifferInTheirLayersOnlyAreOne) {
  const auto with = [](int bits) {
    return [bits](StoredLayer&, Json& config) {
      Json& groups = config["config_groups"];
      groups["group_1"] = groups["group_0"];
      groups["group_1"]["targets"] = {"re:.*down_proj"};
      groups["group_1"]["weights"]["num_bits"] = bits;
    };
  };
  EXPECT_EQ(refusal("ct-pack-4-sym-g32", with(4)), "");
  expect_part(refusal("ct-pack-4-sym-g32", with(8)), "'group_1'");
}

// Reads a layer with other activations: its scheme, and what is remarked.
std::string with_activations(const std::string& name, const Json& activations,
                             std::string& remark) {
  Json config = goldens().at(name).at("config");
  config["config_groups"]["group_0"]["input_activations"] = activations;
  const ReadLayer read = make_reader(config)->read(layer_of(goldens().at(name)));
  remark = read.remarks.empty() ? "" : read.remarks.front();
  return to_string(read.weight.scheme);
}

TEST(CompressedTensors, ActivationsThatDifferAreRemarked) {
  Json tokens = {{"num_bits", 8},
                 {"type", "int"},
                 {"symmetric", true},
                 {"strategy", "token"},
                 {"dynamic", true}};
  std::string remark;
  EXPECT_EQ(with_activations("ct-int-w8a8", nullptr, remark), "int8-sym-row");
  EXPECT_EQ(remark, "");
  EXPECT_EQ(with_activations("ct-int-w8a8", tokens, remark), "int8-sym-row-a8");
  expect_part(remark, "127.5");
  EXPECT_EQ(with_activations("ct-fp8-channel", tokens, remark), "fp8-row");
  expect_part(remark, "stay float");
  tokens["symmetric"] = false;
  EXPECT_EQ(with_activations("ct-int-w8a8", tokens, remark), "int8-sym-row-a8-asym");
  EXPECT_EQ(remark, "");
  tokens["symmetric"] = true;
  tokens["num_bits"] = 4;
  EXPECT_EQ(with_activations("ct-pack-4-sym-g32", tokens, remark), "int4-sym-g32-a4c0.93333334");
  EXPECT_EQ(remark, "");
  tokens["type"] = "float";
  tokens["dynamic"] = "local";
  EXPECT_EQ(with_activations("ct-nvfp4", tokens, remark), "nvfp4");
  expect_part(remark, "stay float");
}

// Act-order of older files: the layer of GPTQ's test, in the words of compressed-tensors.
TEST(CompressedTensors, GroupsOfInputsBecomeAnOrder) {
  StoredLayer layer = layer_of(goldens().at("ct-pack-4-sym-g32"));
  Tensor groups = Tensor::zeros(core::DType::kI32, {layer.k});
  for (std::int64_t k = 0; k < layer.k; ++k) {
    groups.mutable_data<std::int32_t>()[static_cast<std::size_t>(k)] =
        static_cast<std::int32_t>(k % 2);
  }
  const auto reader = make_reader(goldens().at("ct-pack-4-sym-g32").at("config"));
  const std::vector<float> plain = decoded(reader->read(layer).weight);
  layer.parts["weight_g_idx"] = groups;
  const PackedWeight ordered = reader->read(layer).weight;
  EXPECT_EQ(to_string(ordered.scheme), "int4-sym-g32-order");
  const auto scales = core::to_float32(layer.parts.at("weight_scale"));
  const std::vector<float> values = decoded(ordered);
  for (std::size_t k = 0; k < 64; ++k) {  // of the first row: the same code, another scale
    EXPECT_FLOAT_EQ(values[k] / scales[k % 2], plain[k] / scales[k / 32]) << k;
  }
  std::fill_n(groups.mutable_data<std::int32_t>().begin(), 64, -1);  // not used
  EXPECT_EQ(decoded(reader->read(layer).weight), plain);
}

TEST(Bitsandbytes, SettingsThatAreNotReadAreNamed) {
  expect_part(config_refusal("bnb-nf4", "load_in_4bit", false), "8 bits");
  const auto rows_of_96 = [](StoredLayer& layer, Json&) {
    layer.n = 21;  // with rows of 96 blocks of 64 go over their ends
    layer.k = 96;
    const std::string state = R"({"blocksize": 64, "shape": [21, 96]})";
    layer.parts["weight.quant_state.bitsandbytes__nf4"] =
        Tensor::from(std::span(reinterpret_cast<const std::uint8_t*>(state.data()), state.size()),
                     {std::ssize(state)});
  };
  expect_part(refusal("bnb-nf4", rows_of_96), "over the ends of rows of 96");
  expect_part(refusal("bnb-nf4", [](StoredLayer& layer, Json&) { std::swap(layer.n, layer.k); }),
              "'shape' is not [64, 32]");
}

TEST(Mlx, SettingsThatAreNotReadAreNamed) {
  const std::string name = "mlx-4-g32";
  expect_part(config_refusal(name, "mode", "mxfp8"), "'mxfp8'");
  expect_part(config_refusal(name, "mode", "nvfp4"), "'nvfp4' has 4 bits and groups of 16");
  expect_part(config_refusal("mlx-mxfp4", "group_size", 64), "not 4 and 64");
  expect_part(config_refusal(name, "bits", 7), "7 bits");
  expect_part(config_refusal(name, "group_size", 48), "48");
  expect_part(config_refusal(name, "group_size", 128), "don't divide");
  expect_part(config_refusal(name, "layer", {{"bits", 1}, {"group_size", 32}}), "'layer'");
  EXPECT_EQ(config_refusal(name, "mode", "affine"), "");
  EXPECT_EQ(config_refusal(name, "other.layer", {{"bits", 8}, {"group_size", 64}}), "");
  expect_part(config_refusal(name, "layer", {{"bits", 8}, {"group_size", 32}}), "weight");
  expect_part(config_refusal(name, "layer", {{"bits", 4}, {"group_size", 64}}), "scales");
}

ReadLayer read_mlx(StoredLayer layer) {
  return make_reader(goldens().at("mlx-4-g32").at("config"))->read(layer);
}

// Sets scale and bias of the first group, and all of its codes.
StoredLayer with_first_group(float scale, float bias, std::int32_t words) {
  StoredLayer layer = layer_of(goldens().at("mlx-4-g32"));
  layer.parts.at("scales").mutable_data<core::Fp16>()[0] = core::to_fp16(scale);
  layer.parts.at("biases").mutable_data<core::Fp16>()[0] = core::to_fp16(bias);
  const auto codes = layer.parts.at("weight").mutable_data<std::int32_t>();
  std::fill_n(codes.begin(), 4, words);
  return layer;
}

// For devices on which biases take more.
TEST(Mlx, WhatZeroPointsChangeIsMeasured) {
  const Json& golden = goldens().at("mlx-4-g32");
  const auto reader = make_reader(golden.at("config"));
  const ReadLayer read = reader->read_with_zero_points(layer_of(golden));
  EXPECT_EQ(to_string(read.weight.scheme), "int4-asym-g32");
  const Tensor stored = tensor_of({{"dtype", "F32"},
                                   {"shape", {golden.at("n"), golden.at("k")}},
                                   {"data", golden.at("weights")}});
  const std::vector<float> before = core::to_float32(stored);
  const std::vector<float> after = decoded(read.weight);
  double change = 0;
  double weights = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    change += std::pow(static_cast<double>(after[i]) - static_cast<double>(before[i]), 2);
    weights += std::pow(static_cast<double>(before[i]), 2);
  }
  EXPECT_GT(read.weight_error, 0.0);
  EXPECT_NEAR(read.weight_error, std::sqrt(change / weights), 1e-7);
  EXPECT_TRUE(read.remarks.empty());
}

TEST(Mlx, BiasesFarFromZeroPointsStayMinima) {
  const auto reader = make_reader(goldens().at("mlx-4-g32").at("config"));
  for (const StoredLayer& layer :
       {layer_of(goldens().at("mlx-4-g32-trained")), with_first_group(0.01f, 90.0f, 0x76543210)}) {
    const ReadLayer read = reader->read_with_zero_points(layer);
    EXPECT_EQ(to_string(read.weight.scheme), "int4-min-g32");
    EXPECT_EQ(read.weight_error, 0);
    EXPECT_EQ(decoded(read.weight), decoded(reader->read(layer).weight));
  }
}

TEST(Mlx, GroupsOfOneValueAreKept) {
  const auto first = [](float scale, float bias, std::int32_t words) {
    return decoded(read_mlx(with_first_group(scale, bias, words)).weight).front();
  };
  EXPECT_EQ(first(-0x1p-23f, 0.75f, 0), 0.75f);  // as MLX rounds 32 equal weights
  EXPECT_EQ(first(0.0f, -0.5f, 0x55555555), -0.5f);
  EXPECT_EQ(first(0.0f, 0.0f, 0x55555555), 0.0f);
  EXPECT_EQ(first(0.25f, -1.0f, 0x77777777), 0.75f);
}

// Trained biases too, and those far from all zero points.
TEST(Mlx, BiasesAreMinima) {
  const ReadLayer far = read_mlx(with_first_group(0.01f, 90.0f, 0x76543210));
  EXPECT_EQ(to_string(far.weight.scheme), "int4-min-g32");
  EXPECT_EQ(far.weight_error, 0);
  const float scale = core::to_float(core::to_fp16(0.01f));
  EXPECT_EQ(decoded(far.weight)[7], scale * 7 + 90.0f);
}

TEST(Mlx, BiasesThatAreZeroPointsAreRead) {
  StoredLayer layer = layer_of(goldens().at("mlx-4-g32"));
  const auto scales = layer.parts.at("scales").mutable_data<core::Fp16>();
  const auto biases = layer.parts.at("biases").mutable_data<core::Fp16>();
  std::fill(scales.begin(), scales.end(), core::to_fp16(0.25f));
  std::fill(biases.begin(), biases.end(), core::to_fp16(-0.75f));
  const ReadLayer read = read_mlx(layer);
  EXPECT_EQ(to_string(read.weight.scheme), "int4-asym-g32");
  EXPECT_EQ(read.weight_error, 0);
}

TEST(Mlx, WhatFloat16ChangesIsSaid) {
  StoredLayer layer = layer_of(goldens().at("mlx-4-g32"));
  for (const char* part : {"scales", "biases"}) {
    std::vector<float> values = core::to_float32(layer.parts.at(part));
    for (float& value : values) {
      value *= 1.0001f;
    }
    layer.parts.at(part) =
        core::from_float32(values, layer.parts.at(part).shape(), core::DType::kF32);
    const ReadLayer read = read_mlx(layer);
    EXPECT_GT(read.scale_error, 0);
    EXPECT_LE(read.scale_error, 0x1p-11);
    layer = layer_of(goldens().at("mlx-4-g32"));
  }
}

TEST(Mlx, NumbersBeyondFloat16AreRefused) {
  const auto infinite = [](StoredLayer& layer, Json&) {
    layer = with_first_group(HUGE_VALF, 0.0f, 0x76543210);
  };
  expect_part(refusal("mlx-4-g32", infinite), "finite");
}

TEST(RowRanges, CoverEachRowOnce) {
  for (const std::int64_t row_elements : {1, 1000, 1 << 21}) {
    std::vector<std::atomic<int>> seen(3000);
    for_row_ranges(3000, row_elements, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        ++seen[static_cast<std::size_t>(row)];
      }
    });
    EXPECT_TRUE(
        std::all_of(seen.begin(), seen.end(), [](const auto& count) { return count == 1; }));
  }
  EXPECT_THROW(for_row_ranges(3000, 1000, [](std::int64_t, std::int64_t) { throw 1; }), int);
}

bool in_order(const Json& golden) {
  return !golden.at("config").value("desc_act", false);
}

// Each part missing, of another type, of another shape; all of them refused by name.
TEST(Exchange, PartsThatAreWrongAreRefusedByName) {
  for (const auto& [name, golden] : goldens().items()) {
    for (const auto& [part, stored] : golden.at("parts").items()) {
      SCOPED_TRACE(name + " " + part);
      const bool optional = part == "weight_shape" || (part == "g_idx" && in_order(golden));
      const std::string& key = part;
      const auto without = [&](StoredLayer& layer, Json&) { layer.parts.erase(key); };
      EXPECT_EQ(refusal(name, without).empty(), optional);
      const auto other_type = [&](StoredLayer& layer, Json&) {
        layer.parts[key] = Tensor::zeros(core::DType::kI16, layer.parts.at(key).shape());
      };
      expect_part(refusal(name, other_type), part);
      const auto longer = [&](StoredLayer& layer, Json&) {
        core::Shape shape = layer.parts.at(key).shape();
        shape.back() += 2;
        layer.parts[key] = Tensor::zeros(layer.parts.at(key).dtype(), shape);
      };
      expect_part(refusal(name, longer), part);
      const auto scalar = [&](StoredLayer& layer, Json&) {
        layer.parts[key] = Tensor::zeros(layer.parts.at(key).dtype(), {});
      };
      if (stored.at("shape") != Json::array({1})) {
        expect_part(refusal(name, scalar), part);
      }
    }
  }
}

// Random bytes in every part: read or refused, and nothing else; sanitizers see what is touched.
TEST(Exchange, DamagedPartsAreReadOrRefused) {
  core::Random random(11);
  int read = 0;
  int refused = 0;
  for (const auto& [name, golden] : goldens().items()) {
    for (int i = 0; i < 200; ++i) {
      const auto damage = [&](StoredLayer& layer, Json&) {
        for (auto& [part, tensor] : layer.parts) {
          const std::int64_t at = random.below(tensor.bytes());
          tensor.mutable_raw()[at] ^= static_cast<std::byte>(1 + random.below(255));
        }
      };
      ++(refusal(name, damage).empty() ? read : refused);
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace nibble::formats::exchange
