#include "tune/qat/train_student.h"

#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/temporary_folder_for_tests.h"
#include "engine/encoder.h"
#include "engine/text_to_text.h"
#include "io/temporary_folder_for_tests.h"
#include "tune/qat/encoder_for_tests.h"

// Training from the first step to the folder of a model that runs.
namespace nibble::tune {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[entry.path().filename().string()] = text.str();
  }
  return files;
}

// Ends the job behind so many steps, as a signal would.
class Interruption final : public core::ProgressSink {
 public:
  explicit Interruption(std::int64_t step) : step_(step) {}
  void begin(std::string_view, std::int64_t) override {}
  void update(std::int64_t done, std::string_view) override {
    if (done == step_) {
      throw std::runtime_error("interrupted");
    }
  }
  void end() override {}
  void message(std::string_view) override {}

 private:
  std::int64_t step_;
};

class TrainStudent : public testing::Test {
 protected:
  TrainStudent() {
    options_.recipe = rounded_by("int4-sym-row-a4");
    options_.loss = {0.5, 1, 1, 1, 0.1};
    options_.epochs = 2;
    options_.batch = 5;
    options_.checkpoint = 2;
    options_.threads = 2;
    options_.learning_rate = 1e-3;
  }

  void train(const fs::path& target, bool resume = false,
             core::ProgressSink& progress = core::silent_progress(),
             const JudgeStudent& judge = {}) {
    train_student(*model_, texts_, options_, target, resume, judge, progress);
  }

  core::ErrorKind refusal() {
    try {
      train(folder_.path() / "refused");
    } catch (const core::Error& error) {
      EXPECT_FALSE(fs::exists(folder_.path() / "refused"));
      return error.kind();
    }
    ADD_FAILURE() << "not refused";
    return core::ErrorKind::kFailed;
  }

  core::TemporaryFolder folder_;
  std::shared_ptr<models::Model> model_ = small_encoder();
  std::vector<LabelledText> texts_ = random_texts(13, 8);  // 3 steps of an epoch
  StudentOptions options_;
};

TEST_F(TrainStudent, WritesWhatItWasJudgedBy) {
  std::vector<std::shared_ptr<const models::Model>> judged;
  const fs::path target = folder_.path() / "student";
  train(target, false, core::silent_progress(), [&](std::shared_ptr<const models::Model> model) {
    judged.push_back(std::make_shared<models::Model>(*model));
    return std::string("well");
  });
  ASSERT_EQ(judged.size(), 3U);  // before, and behind each epoch
  const auto made = models::open_model(target);
  EXPECT_EQ(made->compression.recipe, "qat-int4-sym-row-a4");
  const auto encoder = engine::make_encoder(made, {});
  const auto last = engine::make_encoder(judged.back(), {});
  const auto first = engine::make_encoder(judged.front(), {});
  std::vector<engine::EncoderText> texts;
  for (const LabelledText& text : texts_) {
    texts.push_back({text.tokens, text.types});
  }
  EXPECT_EQ(encoder->classify(texts).values, last->classify(texts).values);
  EXPECT_NE(encoder->classify(texts).values, first->classify(texts).values);
  EXPECT_FALSE(fs::exists(target / "training.safetensors"));
}

TEST_F(TrainStudent, GoesOnWithTheSameBits) {
  options_.csv = folder_.path() / "whole.csv";
  train(folder_.path() / "whole");
  for (const std::int64_t step : {1, 3, 5}) {
    options_.csv = folder_.path() / "parts.csv";
    const fs::path target = folder_.path() / ("parts" + std::to_string(step));
    Interruption interruption(step);
    EXPECT_THROW(train(target, false, interruption), std::runtime_error);
    EXPECT_FALSE(fs::exists(target));
    options_.threads = 1;
    train(target, true);
    auto whole = files_of(folder_.path() / "whole");
    auto parts = files_of(target);
    whole.erase("README.md");  // names the folder
    parts.erase("README.md");
    EXPECT_EQ(whole, parts) << step;
    EXPECT_EQ(files_of(folder_.path())["whole.csv"], files_of(folder_.path())["parts.csv"]);
  }
}

TEST_F(TrainStudent, DependsOnTheSeed) {
  train(folder_.path() / "a");
  options_.seed = 1;
  train(folder_.path() / "b");
  EXPECT_NE(files_of(folder_.path() / "a"), files_of(folder_.path() / "b"));
}

// One batch by heart: labels at random are learned by W4A4 too.
TEST_F(TrainStudent, LearnsABatchByHeart) {
  texts_ = random_texts(8, 3);
  options_.loss = {.labels = 1};
  options_.batch = 8;
  options_.epochs = 150;
  options_.learning_rate = 5e-3;
  options_.checkpoint = 1000;
  options_.csv = folder_.path() / "loss.csv";
  train(folder_.path() / "student");
  std::istringstream lines(files_of(folder_.path())["loss.csv"]);
  std::vector<double> losses;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 5; ++i) {
      std::getline(fields, field, ',');
    }
    losses.push_back(std::stod(field));
  }
  ASSERT_EQ(losses.size(), 150U);
  EXPECT_GT(losses.front(), 0.5);
  EXPECT_LT(losses.back(), 0.1);
}

