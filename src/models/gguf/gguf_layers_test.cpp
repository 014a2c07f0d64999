#include "models/gguf/gguf_layers.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random_values_for_tests.h"
#include "formats/format.h"
#include "formats/gguf_types.h"
#include "io/text_file.h"
#include "models/gguf/gguf_tensor_data.h"

// Blocks as layers, against the bytes and values that the PyPI package gguf made
// (src/gguf_blocks/goldens/gguf_blocks.bin): what a layer decodes to is what that package does, bit
// for bit.
namespace nibble::models {
namespace {

using gguf_blocks::BlockType;

struct Golden {
  const gguf_blocks::BlockType* type = nullptr;
  std::int64_t count = 0;
  std::vector<std::byte> blocks;
  std::vector<float> values;
};

std::vector<Golden> goldens() {
  const std::string file =
      io::read_text_file(NIBBLE_SOURCE_DIR "/src/gguf_blocks/goldens/gguf_blocks.bin", 1 << 20);
  std::vector<Golden> all;
  for (std::size_t at = 0; at < file.size();) {
    std::uint32_t header[2];
    std::memcpy(header, file.data() + at, sizeof(header));
    at += sizeof(header);
    Golden golden;
    golden.type = gguf_blocks::find_block_type(header[0]);
    golden.count = header[1];
    golden.blocks.resize(static_cast<std::size_t>(golden.count * golden.type->block_bytes));
    golden.values.resize(static_cast<std::size_t>(golden.count * golden.type->block_elements));
    std::memcpy(golden.blocks.data(), file.data() + at, golden.blocks.size());
    at += golden.blocks.size();
    std::memcpy(golden.values.data(), file.data() + at, golden.values.size() * sizeof(float));
    at += golden.values.size() * sizeof(float);
    all.push_back(std::move(golden));
  }
  return all;
}

std::vector<float> decoded(const formats::PackedWeight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.n * weight.k));
  for (std::int64_t row = 0; row < weight.n; ++row) {
    formats::decode_row(weight, row,
                        std::span(values).subspan(static_cast<std::size_t>(row * weight.k),
                                                  static_cast<std::size_t>(weight.k)));
  }
  return values;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
    return error.what();
  }
  return "";
}

TEST(GgufLayers, DecodeToTheValuesOfTheIndependentImplementationBitForBit) {
  int types = 0;
  for (const Golden& golden : goldens()) {
    const std::int64_t k = golden.count * golden.type->block_elements;
    const auto layer = layer_of_blocks(*golden.type, golden.blocks, 1, k, {}, "layer");
    const std::vector<float> values = decoded(layer.weight);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]),
                std::bit_cast<std::uint32_t>(golden.values[i]))
          << golden.type->name << " element " << i << ": " << values[i] << ", expected "
          << golden.values[i];
    }
    ++types;
  }
  EXPECT_EQ(types, 13);
}

TEST(GgufLayers, AreWrittenAsTheyWereRead) {
  for (const Golden& golden : goldens()) {
    const std::int64_t k = golden.type->block_elements;
    const auto layer = layer_of_blocks(*golden.type, golden.blocks, golden.count, k, {}, "layer");
    const gguf_blocks::BlockType* const type = blocks_of_layer(layer.weight);
    ASSERT_NE(type, nullptr) << golden.type->name;
    EXPECT_EQ(type->name, golden.type->name);
    const std::vector<std::byte> bytes = write_blocks(*type, layer.weight, {});
    if (type->name != "MXFP4") {  // which has two zeros
      EXPECT_EQ(bytes, golden.blocks) << type->name;
    }
    const auto again = layer_of_blocks(*type, bytes, golden.count, k, {}, "layer");
    EXPECT_EQ(decoded(again.weight), golden.values) << type->name;
  }
}

