#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "core/random.h"
#include "device/cuda/gpu_for_tests.h"
#include "engine/cosine_for_tests.h"
#include "engine/write_texts.h"
#include "formats/format.h"
#include "text/model_input.h"

// Encoder-decoders on a GPU beside the same ones on the CPU: rounded ones, those of 16 bits, and
// what is recorded. Golden values of float models are in text_to_text_test.cpp and
// write_texts_test.cpp, which run on a GPU too.
namespace nibble::engine {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;
using ops::ActivationPrecision;

constexpr std::int64_t kVocabulary = 64;  // of the families

std::shared_ptr<models::Model> family(const char* name) {
  return std::make_shared<models::Model>(
      *models::open_model(fs::path(NIBBLE_SOURCE_DIR) / "tests" / "families" / name));
}

/// Random numbers of a model that is made larger than its family's.
class Widening {
 public:
  core::Tensor table(std::int64_t rows) {
    return core::from_float32(normal(rows * kWidth, 0.5f), {rows, kWidth}, core::DType::kF32);
  }

  void widen(ops::LinearSet& set) {
    for (ops::Linear& part : set.parts) {
      const std::int64_t n = wide(part.weight.n);
      const std::int64_t k = wide(part.weight.k);
      part.weight = formats::dense_weight(core::from_float32(
          normal(n * k, 2.0f / std::sqrt(static_cast<float>(k))), {n, k}, core::DType::kF32));
      part.bias = normal(n, 0.1f);
    }
  }

  void widen(ops::Norm& norm) {
    norm.weight.assign(kWidth, 1.0f);
    norm.bias = normal(kWidth, 0.1f);
  }

  void widen(std::optional<ops::Norm>& norm) {
    if (norm) {
      widen(*norm);
    }
  }

  static constexpr std::int64_t kHeads = 2;
  static constexpr std::int64_t kHeadDim = 64;  // for which there are tensor cores
  static constexpr std::int64_t kWidth = kHeads * kHeadDim;

 private:
  // Of 36 and 44 or 50 in the family.
  static std::int64_t wide(std::int64_t size) { return size == 36 ? kWidth : 3 * kWidth / 2; }

  std::vector<float> normal(std::int64_t count, float scale) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      value = scale * random_.normal();
    }
    return values;
  }

  core::Random random_{17};
};

void widen(ops::AttentionSpec& spec) {
  spec.heads = spec.kv_heads = Widening::kHeads;
  spec.head_dim = Widening::kHeadDim;
}

/// A family of float32 with two heads of 64 elements and positions for 300 tokens.
std::shared_ptr<models::Model> wide(const char* name) {
  auto model = family(name);
  models::Network& network = model->network;
  models::NetworkConfig& config = network.config;
  config.hidden = Widening::kWidth;
  config.heads = config.kv_heads = Widening::kHeads;
  config.head_dim = Widening::kHeadDim;
  config.ffn = 3 * Widening::kWidth / 2;
  config.max_positions = 300;
  Widening widening;
  network.embeddings.tokens = widening.table(kVocabulary);
  for (models::Embeddings* tables : {&network.embeddings, &*network.encoder_embeddings}) {
    tables->tokens = network.embeddings.tokens;
    tables->positions = widening.table(config.max_positions + config.position_offset);
    widening.widen(tables->norm);
  }
  for (models::Block* block : models::all_blocks(network)) {
    for (ops::LinearSet* set : models::linear_sets(*block)) {
      widening.widen(*set);
    }
    widen(block->attention.spec);
    widening.widen(block->attention_norm);
    widening.widen(block->mlp_norm);
    if (block->cross) {
      widen(block->cross->spec);
      widening.widen(block->cross->norm);
    }
  }
  widening.widen(network.encoder.final_norm);
  widening.widen(network.decoder.final_norm);
  network.output.parts.front().weight = formats::dense_weight(network.embeddings.tokens.plain());
  return model;
}