// Before a GPU is looked for.
TEST_F(TrainStudent, RefusesOnAGpuWhatIsTrainedOnACpuAlone) {
  options_.place.kind = device::Kind::kCuda;
  const auto refused = [&](const std::string& what) {
    io::expect_error(core::ErrorKind::kUsage, {what}, [&] { train(folder_.path() / "refused"); });
    EXPECT_FALSE(fs::exists(folder_.path() / "refused"));
  };
  refused("on a GPU qat trains decoders");
  model_ = small_decoder();
  refused("has no attention and no scores");
  options_.loss = {.labels = 1, .logits = 1, .hidden = 1};
  options_.pruning = parse_pruning("2:4");
  refused("does not prune");
  options_.pruning = {};
  options_.recipe = rounded_by("lut4-nf4-row");
  refused("layers in lut4-nf4-row are not tuned");
  options_.recipe = rounded_by("int4-sym-row-afp4");
  refused("rounds its input to E2M1 numbers, which is not trained on a GPU");
}

TEST_F(TrainStudent, RefusesAnotherJobInItsPlace) {
  const fs::path target = folder_.path() / "student";
  Interruption interruption(3);
  EXPECT_THROW(train(target, false, interruption), std::runtime_error);
  options_.learning_rate = 2e-3;
  EXPECT_THROW(train(target, true), core::Error);
}

TEST_F(TrainStudent, RefusesWhatItDoesNotServe) {
  options_.loss = {};
  EXPECT_EQ(refusal(), core::ErrorKind::kUsage);
  options_.loss = {.logits = 1};
  options_.recipe = compress::find_recipe("gptq-w4g128");
  EXPECT_EQ(refusal(), core::ErrorKind::kUsage);
  options_.recipe = rounded_by("int4-sym-row-a4");
  texts_.clear();
  EXPECT_EQ(refusal(), core::ErrorKind::kUsage);
  texts_ = random_texts(3, 1);
  model_ = models::open_model(fs::path(NIBBLE_SOURCE_DIR) / "tests" / "families" / "gpt2");
  EXPECT_EQ(refusal(), core::ErrorKind::kUsage);
}

// A rate that throws the numbers out of their range ends with the step, and the name of what broke.
TEST_F(TrainStudent, StopsWhereTheLossIsNotFinite) {
  options_.learning_rate = 1e30;
  options_.epochs = 20;
  try {
    train(folder_.path() / "student");
    FAIL() << "not stopped";
  } catch (const core::Error& error) {
    EXPECT_NE(std::string(error.what()).find("step "), std::string::npos) << error.what();
  }
}

// Of an encoder-decoder.
class TrainWriter : public TrainStudent {
 protected:
  TrainWriter() {
    model_ = small_encoder_decoder();
    texts_ = random_pairs(13, 8);
  }

  std::vector<float> logits_of(const std::shared_ptr<const models::Model>& model) const {
    const auto writer = engine::make_text_to_text(model, {});
    return writer->score(texts_[0].tokens, texts_[0].written).values;
  }
};

TEST_F(TrainWriter, WritesWhatItWasJudgedBy) {
  std::vector<std::vector<float>> judged;
  const fs::path target = folder_.path() / "student";
  train(target, false, core::silent_progress(), [&](std::shared_ptr<const models::Model> model) {
    judged.push_back(logits_of(model));
    return std::string("well");
  });
  ASSERT_EQ(judged.size(), 3U);
  const auto made = models::open_model(target);
  EXPECT_EQ(made->compression.recipe, "qat-int4-sym-row-a4");
  EXPECT_EQ(logits_of(made), judged.back());
  EXPECT_NE(logits_of(made), judged.front());
}

TEST_F(TrainWriter, GoesOnWithTheSameBits) {
  train(folder_.path() / "whole");
  const fs::path target = folder_.path() / "parts";
  Interruption interruption(3);
  EXPECT_THROW(train(target, false, interruption), std::runtime_error);
  const auto texts = texts_;
  std::swap(texts_[0].written[0], texts_[1].written[1]);
  EXPECT_THROW(train(target, true), core::Error);  // other texts are to be written
  texts_ = texts;
  train(target, true);
  auto whole = files_of(folder_.path() / "whole");
  auto parts = files_of(target);
  whole.erase("README.md");  // names the folder
  parts.erase("README.md");
  EXPECT_EQ(whole, parts);
}

TEST_F(TrainWriter, RefusesTextsOfNothing) {
  texts_[5].written.clear();
  EXPECT_EQ(refusal(), core::ErrorKind::kUsage);
}

}  // namespace
}  // namespace nibble::tune
