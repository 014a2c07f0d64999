#include "tune/qat/fewer_layers.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "engine/encoder.h"
#include "engine/text_to_text.h"
#include "io/temporary_folder_for_tests.h"
#include "tune/block_layers.h"
#include "tune/qat/distillation.h"
#include "tune/qat/encoder_for_tests.h"
#include "tune/qat/student.h"
#include "tune/qat/train_student.h"

namespace nibble::tune {
namespace {

using Layers = std::vector<std::int64_t>;
using ops::cpu::CpuOps;

std::vector<float> labels_of(std::shared_ptr<const models::Model> model,
                             const std::vector<LabelledText>& texts) {
  std::vector<engine::EncoderText> inputs;
  for (const LabelledText& text : texts) {
    inputs.push_back({text.tokens, text.types});
  }
  return engine::make_encoder(std::move(model), {})->classify(inputs).values;
}

TEST(FewerLayers, AreEvenlyChosenAndEndWithTheLast) {
  EXPECT_EQ(every_other_layer(6, 3, "--layers"), (Layers{1, 3, 5}));
  EXPECT_EQ(every_other_layer(12, 6, "--layers"), (Layers{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(every_other_layer(6, 4, "--layers"), (Layers{0, 2, 3, 5}));
  EXPECT_EQ(every_other_layer(6, 1, "--layers"), (Layers{5}));
  EXPECT_EQ(every_other_layer(3, 3, "--layers"), (Layers{0, 1, 2}));
  EXPECT_THROW(every_other_layer(6, 7, "--layers"), core::Error);
  EXPECT_THROW(every_other_layer(6, 0, "--layers"), core::Error);
}

TEST(FewerLayers, MakeTheModelOfTheseBlocks) {
  const auto model = small_encoder();
  const auto texts = random_texts(5, 2);
  const auto reduced = std::make_shared<models::Model>(with_layers(*model, {{1}, {}}));
  auto other = std::make_shared<models::Model>(*model);
  other->network.encoder.blocks = {model->network.encoder.blocks[1]};
  EXPECT_EQ(labels_of(reduced, texts), labels_of(other, texts));
  EXPECT_NE(labels_of(reduced, texts), labels_of(model, texts));
  EXPECT_EQ((*reduced->config_json)["num_hidden_layers"], 1);
  EXPECT_EQ(reduced->network.config.layers, 1);

  std::size_t of_layers = 0;
  for (const std::string& name : reduced->source->names()) {
    std::string old = name;
    if (const std::size_t at = name.find(".layer.0."); at != std::string::npos) {
      old.replace(at, 9, ".layer.1.");
      ++of_layers;
    }
    const core::Tensor now = reduced->source->load(name);
    const core::Tensor before = model->source->load(old);
    ASSERT_EQ(now.shape(), before.shape()) << name;
    EXPECT_TRUE(std::equal(now.raw(), now.raw() + now.bytes(), before.raw())) << name;
  }
  EXPECT_EQ(of_layers, 16U);
  EXPECT_EQ(reduced->source->names().size() + 16, model->source->names().size());
  EXPECT_FALSE(reduced->source->contains("bert.encoder.layer.1.output.dense.weight"));
  io::expect_error(core::ErrorKind::kInvalidModel, {"there is no tensor"}, [&] {
    (void)reduced->source->load("bert.encoder.layer.1.output.dense.weight");
  });
}

TEST(FewerLayers, MakeTheDecoderOfTheseBlocks) {
  for (const auto& model : {small_decoder(), small_gpt2()}) {
    const auto reduced = std::make_shared<models::Model>(
        with_layers(*model, every_other_layer(model->network, {0, 1})));
    ASSERT_EQ(reduced->network.decoder.blocks.size(), 1U);
    EXPECT_EQ(reduced->network.config.layers, 1);
    EXPECT_EQ(layers_of(reduced->network), "1");
    const auto& now = reduced->network.decoder.blocks.front();
    const auto& before = model->network.decoder.blocks.back();
    EXPECT_EQ(decoded(now.mlp->down.parts.front().weight),
              decoded(before.mlp->down.parts.front().weight));
    EXPECT_NE(now.mlp->down.parts.front().name, before.mlp->down.parts.front().name);
  }
}

// config.json tells which layers see a window only.
TEST(FewerLayers, AreNotLeftOutWhereLayersAttendOtherwise) {
  const auto model = model_of_family("gemma3-text");
  io::expect_error(core::ErrorKind::kUsage, {"several kinds of attention"}, [&] {
    (void)with_layers(*model, {{}, {0}});
  });
}

std::vector<float> written_of(std::shared_ptr<const models::Model> model,
                              const std::vector<LabelledText>& texts) {
  const auto writer = engine::make_text_to_text(std::move(model), {});
  std::vector<float> all;
  for (const LabelledText& text : texts) {
    const auto logits = writer->score(text.tokens, text.written);
    all.insert(all.end(), logits.values.begin(), logits.values.end());
  }
  return all;
}

TEST(FewerLayers, AreChosenInEachStack) {
  const auto model = small_encoder_decoder();  // 2 and 3 layers
  const KeptLayers fewer = every_other_layer(model->network, {.encoder = 1, .decoder = 2});
  EXPECT_EQ(fewer.encoder, (Layers{1}));
  EXPECT_EQ(fewer.decoder, (Layers{0, 2}));
  EXPECT_EQ(among_all_blocks(fewer, model->network), (Layers{1, 2, 4}));
  const KeptLayers all = every_other_layer(model->network, {.encoder = 0, .decoder = 3});
  EXPECT_EQ(among_all_blocks(all, model->network), (Layers{0, 1, 2, 3, 4}));
  io::expect_error(core::ErrorKind::kUsage, {"--encoder-layers 3", "has 2"},
                   [&] { (void)every_other_layer(model->network, {.encoder = 3, .decoder = 1}); });
  io::expect_error(core::ErrorKind::kUsage, {"--decoder-layers 4", "has 3"},
                   [&] { (void)every_other_layer(model->network, {.encoder = 1, .decoder = 4}); });
}

TEST(FewerLayers, MakeTheEncoderDecoderOfTheseBlocks) {
  const auto model = small_encoder_decoder();
  const auto texts = random_pairs(5, 2);
  const auto reduced = std::make_shared<models::Model>(with_layers(*model, {{1}, {0, 2}}));
  auto other = std::make_shared<models::Model>(*model);
  other->network.encoder.blocks = {model->network.encoder.blocks[1]};
  const auto& blocks = model->network.decoder.blocks;
  other->network.decoder.blocks = {blocks[0], blocks[2]};
  EXPECT_EQ(written_of(reduced, texts), written_of(other, texts));
  EXPECT_NE(written_of(reduced, texts), written_of(model, texts));
  EXPECT_EQ((*reduced->config_json)["encoder_layers"], 1);
  EXPECT_EQ((*reduced->config_json)["num_hidden_layers"], 1);
  EXPECT_EQ((*reduced->config_json)["decoder_layers"], 2);
  EXPECT_EQ(reduced->network.config.layers, 2);
  EXPECT_EQ(reduced->network.config.windows.size(), 2U);
  EXPECT_EQ(layers_of(reduced->network), "1-2");
  const auto load = [](const models::Model& from, const std::string& name) {
    return core::to_float32(from.source->load(name));
  };
  const std::string cross = "encoder_attn_layer_norm.weight";
  EXPECT_EQ(load(*reduced, "model.decoder.layers.1." + cross),
            load(*model, "model.decoder.layers.2." + cross));
  EXPECT_EQ(load(*reduced, "model.encoder.layers.0.fc1.weight"),
            load(*model, "model.encoder.layers.1.fc1.weight"));
  EXPECT_EQ(reduced->network.decoder.blocks[1].cross->norm.name,
            "model.decoder.layers.1.encoder_attn_layer_norm");
  EXPECT_FALSE(reduced->source->contains("model.decoder.layers.2." + cross));
  EXPECT_FALSE(reduced->source->contains("model.encoder.layers.1.fc1.weight"));
  EXPECT_TRUE(reduced->source->contains("model.shared.weight"));
}

// The first layer is the teacher's first, and is compared with the one that it is told.
TEST(FewerLayers, LearnFromTheLayersThatTheyAreMappedTo) {
  const auto model = small_encoder();
  const auto texts = random_texts(6, 4);
  CpuOps teacher_ops{{1, ops::ActivationPrecision::kFloat}};
  CpuOps ops{{1, ops::ActivationPrecision::kFloat}};
  Student student(with_layers(*model, {{0}, {}}).network, rounded_by("f32"), {}, ops);
  const auto terms_at = [&](const Layers& layers) {
    Distillation distillation(model->network, teacher_ops, student.network(), ops, {0, 1, 1, 1, 1},
                              layers);
    return distillation.step(all_of(texts), student.gradients());
  };
  const LossTerms same = terms_at({0});
  EXPECT_EQ(same.hidden, 0.0);
  EXPECT_EQ(same.attention, 0.0);
  EXPECT_EQ(same.scores, 0.0);
  EXPECT_GT(same.logits, 0.0);
  const LossTerms other = terms_at({1});
  EXPECT_GT(other.hidden, 1e-4);
  EXPECT_GT(other.scores, 1e-6);
}

TEST(FewerLayers, AreTrainedAndWritten) {
  const io::TemporaryFolder folder;
  const auto model = small_encoder();
  const auto texts = random_texts(13, 8);
  StudentOptions options;
  options.recipe = rounded_by("int4-sym-row-a4");
  options.layers = {1, 0};
  options.loss = {0, 1, 1, 1, 0};
  options.epochs = 2;
  options.batch = 5;
  options.threads = 1;
  options.learning_rate = 1e-3;
  options.csv = folder / "loss.csv";
  std::shared_ptr<const models::Model> judged;
  train_student(
      *model, texts, options, folder / "made", false,
      [&](std::shared_ptr<const models::Model> student) {
        judged = std::move(student);
        return std::string();
      },
      core::silent_progress());
  const auto made = models::open_model(folder / "made");
  EXPECT_EQ(made->compression.recipe, "qat-layers1-int4-sym-row-a4");
  EXPECT_EQ(made->network.encoder.blocks.size(), 1U);
  EXPECT_EQ(made->compression.schemes.size(), 6U);
  EXPECT_EQ(labels_of(made, texts), labels_of(judged, texts));
  const std::string card = io::folder_contents(folder / "made").at("README.md");
  EXPECT_NE(card.find("| layers | 1 (was 2) |"), std::string::npos) << card;
  EXPECT_NE(card.find("| trained | while it ran so: 13 texts, 2 epochs |"), std::string::npos);
  options.layers = {3, 0};
  io::expect_error(core::ErrorKind::kUsage, {"--layers 3", "has 2"}, [&] {
    train_student(*model, texts, options, folder / "more", false, {}, core::silent_progress());
  });
  EXPECT_FALSE(std::filesystem::exists(folder / ".more.partial"));
}

// Layers of both stacks, each compared with the one that it begins as.
TEST(FewerLayers, AreTrainedAndWrittenOfEncoderDecoders) {
  const io::TemporaryFolder folder;
  const auto model = small_encoder_decoder();
  const auto texts = random_pairs(13, 8);
  StudentOptions options;
  options.recipe = rounded_by("f32");
  options.layers = {1, 2};
  options.loss = {0, 1, 1, 1, 0};
  options.batch = 5;
  options.threads = 1;
  options.learning_rate = 1e-3;
  std::vector<std::vector<float>> judged;
  train_student(
      *model, texts, options, folder / "made", false,
      [&](std::shared_ptr<const models::Model> student) {
        judged.push_back(written_of(std::move(student), texts));
        return std::string();
      },
      core::silent_progress());
  const auto start = std::make_shared<models::Model>(with_layers(*model, {{1}, {0, 2}}));
  EXPECT_EQ(judged.front(), written_of(start, texts));
  const auto made = models::open_model(folder / "made");
  EXPECT_EQ(made->compression.recipe, "qat-layers1-2-f32");
  EXPECT_EQ(written_of(made, texts), judged.back());
  EXPECT_NE(judged.back(), judged.front());
  const std::string card = io::folder_contents(folder / "made").at("README.md");
  EXPECT_NE(card.find("| layers | 1-2 (was 2-3) |"), std::string::npos) << card;
}

// The layers that are left give what the teacher's give.
TEST(FewerLayers, LearnFromTheLayersOfTheirStack) {
  const auto model = small_encoder_decoder();
  const auto texts = random_pairs(6, 4);
  CpuOps teacher_ops{{1, ops::ActivationPrecision::kFloat}};
  CpuOps ops{{1, ops::ActivationPrecision::kFloat}};
  const KeptLayers kept = {{0, 1}, {0}};
  Student student(with_layers(*model, kept).network, rounded_by("f32"), {}, ops);
  const auto terms_at = [&](const Layers& layers) {
    Distillation distillation(model->network, teacher_ops, student.network(), ops, {0, 1, 1, 1, 1},
                              layers);
    return distillation.step(all_of(texts), student.gradients());
  };
  const LossTerms same = terms_at(among_all_blocks(kept, model->network));
  EXPECT_EQ(same.hidden, 0.0);
  EXPECT_EQ(same.attention, 0.0);
  EXPECT_EQ(same.scores, 0.0);
  EXPECT_GT(same.logits, 0.0);
  EXPECT_GT(terms_at({0, 1, 3}).hidden, 1e-4);
}

}  // namespace
}  // namespace nibble::tune