/// The layers of all blocks with other weights.
template <typename Change>
std::shared_ptr<models::Model> changed(const models::Model& dense, const Change& change) {
  auto model = std::make_shared<models::Model>(dense);
  for (models::Block* block : models::all_blocks(model->network)) {
    for (ops::LinearSet* set : models::linear_sets(*block)) {
      for (ops::Linear& part : set->parts) {
        part.weight = change(part.weight);
      }
    }
  }
  return model;
}

std::shared_ptr<models::Model> rounded(const models::Model& dense, const std::string& scheme) {
  return changed(dense, [&](const formats::PackedWeight& weight) {
    return formats::round_to_nearest(core::to_float32(weight.dense), weight.n, weight.k,
                                     formats::parse_scheme(scheme));
  });
}

std::shared_ptr<models::Model> in_type(const models::Model& dense, core::DType type) {
  return changed(dense, [&](const formats::PackedWeight& weight) {
    return formats::dense_weight(
        core::from_float32(core::to_float32(weight.dense), {weight.n, weight.k}, type));
  });
}

std::unique_ptr<TextToText> open(const std::shared_ptr<const models::Model>& model,
                                 const char* place, ActivationPrecision activations) {
  RunnerOptions options;
  options.place = device::parse_place(place);
  options.cpu.threads = 2;
  options.cpu.activations = activations;
  return make_text_to_text(model, options);
}

std::unique_ptr<TextToText> open_on_cpu(const std::shared_ptr<const models::Model>& model) {
  return open(model, "cpu", ActivationPrecision::kInt16);
}

/// With float32 between layers, and keys and values of float32.
std::unique_ptr<TextToText> open_in_float32(const std::shared_ptr<const models::Model>& model) {
  return open(model, "cuda", ActivationPrecision::kFloat);
}

/// With float16 between layers of the encoder and in caches, where layers are not all float32.
std::unique_ptr<TextToText> open_in_float16(const std::shared_ptr<const models::Model>& model) {
  return open(model, "cuda", ActivationPrecision::kInt8);
}

constexpr auto kWays = {open_in_float32, open_in_float16};

Ids random_ids(std::size_t count, core::Random& random) {
  Ids ids(count);
  for (std::int32_t& id : ids) {
    id = static_cast<std::int32_t>(random.below(kVocabulary));
  }
  return ids;
}

std::vector<Ids> random_texts(const std::vector<std::size_t>& lengths, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<Ids> texts;
  for (const std::size_t length : lengths) {
    texts.push_back(random_ids(length, random));
  }
  return texts;
}

std::vector<std::span<const std::int32_t>> views(const std::vector<Ids>& texts) {
  return {texts.begin(), texts.end()};
}

using Rows = std::vector<std::vector<float>>;

void take(const LogitsView& logits, Rows& rows) {
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
  }
}

constexpr std::size_t kWritten = 20;  // tokens: more than a page

/// Logits of what is written behind each of the texts together, the tokens given. After the eighth
/// token each text has a second row, which goes on from the first by itself.
Rows numbers(TextToText& writer, const std::vector<Ids>& texts) {
  core::Random random(9);
  writer.read(views(texts), {2 * std::ssize(texts), static_cast<std::int64_t>(kWritten)});
  Rows rows;
  for (std::size_t at = 0; at < kWritten; ++at) {
    std::vector<DecoderRow> step;
    for (std::int64_t text = 0; text < std::ssize(texts); ++text) {
      const auto token = [&] { return static_cast<std::int32_t>(random.below(kVocabulary)); };
      if (at < 8) {
        step.push_back({text, at == 0 ? -1 : text, token()});
      } else {
        step.push_back({text, at == 8 ? text : 2 * text, token()});
        step.push_back({text, at == 8 ? text : 2 * text + 1, token()});
      }
    }
    take(writer.step(step), rows);
  }
  return rows;
}

