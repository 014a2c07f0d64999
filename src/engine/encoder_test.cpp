#include "engine/encoder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "core/json.h"
#include "device/cuda_devices.h"
#include "io/temporary_folder_for_tests.h"

// Encoders and their heads against transformers, which computed the golden values
// (tests/families/make_encoders.py). The same tests run on each device: CMake says which.
namespace nibble::engine {
namespace {

using core::Json;
namespace fs = std::filesystem;

const fs::path kFamilies = fs::path(NIBBLE_SOURCE_DIR) / "tests" / "families";

Json read(const fs::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

device::Place place() {
  return device::parse_place(NIBBLE_TEST_DEVICE);
}

bool is_there() {
  return !place().on_gpu() || !device::cuda_devices().empty();
}

// What golden values are met to: on a GPU attention has numbers of 16 bits.
double bound() {
  return place().on_gpu() ? 1e-2 : 1e-4;
}

RunnerOptions on_device() {
  RunnerOptions options;
  options.place = place();
  options.cpu.threads = 2;
  if (place().on_gpu()) {
    options.cpu.activations = ops::ActivationPrecision::kFloat;  // dense layers read float32
  }
  return options;
}

std::unique_ptr<Encoder> open_encoder(std::shared_ptr<const models::Model> model) {
  return is_there() ? make_encoder(std::move(model), on_device()) : nullptr;
}

// What the model's head gives; its states where it has none.
EncoderRows numbers_of(Encoder& encoder, const models::Network& network,
                       std::span<const EncoderText> texts) {
  if (network.classifier) {
    return encoder.classify(texts);
  }
  return network.masked_lm ? encoder.masked_lm(texts) : encoder.hidden_states(texts);
}

struct Text {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> types;
  std::vector<std::vector<float>> numbers;
  EncoderText view() const { return {ids, types}; }
};

std::vector<Text> golden_texts(const fs::path& folder) {
  const Json golden = read(folder / "golden.json");
  std::vector<Text> texts;
  for (const Json& text : golden.at("texts")) {
    texts.push_back({text.at("ids"), text.at("types"), text.at("numbers")});
  }
  EXPECT_EQ(texts.size(), 3u);
  return texts;
}

std::string test_name(const testing::TestParamInfo<const char*>& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class Encoders : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_there()) {
      GTEST_SKIP() << "there is no NVIDIA GPU";
    }
  }

  const fs::path folder_ = kFamilies / GetParam();
  std::shared_ptr<const models::Model> model_ = models::open_model(folder_);
  std::unique_ptr<Encoder> encoder_ = open_encoder(model_);
  std::vector<Text> texts_ = golden_texts(folder_);
};

TEST_P(Encoders, ComputeWhatTransformersComputes) {
  std::vector<EncoderText> views;
  for (const Text& text : texts_) {
    views.push_back(text.view());
  }
  const EncoderRows rows = numbers_of(*encoder_, model_->network, views);
  std::int64_t next = 0;
  for (const Text& text : texts_) {
    for (const std::vector<float>& expected : text.numbers) {
      ASSERT_LT(next, rows.rows);
      ASSERT_EQ(rows.columns, std::ssize(expected));
      for (std::size_t j = 0; j < expected.size(); ++j) {
        ASSERT_NEAR(rows.row(next)[j], expected[j], bound()) << "row " << next << ", number " << j;
      }
      ++next;
    }
  }
  EXPECT_EQ(next, rows.rows);
}

// A text's numbers are the same alone, among others, and in a call of many steps: on a CPU to the
// bit. On a GPU sums of layers may have another order where there are more tokens, and what
// attention reads in float16 may be rounded the other way then.
TEST_P(Encoders, TextsDoNotSeeEachOther) {
  std::vector<EncoderText> many;
  for (int copy = 0; copy < 200; ++copy) {  // more tokens than a step takes
    many.push_back(texts_[static_cast<std::size_t>(copy) % texts_.size()].view());
  }
  const EncoderRows together = numbers_of(*encoder_, model_->network, many);
  std::vector<float> alone;
  for (const EncoderText& text : many) {
    const EncoderRows rows = numbers_of(*encoder_, model_->network, {&text, 1});
    alone.insert(alone.end(), rows.values.begin(), rows.values.end());
  }
  if (!place().on_gpu()) {
    EXPECT_EQ(together.values, alone);
    return;
  }
  ASSERT_EQ(together.values.size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    ASSERT_NEAR(together.values[i], alone[i], 2e-3) << i;
  }
}

TEST_P(Encoders, RefuseWhatTheyAreNotMadeFor) {
  const Text& text = texts_.front();
  const EncoderText view = text.view();
  const EncoderText nothing;
  EXPECT_THROW(encoder_->hidden_states({&nothing, 1}), core::Error);
  const std::vector<std::int32_t> most(static_cast<std::size_t>(encoder_->max_tokens()), 5);
  const EncoderText longest{most, {}};
  EXPECT_EQ(encoder_->hidden_states({&longest, 1}).rows, encoder_->max_tokens());
  const std::vector<std::int32_t> more(most.size() + 1, 5);
  const EncoderText longer{more, {}};
  EXPECT_THROW(encoder_->hidden_states({&longer, 1}), core::Error);
  const std::vector<std::int32_t> types(text.ids.size(), 2);
  const EncoderText typed{text.ids, types};
  EXPECT_THROW(encoder_->hidden_states({&typed, 1}), core::Error);
  EXPECT_THROW(encoder_->embed({&view, 1}), core::Error);  // the folder says nothing of pooling
  if (!model_->network.classifier) {
    EXPECT_THROW(encoder_->classify({&view, 1}), core::Error);
  }
  if (!model_->network.masked_lm) {
    EXPECT_THROW(encoder_->masked_lm({&view, 1}), core::Error);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Encoders,
                         testing::Values("bert", "bert-texts", "bert-tokens", "bert-masked",
                                         "roberta-texts", "roberta-masked", "xlm-roberta-tokens",
                                         "distilbert-texts", "distilbert-masked"),
                         test_name);

TEST(Encoder, TellsWhatItsClassifierSays) {
  const auto labels = [](const char* folder) {
    return models::open_model(kFamilies / folder)->network.classifier.value();
  };
  const models::Classifier texts = labels("bert-texts");
  EXPECT_EQ(texts.labels, (std::vector<std::string>{"none", "some", "all"}));
  EXPECT_EQ(texts.problem, models::Problem::kSingleLabel);
  EXPECT_EQ(labels("xlm-roberta-tokens").problem, models::Problem::kTokenLabels);
  EXPECT_EQ(labels("roberta-texts").labels, (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
}

// The commands that take the one do not take the other, and say which do.
TEST(Encoder, IsNoDecoder) {
  const auto message = [](auto make, const fs::path& model) {
    try {
      make(models::open_model(model), on_device());
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message(make_runner, kFamilies / "bert").find("nibble embed"), std::string::npos);
  EXPECT_NE(message(make_encoder, kFamilies / "opt").find("nibble run"), std::string::npos);
}

TEST(Encoder, AGpuThatIsNotThereIsSaid) {
  RunnerOptions options;
  options.place = {device::Kind::kCuda, static_cast<int>(device::cuda_devices().size())};
  EXPECT_THROW(make_encoder(models::open_model(kFamilies / "bert"), options), core::Error);
}

// A folder of sentence-transformers around the encoder "bert".
class Embedding : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_there()) {
      GTEST_SKIP() << "there is no NVIDIA GPU";
    }
  }

  Embedding() {
    for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
      fs::copy_file(kFamilies / "bert" / file, folder_ / file);
    }
    fs::create_directory(folder_ / "1_Pooling");
  }

  void use(const std::string& mode, bool normalize) {
    folder_.write(
        "modules.json",
        std::string(R"([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})") +
            (normalize ? R"(, {"idx": 2, "path": "2_Normalize",
                                 "type": "sentence_transformers.models.Normalize"}])"
                       : "]"));
    folder_.write("1_Pooling/config.json", R"({"word_embedding_dimension": 36,
        "pooling_mode_lasttoken": false, "pooling_mode_)" +
                                               mode + R"(": true})");
  }

  // Of the golden texts, for which the states are known.
  std::vector<std::vector<float>> embeddings() {
    const auto encoder = open_encoder(models::open_model(folder_.path()));
    std::vector<EncoderText> views;
    for (const Text& text : texts_) {
      views.push_back(text.view());
    }
    const EncoderRows rows = encoder->embed(views);
    std::vector<std::vector<float>> result;
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      result.emplace_back(rows.row(i).begin(), rows.row(i).end());
    }
    return result;
  }

  void expect_near(const std::vector<float>& values, const std::vector<double>& expected) {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], expected[i], bound()) << i;
    }
  }

  const io::TemporaryFolder folder_;
  std::vector<Text> texts_ = golden_texts(kFamilies / "bert");
};

