#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/random.h"
#include "device/cuda/gpu_for_tests.h"
#include "engine/cosine_for_tests.h"
#include "engine/encoder.h"
#include "formats/format.h"
#include "formats/ordered_weight_for_tests.h"

// Encoders on a GPU: what they record, and rounded models beside the same ones on the CPU. Golden
// values of float models are in encoder_test.cpp and trained_encoders_test.cpp, which run on a GPU
// too.
namespace nibble::engine {
namespace {

std::shared_ptr<models::Model> family(const char* name) {
  auto model = std::make_shared<models::Model>(
      *models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families" / name));
  model->network.pooling = {models::PoolingMode::kMean, false};
  return model;
}

/// Every layer of the blocks rounded to nearest; each set in an order of its own, where the scheme
/// has one.
std::shared_ptr<models::Model> rounded(const char* name, const std::string& scheme_text) {
  auto model = family(name);
  const formats::Scheme scheme = formats::parse_scheme(scheme_text);
  for (models::Block& block : model->network.encoder.blocks) {
    for (ops::LinearSet* set : models::linear_sets(block)) {
      for (ops::Linear& part : set->parts) {
        const std::vector<float> w = core::to_float32(part.weight.dense);
        const auto [n, k] = std::pair(part.weight.n, part.weight.k);
        part.weight =
            scheme.inputs.ordered
                ? formats::ordered_weight(w, n, k, scheme, static_cast<std::uint64_t>(set->id))
                : formats::round_to_nearest(w, n, k, scheme);
      }
    }
  }
  return model;
}

std::unique_ptr<Encoder> open(const std::shared_ptr<const models::Model>& model, const char* place,
                              ops::ActivationPrecision activations) {
  RunnerOptions options;
  options.place = device::parse_place(place);
  options.cpu.threads = 2;
  options.cpu.activations = activations;
  return make_encoder(model, options);
}

std::unique_ptr<Encoder> open_on_cpu(const std::shared_ptr<const models::Model>& model) {
  return open(model, "cpu", ops::ActivationPrecision::kInt16);
}

/// With matrices of float32 between layers.
std::unique_ptr<Encoder> open_in_float32(const std::shared_ptr<const models::Model>& model) {
  return open(model, "cuda", ops::ActivationPrecision::kFloat);
}

/// With matrices of float16, where layers are not all float32.
std::unique_ptr<Encoder> open_in_float16(const std::shared_ptr<const models::Model>& model) {
  return open(model, "cuda", ops::ActivationPrecision::kInt8);
}

constexpr auto kWays = {open_in_float32, open_in_float16};

/// Texts of those lengths, of random tokens.
class Texts {
 public:
  Texts(std::vector<std::size_t> lengths, std::uint64_t seed) {
    core::Random random(seed);
    for (const std::size_t length : lengths) {
      std::vector<std::int32_t>& tokens = tokens_.emplace_back();
      for (std::size_t i = 0; i < length; ++i) {
        tokens.push_back(static_cast<std::int32_t>(random.below(kVocabulary)));
      }
    }
    for (const std::vector<std::int32_t>& tokens : tokens_) {
      views_.push_back({tokens, {}});
    }
  }
  std::span<const EncoderText> views() const { return views_; }

 private:
  static constexpr std::uint64_t kVocabulary = 60;
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<EncoderText> views_;
};

class CudaEncoder : public device::GpuTest {};

// A value beside the middle of two codes may take the other one, which is far away where there are
// sixteen.
TEST_F(CudaEncoder, RoundedModelsGiveTheStatesOfTheCpu) {
  const Texts texts({1, 7, 20, 3, 16}, 1);
  const std::pair<const char*, double> schemes[] = {
      {"int8-sym-row-a8", 0.999},     {"int8-sym-g16", 0.999},    {"int4-asym-g32", 0.999},
      {"int4-asym-g32-order", 0.999}, {"int4-sym-row-a8", 0.999}, {"int4-sym-row-a4", 0.9}};
  for (const auto& [scheme, least] : schemes) {
    const auto model = rounded("bert", scheme);
    const EncoderRows expected = open_on_cpu(model)->hidden_states(texts.views());
    for (const auto& open_it : kWays) {
      const EncoderRows made = open_it(model)->hidden_states(texts.views());
      ASSERT_EQ(made.rows, expected.rows);
      for (std::int64_t i = 0; i < made.rows; ++i) {
        EXPECT_GT(cosine(made.row(i), expected.row(i)), least) << scheme << ", row " << i;
      }
    }
  }
}

// What float16 between layers changes beside float32 on the same GPU.
TEST_F(CudaEncoder, Float16BetweenLayersChangesLittle) {
  const Texts texts({1, 7, 20, 3, 16}, 1);
  const auto model = rounded("bert", "int8-sym-row-a8");
  const EncoderRows expected = open_in_float32(model)->hidden_states(texts.views());
  const EncoderRows made = open_in_float16(model)->hidden_states(texts.views());
  ASSERT_EQ(made.values.size(), expected.values.size());
  EXPECT_NE(made.values, expected.values);
  for (std::int64_t i = 0; i < made.rows; ++i) {
    EXPECT_GT(cosine(made.row(i), expected.row(i)), 0.999) << "row " << i;
  }
}

// Norms beyond the range of float16: an error, and the next texts are computed again.
TEST_F(CudaEncoder, WhatFloat16CannotHoldIsAnError) {
  const auto model = rounded("bert", "int8-sym-row-a8");
  for (float& weight : model->network.encoder.blocks.front().mlp_norm.weight) {
    weight *= 1e6f;
  }
  const Texts texts({7, 20}, 1);
  const auto encoder = open_in_float16(model);
  for (int call = 0; call < 3; ++call) {  // at first, recorded, and launched again
    try {
      encoder->hidden_states(texts.views());
      FAIL() << "not noted";
    } catch (const core::Error& error) {
      EXPECT_NE(std::string(error.what()).find("--activations float"), std::string::npos)
          << error.what();
    }
  }
  EXPECT_NO_THROW(open_in_float32(model)->hidden_states(texts.views()));
}

// What is computed at first, recorded then and launched again, with texts of other lengths whose
// sizes are alike.
TEST_F(CudaEncoder, ARecordedStepServesOtherTexts) {
  const auto model = rounded("bert", "int8-sym-row-a8");
  const Texts some({20, 12}, 2);
  const Texts others({3, 26}, 3);  // filled up to as many tokens
  for (const auto& open_it : kWays) {
    const auto fresh = open_it(model);
    const EncoderRows of_some = fresh->hidden_states(some.views());
    const EncoderRows of_others = open_it(model)->hidden_states(others.views());
    ASSERT_NE(of_some.row(0)[0], of_others.row(0)[0]);
    for (int call = 0; call < 3; ++call) {
      EXPECT_EQ(fresh->hidden_states(others.views()).values, of_others.values) << "call " << call;
      EXPECT_EQ(fresh->hidden_states(some.views()).values, of_some.values) << "call " << call;
    }
  }
}

TEST_F(CudaEncoder, EachKindOfResultIsRecorded) {
  const auto model = rounded("bert-texts", "int8-sym-row-a8");
  const Texts texts({5, 9, 2}, 4);
  for (const auto& open_it : kWays) {
    const auto encoder = open_it(model);
    const EncoderRows labels = encoder->classify(texts.views());
    const EncoderRows embeddings = encoder->embed(texts.views());
    const EncoderRows states = encoder->hidden_states(texts.views());
    for (int call = 0; call < 3; ++call) {
      EXPECT_EQ(encoder->classify(texts.views()).values, labels.values);
      EXPECT_EQ(encoder->embed(texts.views()).values, embeddings.values);
      EXPECT_EQ(encoder->hidden_states(texts.views()).values, states.values);
    }
    EXPECT_EQ(labels.rows, 3);
    EXPECT_EQ(embeddings.rows, 3);
    EXPECT_EQ(states.rows, 16);
  }
}

// More kinds of steps than are kept recorded.
TEST_F(CudaEncoder, ManySizesGiveTheStatesOfTheCpu) {
  const auto model = family("bert");
  const auto encoder = open_in_float32(model);
  const auto reference = open_on_cpu(model);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t count = 1; count <= 400; count += 1 + count / 16) {
      const Texts texts(std::vector<std::size_t>(count, 1 + count % 20), count);
      const EncoderRows made = encoder->embed(texts.views());
      const EncoderRows expected = reference->embed(texts.views());
      ASSERT_EQ(made.values.size(), expected.values.size());
      for (std::size_t i = 0; i < made.values.size(); ++i) {
        ASSERT_NEAR(made.values[i], expected.values[i], 4e-3) << count << " texts, " << i;
      }
    }
  }
}

// With codes for weights and activations, sums are whole numbers: they have no order.
TEST_F(CudaEncoder, RoundedTextsHaveTheSameBitsInEveryBatch) {
  const Texts texts({20, 5, 9, 1, 18, 20, 13}, 5);
  for (const auto& open_it : kWays) {
    const auto encoder = open_it(rounded("bert", "int8-sym-row-a8"));
    const EncoderRows together = encoder->hidden_states(texts.views());
    std::vector<float> alone;
    for (const EncoderText& text : texts.views()) {
      const EncoderRows rows = encoder->hidden_states({&text, 1});
      alone.insert(alone.end(), rows.values.begin(), rows.values.end());
    }
    EXPECT_EQ(together.values, alone);
  }
}

}  // namespace
}  // namespace nibble::engine