TEST(GgufLayers, RowsMoveWhole) {
  const RowOrder order = interleaved_rows(8, 2);
  EXPECT_EQ(order, (RowOrder{0, 2, 1, 3, 4, 6, 5, 7}));
  for (const Golden& golden : goldens()) {
    const std::int64_t k = golden.type->block_elements;
    std::vector<std::byte> blocks(static_cast<std::size_t>(8 * golden.type->block_bytes));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      blocks[i] = golden.blocks[i % golden.blocks.size()];
    }
    const auto plain = layer_of_blocks(*golden.type, blocks, 8, k, {}, "layer");
    const auto moved = layer_of_blocks(*golden.type, blocks, 8, k, order, "layer");
    const std::vector<float> from = decoded(plain.weight);
    const std::vector<float> to = decoded(moved.weight);
    for (std::int64_t row = 0; row < 8; ++row) {
      ASSERT_EQ(std::memcmp(&to[static_cast<std::size_t>(order[static_cast<std::size_t>(row)] * k)],
                            &from[static_cast<std::size_t>(row * k)],
                            static_cast<std::size_t>(k) * sizeof(float)),
                0)
          << golden.type->name << " row " << row;
    }
    const gguf_blocks::BlockType* const type = blocks_of_layer(moved.weight);
    EXPECT_EQ(write_blocks(*type, moved.weight, order), write_blocks(*type, plain.weight, {}))
        << type->name;
  }
  EXPECT_NE(message_of([] { interleaved_rows(6, 2); }), "");
}

TEST(GgufLayers, PoisonedScalesAreRefusedByName) {
  for (const Golden& golden : goldens()) {
    const std::int64_t k = golden.count * golden.type->block_elements;
    for (std::int64_t at = 0; at + 1 < golden.type->block_bytes; ++at) {
      std::vector<std::byte> blocks = golden.blocks;  // NaN where a float16 may be
      blocks[static_cast<std::size_t>(at)] = std::byte{0xff};
      blocks[static_cast<std::size_t>(at + 1)] = std::byte{0xff};
      bool finite = true;
      std::vector<float> values(static_cast<std::size_t>(k));
      gguf_blocks::dequantize_blocks(*golden.type,
                                     reinterpret_cast<const std::uint8_t*>(blocks.data()),
                                     golden.count, values.data());
      for (const float value : values) {
        finite = finite && std::isfinite(value);
      }
      const std::string message = message_of(
          [&] { (void)layer_of_blocks(*golden.type, blocks, 1, k, {}, "blk.0.attn_q"); });
      EXPECT_EQ(message.empty(), finite) << golden.type->name << " byte " << at << ": " << message;
      EXPECT_TRUE(finite || message.starts_with("blk.0.attn_q.")) << message;
    }
  }
}

// What is rounded here is what GGUF's types hold, the numbers of their books included.
TEST(GgufLayers, RoundedWeightsMoveIntoBlocksAsTheyAre) {
  constexpr std::int64_t kOutputs = 4;
  constexpr std::int64_t kInputs = 512;
  const std::vector<float> w = core::normal_values(kOutputs * kInputs, 4);
  for (const auto& [word, scheme, wanted] : formats::rounded_types()) {
    EXPECT_EQ(scheme_of_gguf_type(word), scheme);
    EXPECT_EQ(scheme_of_gguf_type(wanted->name), scheme);
    const auto weight = formats::round_to_nearest(w, kOutputs, kInputs, scheme);
    ASSERT_EQ(blocks_of_layer(weight), wanted) << word;
    EXPECT_EQ(&gguf_type_of(weight, std::nullopt), wanted);
    EXPECT_EQ(&gguf_type_of(weight, scheme), wanted);
    const std::vector<std::byte> blocks = write_blocks(*wanted, weight, {});
    EXPECT_EQ(std::ssize(blocks), formats::block_bytes(*wanted, kOutputs, kInputs));
    std::vector<float> values(w.size());
    gguf_blocks::dequantize_blocks(*wanted, reinterpret_cast<const std::uint8_t*>(blocks.data()),
                                   kOutputs * kInputs / wanted->block_elements, values.data());
    EXPECT_EQ(values, decoded(weight)) << word;
  }
}

ops::Linear dense_layer(std::int64_t k) {
  ops::Linear layer;
  layer.name = "layer";
  layer.weight = formats::dense_weight(
      core::from_float32(core::normal_values(4 * k, 8), {4, k}, core::DType::kF32));
  return layer;
}