/// On the whole: few rows are far from what they should be where a value beside the middle of two
/// codes took the other one.
void expect_cosines(const Rows& made, const Rows& expected, double least) {
  ASSERT_EQ(made.size(), expected.size());
  double sum = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    sum += cosine(made[i], expected[i]);
  }
  EXPECT_GT(sum / static_cast<double>(made.size()), least);
}

void expect_near(const Rows& made, const Rows& expected, float bound) {
  ASSERT_EQ(made.size(), expected.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    ASSERT_EQ(made[i].size(), expected[i].size());
    for (std::size_t j = 0; j < made[i].size(); ++j) {
      ASSERT_NEAR(made[i][j], expected[i][j], bound) << "row " << i << ", token " << j;
    }
  }
}

std::vector<Ids> written(TextToText& writer, const std::vector<Ids>& texts,
                         const WritingOptions& options) {
  std::vector<Ids> ids;
  for (const WrittenText& text : write_texts(writer, views(texts), options)) {
    ids.push_back(text.tokens);
  }
  return ids;
}

class CudaTextToText : public device::GpuTest {};

const std::vector<std::size_t> kLengths = {1, 33, 7, 300, 16, 2};

TEST_F(CudaTextToText, FloatModelsGiveTheLogitsOfTheCpu) {
  const std::vector<Ids> texts = random_texts(kLengths, 1);
  const std::vector<Ids> short_ones = random_texts({1, 40, 7, 16}, 1);
  for (const char* name : {"bart", "mbart"}) {
    SCOPED_TRACE(name);
    for (const auto& open_it : kWays) {  // all layers are float32: both are
      expect_near(numbers(*open_it(family(name)), short_ones),
                  numbers(*open_on_cpu(family(name)), short_ones), 1e-3f);
      expect_near(numbers(*open_it(wide(name)), texts), numbers(*open_on_cpu(wide(name)), texts),
                  5e-3f);
    }
  }
}

TEST_F(CudaTextToText, ScoresAreThoseOfTheCpu) {
  const std::vector<Ids> texts = random_texts({300, 5, 40}, 2);
  const std::vector<Ids> targets = random_texts({1, 300, 33}, 3);
  const auto model = wide("bart");
  const auto cpu = open_on_cpu(model);
  const auto gpu = open_in_float32(model);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const EncoderRows expected = cpu->score(texts[i], targets[i]);
    const EncoderRows made = gpu->score(texts[i], targets[i]);
    ASSERT_EQ(made.rows, expected.rows);
    ASSERT_EQ(made.values.size(), expected.values.size());
    for (std::size_t j = 0; j < made.values.size(); ++j) {
      ASSERT_NEAR(made.values[j], expected.values[j], 5e-3) << "text " << i << ", " << j;
    }
  }
}

TEST_F(CudaTextToText, LayersOf16BitsGiveTheLogitsOfTheCpu) {
  const std::vector<Ids> texts = random_texts(kLengths, 1);
  for (const core::DType type : {core::DType::kF16, core::DType::kBF16}) {
    SCOPED_TRACE(core::name_of(type));
    for (const char* name : {"bart", "mbart"}) {
      SCOPED_TRACE(name);
      const auto model = in_type(*wide(name), type);
      const Rows expected = numbers(*open_on_cpu(model), texts);
      expect_near(numbers(*open_in_float32(model), texts), expected, 5e-3f);
      expect_cosines(numbers(*open_in_float16(model), texts), expected,
                     type == core::DType::kF16 ? 0.9999 : 0.999);
    }
  }
}