TEST_F(Embedding, MeanOfTheStates) {
  use("mean_tokens", false);
  const auto made = embeddings();
  ASSERT_EQ(made.size(), texts_.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    std::vector<double> mean(36);
    for (const std::vector<float>& row : texts_[i].numbers) {
      for (std::size_t j = 0; j < mean.size(); ++j) {
        mean[j] += static_cast<double>(row[j]) / static_cast<double>(texts_[i].numbers.size());
      }
    }
    expect_near(made[i], mean);
  }
}

TEST_F(Embedding, FirstAndLargestStates) {
  use("cls_token", false);
  const std::vector<std::vector<float>>& states = texts_[0].numbers;
  expect_near(embeddings()[0], {states[0].begin(), states[0].end()});
  use("max_tokens", false);
  std::vector<double> most(states[0].begin(), states[0].end());
  for (const std::vector<float>& row : states) {
    for (std::size_t j = 0; j < most.size(); ++j) {
      most[j] = std::max(most[j], static_cast<double>(row[j]));
    }
  }
  expect_near(embeddings()[0], most);
}

TEST_F(Embedding, NormalizedToLengthOne) {
  use("mean_tokens", false);
  const std::vector<float> plain = embeddings()[2];
  std::vector<double> expected(plain.begin(), plain.end());
  const double length =
      std::sqrt(std::inner_product(expected.begin(), expected.end(), expected.begin(), 0.0));
  ASSERT_GT(std::abs(length - 1.0), 0.1);
  for (double& value : expected) {
    value /= length;
  }
  use("mean_tokens", true);
  expect_near(embeddings()[2], expected);
}

TEST_F(Embedding, RefusesModulesThatAreNotBuilt) {
  use("lasttoken", false);
  EXPECT_THROW(models::open_model(folder_.path()), core::Error);
  use("mean_tokens", false);
  folder_.write("1_Pooling/config.json",
                R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})");
  EXPECT_THROW(models::open_model(folder_.path()), core::Error);
  folder_.write("modules.json",
                R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                            {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])");
  EXPECT_THROW(models::open_model(folder_.path()), core::Error);
  for (const char* path : {"", "../.."}) {
    folder_.write("modules.json", R"([{"path": ")" + std::string(path) +
                                      R"(", "type": "sentence_transformers.models.Pooling"}])");
    EXPECT_THROW(models::open_model(folder_.path()), core::Error) << path;
  }
}

}  // namespace
}  // namespace nibble::engine
