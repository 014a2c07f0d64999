// What writers make of layers that other tools compressed: the bytes of those tools, and layers
// that the readers read back.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/exchange/golden_layers_for_tests.h"
#include "formats/exchange/integer_grid.h"
#include "formats/format.h"

namespace nibble::formats::exchange {
namespace {

std::unique_ptr<const Writer> writer_of(const std::string& method) {
  for (const Kind& kind : kinds()) {
    if (kind.method == method && kind.make_writer != nullptr) {
      return kind.make_writer();
    }
  }
  return nullptr;
}

PackedWeight weight_of(const std::string& name) {
  const Json& golden = goldens().at(name);
  return make_reader(golden.at("config"))->read(layer_of(golden)).weight;
}

std::optional<IntegerGrid> fitted_to(const PackedWeight& weight, const Scheme& scheme) {
  auto grid = grid_of(weight);
  return grid ? fitted(std::move(*grid), scheme) : std::nullopt;
}

// Written in the writer's nearest scheme and read again; empty where the grid does not fit.
// `expected`: the weights that shall be read.
std::vector<float> through(const std::string& method, const PackedWeight& weight,
                           std::string& scheme_read, std::vector<float>* expected = nullptr) {
  const auto writer = writer_of(method);
  const Scheme scheme = writer->nearest(weight.scheme);
  EXPECT_TRUE(writer->nearest(scheme) == scheme) << to_string(scheme);
  auto grid = fitted_to(weight, scheme);
  if (!grid || !writer->problem(scheme, weight.n, weight.k).empty()) {
    return {};
  }
  if (expected != nullptr) {
    *expected = writer->written_weights(*grid);
    *expected = expected->empty() ? decoded(weight) : *expected;
  }
  StoredLayer layer{"layer", weight.n, weight.k, {}};
  for (const WrittenPart& part : writer->write(*grid)) {
    layer.parts.emplace(part.name, part.tensor);
  }
  Json config = writer->config({scheme, scheme.inputs.ordered, {"layer"}, {}});
  config["quant_method"] = method;  // mlx-lm's folders have none
  const ReadLayer read = make_reader(config)->read(layer);
  scheme_read = to_string(read.weight.scheme);
  return decoded(read.weight);
}

TEST(Writers, WriteTheBytesOfTheToolsThatCompressedTheLayers) {
  for (const char* name : {"gptq-4-sym-g32", "gptq-8-sym-row", "awq-g32", "awq-sym-g16",
                           "ct-pack-4-sym-g32", "ct-int-w8a8", "mlx-3-g32", "mlx-8-g64"}) {
    SCOPED_TRACE(name);
    const Json& golden = goldens().at(name);
    const PackedWeight weight = weight_of(name);
    const auto writer = writer_of(golden.at("config").at("quant_method"));
    const auto grid = fitted_to(weight, writer->nearest(weight.scheme));
    ASSERT_TRUE(grid);
    const std::vector<WrittenPart> parts = writer->write(*grid);
    EXPECT_EQ(parts.size(), golden.at("parts").size());
    for (const WrittenPart& part : parts) {
      const Tensor expected = tensor_of(golden.at("parts").at(std::string(part.name)));
      ASSERT_EQ(part.tensor.dtype(), expected.dtype()) << part.name;
      ASSERT_EQ(part.tensor.shape(), expected.shape()) << part.name;
      EXPECT_EQ(std::memcmp(part.tensor.raw(), expected.raw(),
                            static_cast<std::size_t>(expected.bytes())),
                0)
          << part.name;
    }
  }
}

TEST(Writers, WhatFitsIsReadBackWithTheSameWeights) {
  int exact = 0;
  for (const auto& [name, golden] : goldens().items()) {
    const PackedWeight weight = weight_of(name);
    for (const char* method : {"gptq", "awq", "compressed-tensors", "mlx"}) {
      SCOPED_TRACE(name + " to " + method);
      std::string scheme;
      std::vector<float> expected;
      const std::vector<float> written = through(method, weight, scheme, &expected);
      if (!written.empty()) {
        EXPECT_EQ(written, expected);
        ++exact;
      }
    }
  }
  EXPECT_GE(exact, 20);
}

TEST(Writers, SchemesAreKeptWhereTheTargetHasThem) {
  const auto expect = [](const char* method, const std::string& golden, const std::string& scheme) {
    std::string read;
    EXPECT_FALSE(through(method, weight_of(golden), read).empty()) << golden;
    EXPECT_EQ(read, scheme) << golden;
  };
  expect("compressed-tensors", "gptq-4-sym-g32", "int4-sym-g32");
  expect("compressed-tensors", "gptq-3-sym-row-v2", "int4-sym-row");
  expect("compressed-tensors", "ct-int-w8a8", "int8-sym-row-a8");
  expect("gptq", "ct-pack-2-channel", "int2-sym-row");
  expect("gptq", "gptq-3-sym-row-v2", "int3-sym-row");
  expect("gptq", "ct-int-tensor", "int8-sym-row");
  expect("mlx", "gptq-8-asym-g64", "int8-min-g64");  // its biases are rounded
  expect("mlx", "ct-pack-4-sym-g32", "int4-sym-g32");
  expect("mlx", "mlx-4-g32-trained", "int4-min-g32");
  expect("awq", "gptq-4-asym-g32-v2", "int4-asym-g32");
  expect("awq", "gptq-4-sym-g32", "int4-sym-g32");
}

// Act-order: a symmetric grid whose inputs stand in an order.
TEST(GptqWriter, AnOrderBecomesTheGroupOfEachInput) {
  const Scheme scheme = parse_scheme("int4-sym-g32-order");
  PackedWeightBuilder builder(scheme, 32, 64);
  std::vector<std::int32_t> order(64);
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<std::int32_t>(i * 5 % 64);
  }
  builder.set_permutation(order);
  for (std::int64_t row = 0; row < 32; ++row) {
    std::vector<std::uint8_t> codes(64);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<std::uint8_t>((i * 7 + static_cast<std::size_t>(row)) % 16);
    }
    builder.set_group(row, 0, {0.25f, 8});
    builder.set_group(row, 1, {0.5f, 8});
    builder.set_codes(row, codes);
  }
  const PackedWeight weight = builder.finish();
  std::string read;
  EXPECT_EQ(through("gptq", weight, read), decoded(weight));
  EXPECT_EQ(read, "int4-sym-g32-order");
  EXPECT_TRUE(through("awq", weight, read).empty());
  EXPECT_TRUE(through("compressed-tensors", weight, read).empty());
}

