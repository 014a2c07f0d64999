#include "models/gguf/gguf_source.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "core/temporary_folder_for_tests.h"
#include "io/gguf_writer.h"
#include "models/foreign_layers.h"
#include "models/token_table.h"

// A file of layers in blocks, opened as it is and decoded: both must be the same numbers.
namespace nibble::models {
namespace {

const gguf_blocks::BlockType& type_named(std::string_view name) {
  for (const gguf_blocks::BlockType& type : gguf_blocks::block_types()) {
    if (type.name == name) {
      return type;
    }
  }
  throw std::logic_error("no such type");
}

// Random blocks; float16 numbers in them get small exponents.
io::GgufOutput tensor(const std::string& name, std::string_view type_name, core::Shape shape) {
  const gguf_blocks::BlockType& type = type_named(type_name);
  const std::int64_t count = core::element_count(shape) / type.block_elements;
  const auto bytes = [&type, count] {
    core::Random random(static_cast<std::uint64_t>(count));
    std::vector<std::byte> all(static_cast<std::size_t>(count * type.block_bytes));
    for (std::byte& byte : all) {
      byte = static_cast<std::byte>(random.below(256));
    }
    gguf_blocks::Block parts = {};
    for (std::int64_t i = 0; type.form != nullptr && i < count; ++i) {
      auto* const block = reinterpret_cast<std::uint8_t*>(all.data()) + i * type.block_bytes;
      type.form->unpack(block, parts);
      parts.d = core::to_fp16(0.01f * random.normal());
      parts.m = core::to_fp16(0.01f * random.normal());
      parts.exponent = 120;
      type.form->pack(parts, block);
    }
    return all;
  };
  return {name, std::move(shape), &type, bytes};
}

class GgufSourceOfBlocks : public testing::Test {
 protected:
  void SetUp() override {
    io::GgufKeys keys;
    keys.emplace("general.architecture", io::GgufValue(std::string("llama")));
    keys.emplace("llama.attention.head_count", io::GgufValue(std::uint32_t{4}));
    keys.emplace("llama.attention.head_count_kv", io::GgufValue(std::uint32_t{2}));
    io::write_gguf(path_, keys,
                   {tensor("token_embd.weight", "Q6_K", {64, 256}),
                    tensor("blk.0.attn_q.weight", "Q4_K", {256, 256}),
                    tensor("blk.0.attn_k.weight", "Q4_0", {128, 256}),
                    tensor("blk.0.attn_v.weight", "IQ4_XS", {128, 256}),
                    tensor("blk.0.attn_output.weight", "MXFP4", {256, 256}),
                    tensor("blk.0.ffn_norm.weight", "F32", {256}),
                    tensor("blk.0.ffn_down_exps.weight", "Q5_K", {3, 256, 256})});
  }

  GgufSource open(StoredLayers stored) const {
    return GgufSource(io::GgufFile::open(path_), stored);
  }