// Q4_1 has any minimum, not only products of zero points.
TEST(GgufLayers, EveryTypeIsRoundedToWhereItIsAsked) {
  core::ThreadPool pool(1);
  const ops::Linear layer = dense_layer(512);
  for (const auto& [word, scheme, wanted] : formats::rounded_types()) {
    const GgufLayer made = gguf_layer(layer, *wanted, {}, scheme, {}, pool);
    EXPECT_EQ(made.report.to, wanted->name);
    const auto expected = formats::round_to_nearest(layer.weight.dense.data<float>(),
                                                    layer.weight.n, layer.weight.k, scheme);
    EXPECT_EQ(made.bytes, write_blocks(*wanted, expected, {})) << word;
    EXPECT_GT(made.report.squared_error, 0);
  }
}

// Of a folder that someone wrote by hand.
TEST(GgufLayers, CodesThatABlockHasNoBitsForAreRefused) {
  const std::vector<float> w = core::normal_values(2 * 256, 5);
  for (const char* word : {"q5_0", "q5_1", "q6_k"}) {
    auto weight = formats::round_to_nearest(w, 2, 256, scheme_of_gguf_type(word));
    weight.codes.mutable_data<std::uint8_t>()[300] = 250;
    EXPECT_NE(message_of([&] {
                (void)write_blocks(*formats::find_block_type(word), weight, {});
              }).find("code"),
              std::string::npos)
        << word;
  }
}

// Of one tensor the first layer says the type.
TEST(GgufLayers, LayersOfATensorAreRoundedToItsBlocksOnlyWhereThatIsAsked) {
  const std::vector<float> w = core::normal_values(2 * 256, 5);
  core::ThreadPool pool(1);
  ops::Linear layer;
  layer.name = "experts.1";
  layer.weight = formats::round_to_nearest(w, 2, 256, scheme_of_gguf_type("q2_k"));
  const formats::Scheme wanted = scheme_of_gguf_type("q4_k");
  const gguf_blocks::BlockType& type = gguf_type_of(layer.weight, wanted);
  EXPECT_NE(message_of([&] {
              (void)gguf_layer(layer, type, {}, std::nullopt, {}, pool);
            }).find("different schemes"),
            std::string::npos);
  const GgufLayer rounded = gguf_layer(layer, type, {}, wanted, {}, pool);
  EXPECT_EQ(rounded.report.to, "Q4_K");
  EXPECT_EQ(rounded.bytes.size(), 2u * 144);
  EXPECT_GT(rounded.report.squared_error, 0);
}

TEST(GgufLayers, BlocksOf256MakeWayWhereRowsAreNoMultipleOfThat) {
  const auto type_of = [](std::string_view name, std::int64_t k) {
    const auto weight = formats::dense_weight(core::Tensor::zeros(core::DType::kF32, {2, k}));
    return std::string(gguf_type_of(weight, scheme_of_gguf_type(name)).name);
  };
  EXPECT_EQ(type_of("Q4_K", 512), "Q4_K");
  EXPECT_EQ(type_of("iq4_xs", 256), "IQ4_XS");
  EXPECT_EQ(type_of("Q4_K", 320), "IQ4_NL");
  EXPECT_EQ(type_of("Q2_K", 320), "IQ4_NL");
  EXPECT_EQ(type_of("Q5_K", 320), "Q8_0");
  EXPECT_EQ(type_of("Q6_K", 48), "F16");
  EXPECT_EQ(type_of("Q8_0", 320), "Q8_0");
  EXPECT_EQ(type_of("Q4_1", 64), "Q4_1");
  EXPECT_EQ(type_of("int4-asym-g32", 64), "Q4_1");
  EXPECT_EQ(type_of("Q5_0", 64), "Q5_0");
  EXPECT_EQ(type_of("iq4_nl", 48), "F16");
  EXPECT_EQ(type_of("F16", 64), "F16");
  EXPECT_NE(message_of([] { (void)scheme_of_gguf_type("Q7_K"); }), "");
}

}  // namespace
}  // namespace nibble::models