TEST(GptqWriter, ConfigNamesWhatIsNotCompressed) {
  const auto writer = writer_of("gptq");
  const Scheme scheme = parse_scheme("int4-sym-row");
  const Json plain = writer->config({scheme, false, {"a.b"}, {}});
  EXPECT_EQ(plain.at("group_size"), -1);
  EXPECT_EQ(plain.at("checkpoint_format"), "gptq");
  EXPECT_FALSE(plain.contains("dynamic"));
  const Json some = writer->config({scheme, true, {"a.b"}, {"a.c"}});
  EXPECT_EQ(some.at("desc_act"), true);
  EXPECT_EQ(some.at("modules_in_block_to_quantize"), Json::parse(R"([["a.b"]])"));
  EXPECT_TRUE(some.at("dynamic").contains("-:^a\\.c$"));
}

// Two groups of one row: scale * zero of the second has 12 bits, one more than float16.
TEST(MlxWriter, BiasesAreRoundedAndTheWeightsSaySo) {
  IntegerGrid grid{.bits = 4, .n = 1, .k = 64, .group = 32};
  grid.codes.assign(64, 3);
  grid.codes[1] = 15;
  grid.scales = {0.25f, 1.0f + 0x1p-10f};
  grid.zeros = {8, 11};
  const auto writer = writer_of("mlx");
  const std::vector<WrittenPart> parts = writer->write(grid);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, "weight");
  EXPECT_EQ(parts[0].stored_as, "U32");
  EXPECT_EQ(parts[0].tensor.data<std::int32_t>()[0], 0x333333f3);
  EXPECT_EQ(core::to_float32(parts[1].tensor), grid.scales);
  const float bias = -11.0078125f;  // of 11.0107421875, in steps of 2^-7
  EXPECT_EQ(core::to_float32(parts[2].tensor), (std::vector<float>{-2.0f, bias}));
  const std::vector<float> weights = writer->written_weights(grid);
  ASSERT_EQ(weights.size(), 64u);
  EXPECT_EQ(weights[0], 0.25f * (3 - 8));
  EXPECT_EQ(weights[1], 0.25f * (15 - 8));
  EXPECT_EQ(weights[32], 3 * (1.0f + 0x1p-10f) + bias);
  grid.scales[0] = 60000.0f;
  EXPECT_THROW(static_cast<void>(writer->write(grid)), core::Error);
}