  core::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "blocks.gguf";
};

TEST_F(GgufSourceOfBlocks, LayersAreTheNumbersOfTheDecodedTensors) {
  const GgufSource stored = open(StoredLayers::kAsTheyAre);
  const GgufSource decoded = open(StoredLayers::kDecoded);
  const std::tuple<std::string, std::int64_t, const char*> layers[] = {
      {"model.layers.0.self_attn.q_proj", 256, "int4-min-g32-s8"},
      {"model.layers.0.self_attn.k_proj", 128, "int4-sym-g32"},
      {"model.layers.0.self_attn.v_proj", 128, "lut4-iq4-g32-s8"},
      {"model.layers.0.self_attn.o_proj", 256, "mxfp4"},
      {"model.layers.0.block_sparse_moe.experts.0.w2", 256, "int5-min-g32-s8"},
      {"model.layers.0.block_sparse_moe.experts.2.w2", 256, "int5-min-g32-s8"}};
  std::map<std::string, formats::Scheme> schemes;
  for (const auto& [name, n, scheme] : layers) {
    const auto layer = stored.foreign_layer(name, n, 256);
    ASSERT_TRUE(layer) << name;
    EXPECT_EQ(formats::to_string(layer->read.weight.scheme), scheme) << name;
    EXPECT_EQ(layer->tensors, std::vector<std::string>{name + ".weight"});
    schemes.emplace(name, layer->read.weight.scheme);
    EXPECT_FALSE(decoded.foreign_layer(name, n, 256)) << name;
    const std::vector<float> expected = core::to_float32(decoded.load(name + ".weight"));
    std::vector<float> row(256);
    for (std::int64_t i = 0; i < n; ++i) {
      formats::decode_row(layer->read.weight, i, row);
      ASSERT_TRUE(std::equal(row.begin(), row.end(), expected.begin() + i * 256))
          << name << " row " << i;
    }
  }
  EXPECT_EQ(stored.recipe(schemes), "gguf Q5_K, Q4_K, MXFP4, Q4_0, IQ4_XS");
  EXPECT_TRUE(stored.remarks().empty());
  ASSERT_EQ(decoded.remarks().size(), 1u);
  EXPECT_EQ(decoded.remarks()[0],
            "what the file has in IQ4_XS, MXFP4, Q4_0, Q4_K, Q5_K, Q6_K was decoded to float32");
}

TEST_F(GgufSourceOfBlocks, ATokenTableInBlocksIsTheOutputLayerToo) {
  const GgufSource stored = open(StoredLayers::kAsTheyAre);
  const auto output = stored.foreign_layer("lm_head", 64, 256);
  ASSERT_TRUE(output);
  EXPECT_EQ(formats::to_string(output->read.weight.scheme), "int6-sym-g16-s8");
  ASSERT_EQ(output->read.remarks.size(), 1u);
  EXPECT_EQ(output->read.remarks[0],
            "the 6 bits of codes of Q6_K are held in 8: 8.56 bits per weight, 6.56 in the file");
  const std::vector<float> table = core::to_float32(stored.load("model.embed_tokens.weight"));
  std::vector<float> row(256);
  formats::decode_row(output->read.weight, 63, row);
  EXPECT_TRUE(std::equal(row.begin(), row.end(), table.begin() + 63 * 256));
  EXPECT_FALSE(open(StoredLayers::kDecoded).contains("lm_head.weight"));
}

TEST_F(GgufSourceOfBlocks, RowsOfTheTokenTableAreDecodedOneByOne) {
  const GgufSource stored = open(StoredLayers::kAsTheyAre);
  const auto rows = stored.stored_rows("model.embed_tokens.weight");
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(rows->rows(), 64);
  EXPECT_EQ(rows->columns(), 256);
  EXPECT_EQ(rows->bytes(), 64 * 210);  // one block a row
  const std::vector<float> table = core::to_float32(stored.load("model.embed_tokens.weight"));
  std::vector<float> row(256);
  for (const std::int64_t i : {63, 0, 17}) {
    rows->read(i, row);
    EXPECT_TRUE(std::equal(row.begin(), row.end(), table.begin() + i * 256)) << "row " << i;
  }
  const TokenTable whole(rows);
  EXPECT_EQ(core::to_float32(whole.plain()), table);
  EXPECT_EQ(whole.shape(), (core::Shape{64, 256}));
  EXPECT_FALSE(whole.is(whole.plain()));
  const std::vector<float> part = core::to_float32(whole.plain_rows(5, 42));
  ASSERT_EQ(part.size(), 37u * 256);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), table.begin() + 5 * 256));
  EXPECT_EQ(stored.stored_rows("model.layers.0.post_attention_layernorm.weight"), nullptr);
  EXPECT_EQ(stored.stored_rows("model.layers.0.self_attn.q_proj.weight"), nullptr);  // reordered
  EXPECT_EQ(open(StoredLayers::kDecoded).stored_rows("model.embed_tokens.weight"), nullptr);
}

TEST_F(GgufSourceOfBlocks, LayersAreMadeAgainWhenTheyAreWanted) {
  const std::string name = "model.layers.0.self_attn.v_proj";
  const auto source = std::make_shared<const GgufSource>(open(StoredLayers::kAsTheyAre));
  ForeignLayers layers(source);
  const formats::PackedWeight before = source->foreign_layer(name, 128, 256)->read.weight;
  const formats::PackedWeight kept = layers.keep(name, before);
  const auto expect_same = [&] {
    std::vector<float> a(256);
    std::vector<float> b(256);
    for (std::int64_t row = 0; row < 128; ++row) {
      formats::decode_row(before, row, a);
      formats::decode_row(kept, row, b);
      ASSERT_EQ(a, b) << row;
    }
  };
  expect_same();
  const std::int64_t bytes = layers.bytes();
  EXPECT_GE(bytes + before.book.bytes(), formats::stored_bytes(before)) << "books stay";
  layers.hold(name);
  layers.hold(name);
  layers.let_go(name);
  EXPECT_EQ(layers.bytes(), bytes);
  expect_same();
  layers.let_go(name);
  EXPECT_EQ(layers.bytes(), 0);
  EXPECT_DEATH(expect_same(), "");
  layers.hold(name);
  expect_same();
  layers.hold("another");  // was not kept
  layers.let_go("another");
}

TEST_F(GgufSourceOfBlocks, RefusesLayersOfAnotherShapeAndLeavesOthersAlone) {
  const GgufSource stored = open(StoredLayers::kAsTheyAre);
  EXPECT_FALSE(stored.foreign_layer("model.layers.0.post_attention_layernorm", 1, 256));
  EXPECT_FALSE(stored.foreign_layer("model.layers.7.self_attn.q_proj", 256, 256));
  for (const auto& [n, k] : {std::pair{512, 256}, std::pair{256, 512}, std::pair{128, 512}}) {
    try {
      (void)stored.foreign_layer("model.layers.0.self_attn.q_proj", n, k);
      FAIL() << n << " x " << k;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
      EXPECT_NE(std::string(error.what()).find("self_attn.q_proj.weight"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace nibble::models