// On a CPU, weights of norms that are changed by 3e-4 move these means to 0.9999, to 0.9991 with
// activations of 8 bits, and to 0.92 with 4.
TEST_F(CudaTextToText, RoundedModelsGiveTheLogitsOfTheCpu) {
  const std::vector<Ids> texts = random_texts(kLengths, 1);
  const std::vector<Ids> short_ones = random_texts({1, 40, 7, 16}, 1);
  const std::pair<const char*, double> schemes[] = {
      {"int8-sym-row-a8", 0.997},      {"int8-sym-g16", 0.9995},   {"int4-asym-g32", 0.9995},
      {"int4-sym-g128", 0.9995},       {"int4-sym-row-a8", 0.997}, {"lut4-nf4-g64", 0.998},
      {"int4-asym-g128-a8g64", 0.997}, {"int4-sym-row-a4", 0.8}};
  for (const char* name : {"bart", "mbart"}) {
    for (const auto& [scheme, least] : schemes) {
      SCOPED_TRACE(testing::Message() << name << ", " << scheme);
      const auto model = rounded(*wide(name), scheme);
      const Rows expected = numbers(*open_on_cpu(model), texts);
      for (const auto& open_it : kWays) {
        expect_cosines(numbers(*open_it(model), texts), expected, least);
      }
    }
    for (const auto& [scheme, least] :
         {std::pair{"int8-sym-row-a8", 0.999}, {"int8-sym-g16", 0.9995}}) {
      SCOPED_TRACE(testing::Message() << name << " as it is, " << scheme);
      const auto model = rounded(*family(name), scheme);
      const Rows expected = numbers(*open_on_cpu(model), short_ones);
      for (const auto& open_it : kWays) {
        expect_cosines(numbers(*open_it(model), short_ones), expected, least);
      }
    }
  }
}

// What is computed at first, recorded then and launched again, with texts of other lengths whose
// sizes are alike, others between them, and more room in between.
TEST_F(CudaTextToText, RecordedStepsServeOtherTexts) {
  const auto model = rounded(*wide("bart"), "int8-sym-row-a8");
  const std::vector<Ids> some = random_texts({20, 12, 200}, 4);
  const std::vector<Ids> others = random_texts({100, 30, 102}, 5);  // as many tokens
  const std::vector<Ids> larger = random_texts(std::vector<std::size_t>(9, 250), 6);
  for (const auto& open_it : kWays) {
    const auto writer = open_it(model);
    const Rows of_some = numbers(*writer, some);
    const Rows of_others = numbers(*open_it(model), others);
    ASSERT_NE(of_some.front(), of_others.front());
    for (int call = 0; call < 3; ++call) {
      EXPECT_EQ(numbers(*writer, others), of_others) << "call " << call;
      EXPECT_EQ(numbers(*writer, some), of_some) << "call " << call;
    }
    numbers(*writer, larger);
    EXPECT_EQ(numbers(*writer, others), of_others);
    EXPECT_EQ(numbers(*writer, some), of_some);
    EXPECT_EQ(numbers(*writer, others), of_others);
  }
}

// More tokens than are read at a time.
TEST_F(CudaTextToText, ManyTextsAreThoseTextsAlone) {
  const auto model = wide("bart");
  std::vector<std::size_t> lengths(70, 280);
  lengths.push_back(3);
  lengths.push_back(299);
  const std::vector<Ids> texts = random_texts(lengths, 7);
  const auto writer = open_in_float32(model);
  writer->read(views(texts), {std::ssize(texts), 2});
  std::vector<DecoderRow> step;
  for (std::int64_t text = 0; text < std::ssize(texts); ++text) {
    step.push_back({text, -1, 2});
  }
  Rows together;
  take(writer->step(step), together);
  Rows alone;
  for (const Ids& text : texts) {
    writer->TextToText::read(std::span<const std::int32_t>(text));
    const auto logits = writer->next(2);
    alone.emplace_back(logits.begin(), logits.end());
  }
  expect_near(together, alone, 5e-3f);
}

TEST_F(CudaTextToText, WritesTheTextsOfTheCpu) {
  const auto model = wide("bart");
  const std::vector<Ids> texts = random_texts({5, 60, 17, 300}, 8);
  WritingOptions options;
  options.start = 2;
  options.ends = {2, 5};
  options.max_length = 40;
  const auto expect_alike = [&](const char* what) {
    const auto made = written(*open_in_float32(model), texts, options);
    EXPECT_EQ(made, written(*open_on_cpu(model), texts, options)) << what;
    EXPECT_GT(made.front().size() + made.back().size(), 20u) << what;  // something was written
  };
  expect_alike("greedy");
  options.no_repeat_ngram = 2;
  options.beams = 4;
  expect_alike("beams");
  options.beams = 1;
  options.samples = true;
  options.draw = {0.7f, 20, 0.9f, 0.0f, 5};
  expect_alike("draws");
}