TEST(MlxWriter, GroupsAreTheLargestThatDivideThoseOfTheScheme) {
  const auto nearest = [](const char* scheme) {
    return to_string(writer_of("mlx")->nearest(parse_scheme(scheme)));
  };
  EXPECT_EQ(nearest("int4-sym-g128"), "int4-asym-g128");
  EXPECT_EQ(nearest("int3-asym-g256"), "int3-asym-g128");
  EXPECT_EQ(nearest("int4-sym-g96"), "int4-asym-g32");
  EXPECT_EQ(nearest("int4-sym-g16"), "int4-asym-g32");
  EXPECT_EQ(nearest("int8-sym-row-a8"), "int8-asym-g128");
  EXPECT_EQ(nearest("lut4-nf4-g64"), "int4-asym-g64");
  EXPECT_EQ(nearest("int4-min-g64"), "int4-min-g64");
  EXPECT_EQ(nearest("int4-min-g16"), "int4-min-g32");
  EXPECT_EQ(nearest("int4-min-g32-s8"), "int4-asym-g32");
}

TEST(Writers, ShapesThatWordsOrGroupsDoNotDivideAreNamed) {
  const Scheme g32 = parse_scheme("int4-sym-g32");
  EXPECT_EQ(writer_of("gptq")->problem(g32, 32, 64), "");
  EXPECT_NE(writer_of("gptq")->problem(g32, 33, 64), "");
  EXPECT_NE(writer_of("gptq")->problem(g32, 32, 72), "");
  EXPECT_NE(writer_of("awq")->problem(parse_scheme("int4-asym-g32"), 12, 64), "");
  EXPECT_NE(writer_of("compressed-tensors")->problem(g32, 32, 80), "");
  EXPECT_EQ(writer_of("compressed-tensors")->problem(parse_scheme("int4-sym-row"), 3, 80), "");
}

TEST(IntegerGrids, LargeGroupsAreSmallOnesWithTheSameScale) {
  const PackedWeight row = weight_of("gptq-8-sym-row");
  const auto grid = fitted_to(row, parse_scheme("int8-sym-g32"));
  ASSERT_TRUE(grid);
  ASSERT_EQ(grid->scales.size(), 64u);
  EXPECT_EQ(grid->scales[6], grid->scales[7]);
  EXPECT_FALSE(fitted_to(weight_of("gptq-4-sym-g32"), parse_scheme("int4-sym-g64")));
  EXPECT_FALSE(fitted_to(weight_of("gptq-4-sym-g32"), parse_scheme("int3-sym-g32")));
  EXPECT_FALSE(fitted_to(weight_of("awq-g32"), parse_scheme("int4-sym-g32")));
  EXPECT_FALSE(fitted_to(weight_of("bnb-nf4"), parse_scheme("int4-sym-g32")));
  EXPECT_FALSE(fitted_to(weight_of("gptq-4-asym-g32-order"), parse_scheme("int4-asym-g32")));
}

}  // namespace
}  // namespace nibble::formats::exchange
