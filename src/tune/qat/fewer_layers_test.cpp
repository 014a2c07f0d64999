#include "tune/qat/fewer_layers.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/error.h"
#include "engine/encoder.h"
#include "io/temporary_folder_for_tests.h"
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
  EXPECT_EQ(every_other_layer(6, 3), (Layers{1, 3, 5}));
  EXPECT_EQ(every_other_layer(12, 6), (Layers{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(every_other_layer(6, 4), (Layers{0, 2, 3, 5}));
  EXPECT_EQ(every_other_layer(6, 1), (Layers{5}));
  EXPECT_EQ(every_other_layer(3, 3), (Layers{0, 1, 2}));
  EXPECT_THROW(every_other_layer(6, 7), core::Error);
  EXPECT_THROW(every_other_layer(6, 0), core::Error);
}

TEST(FewerLayers, MakeTheModelOfTheseBlocks) {
  const auto model = small_encoder();
  const auto texts = random_texts(5, 2);
  const auto reduced = std::make_shared<models::Model>(with_layers(*model, {1}));
  auto other = std::make_shared<models::Model>(*model);
  other->network.encoder.blocks = {model->network.encoder.blocks[1]};
  EXPECT_EQ(labels_of(reduced, texts), labels_of(other, texts));
  EXPECT_NE(labels_of(reduced, texts), labels_of(model, texts));
  EXPECT_EQ(reduced->config_json["num_hidden_layers"], 1);
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

TEST(FewerLayers, AreNotLeftOutOfDecoders) {
  const auto folder = std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families";
  for (const char* family : {"llama", "bart"}) {
    io::expect_error(core::ErrorKind::kUsage, {"is no encoder alone"},
                     [&] { (void)with_layers(*models::open_model(folder / family), {0}); });
  }
}

// The first layer is the teacher's first, and is compared with the one that it is told.
TEST(FewerLayers, LearnFromTheLayersThatTheyAreMappedTo) {
  const auto model = small_encoder();
  const auto texts = random_texts(6, 4);
  CpuOps teacher_ops{{1, ops::ActivationPrecision::kFloat}};
  CpuOps ops{{1, ops::ActivationPrecision::kFloat}};
  Student student(with_layers(*model, {0}).network, rounded_by("f32"), {}, ops);
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
  options.layers = 1;
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
  options.layers = 3;
  io::expect_error(core::ErrorKind::kUsage, {"--layers 3", "has 2"}, [&] {
    train_student(*model, texts, options, folder / "more", false, {}, core::silent_progress());
  });
  EXPECT_FALSE(std::filesystem::exists(folder / ".more.partial"));
}

}  // namespace
}  // namespace nibble::tune