// Norms beyond the range of float16: an error, and the next texts are read again.
TEST_F(CudaTextToText, WhatFloat16CannotHoldIsAnError) {
  const auto model = rounded(*wide("bart"), "int8-sym-row-a8");
  for (float& weight : model->network.encoder.blocks.front().mlp_norm.weight) {
    weight *= 1e6f;
  }
  const Ids text = random_texts({20}, 1).front();
  const auto writer = open_in_float16(model);
  for (int call = 0; call < 3; ++call) {  // at first, recorded, and launched again
    EXPECT_THROW(writer->TextToText::read(std::span<const std::int32_t>(text)), core::Error);
    EXPECT_THROW(writer->next(2), core::Error);  // nothing was read
  }
  const auto other = open_in_float32(model);
  EXPECT_NO_THROW(other->TextToText::read(std::span<const std::int32_t>(text)));
  EXPECT_NO_THROW(other->next(2));
}

TEST_F(CudaTextToText, RefusesWhatTheCpuRefuses) {
  const auto writer = open_in_float32(family("bart"));
  const std::vector<Ids> bad = {{}, Ids(41, 5), {5, 64}};
  for (const Ids& text : bad) {
    EXPECT_THROW(writer->TextToText::read(std::span<const std::int32_t>(text)), core::Error);
    EXPECT_THROW(writer->next(2), core::Error);
  }
  writer->TextToText::read(std::span<const std::int32_t>(Ids{5, 6}));
  EXPECT_THROW(writer->next(64), core::Error);
  for (int i = 0; i < 40; ++i) {
    EXPECT_NO_THROW(writer->next(7)) << i;
  }
  EXPECT_THROW(writer->next(7), core::Error);  // no position is left
}

/// Words of the trained model and what transformers writes for them greedily.
TEST_F(CudaTextToText, RoundedTrainedModelsSpellWords) {
  const fs::path path = fs::path(NIBBLE_SOURCE_DIR) / ".." / "shared" / "models" / "bart-6x6-g2p";
  if (!fs::exists(path)) {
    GTEST_SKIP() << "the test model is not here: " << path;
  }
  const auto model = models::open_model(path);
  std::vector<Ids> sources;
  for (const char* word :
       {"dumbly",   "library", "phoneme", "rhythm",  "quiet",   "thought", "numb",
        "spelling", "encoder", "window",  "yacht",   "cough",   "island",  "knight",
        "queue",    "shoes",   "zebra",   "evening", "colonel", "choir"}) {
    sources.push_back(text::encode_for_model(*model->tokenizer, word, std::nullopt).ids);
  }
  for (const char* scheme : {"bf16", "int8-sym-row", "int8-sym-row-a8", "int4-asym-g128",
                             "int4-sym-g64", "int4-sym-row-a8"}) {
    const auto one = std::string(scheme) == "bf16" ? std::make_shared<models::Model>(*model)
                                                   : rounded(*model, scheme);
    for (const std::int64_t beams : {1, 4}) {
      WritingOptions options = writing_options(*model);
      options.beams = beams;
      const auto expected = written(*open_on_cpu(one), sources, options);
      for (const auto& open_it : kWays) {
        const auto made = written(*open_it(one), sources, options);
        std::size_t same = 0;
        for (std::size_t i = 0; i < made.size(); ++i) {
          same += made[i] == expected[i] ? 1 : 0;
        }
        EXPECT_GE(same, sources.size() - 2) << scheme << ", " << beams << " beams";
      }
    }
  }
}

}  // namespace
}  // namespace nibble::engine
