#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "core/json.h"
#include "device/cuda_devices.h"
#include "engine/encoder.h"

// Fine-tuned encoders on the texts of their tasks, against what transformers computed with them.
// The same tests run on each device: CMake says which.
namespace nibble::engine {
namespace {

using core::Json;
namespace fs = std::filesystem;

const fs::path kShared = fs::path(NIBBLE_SOURCE_DIR) / ".." / "shared";
constexpr std::size_t kMostTokens = 96;  // of the golden values

// Of a file of tab-separated columns without its heading.
std::vector<std::vector<std::string>> table(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::vector<std::string>& row = rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '\t');) {
      row.push_back(cell);
    }
  }
  return rows;
}

class TrainedEncoders : public testing::Test {
 protected:
  void SetUp() override {
    if (on_gpu() && device::cuda_devices().empty()) {
      GTEST_SKIP() << "there is no NVIDIA GPU";
    }
  }

  static bool on_gpu() { return device::parse_place(NIBBLE_TEST_DEVICE).on_gpu(); }

  // False where the models or texts are not here.
  bool open(const std::string& name, const std::string& task) {
    const fs::path folder = kShared / "models" / name;
    const fs::path texts = kShared / "data" / "glue" / task / "dev.tsv";
    if (!fs::exists(folder) || !fs::exists(texts)) {
      return false;
    }
    std::ifstream file(folder / "golden.json");
    golden_ = Json::parse(file);
    rows_ = table(texts);
    model_ = models::open_model(folder);
    RunnerOptions options;
    options.place = device::parse_place(NIBBLE_TEST_DEVICE);
    options.cpu.threads = 2;
    if (options.place.on_gpu()) {
      options.cpu.activations = ops::ActivationPrecision::kFloat;
    }
    encoder_ = make_encoder(model_, options);
    return true;
  }

  std::vector<std::int32_t> encoded(const std::string& text) const {
    return model_->tokenizer->encode(text, {.add_special = false});
  }

  void add(std::vector<std::int32_t> ids, std::vector<std::int32_t> types = {}) {
    ids.resize(std::min(ids.size(), kMostTokens));
    types.resize(types.empty() ? 0 : ids.size());
    ids_.push_back(std::move(ids));
    types_.push_back(std::move(types));
  }

  EncoderRows logits() {
    std::vector<EncoderText> texts;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      texts.push_back({ids_[i], types_[i]});
    }
    return encoder_->classify(texts);
  }

  void expect_golden_start(const EncoderRows& made) {
    for (std::size_t i = 0; i < golden_["first_ids"].size(); ++i) {
      auto ids = ids_[i];
      ids.resize(kMostTokens);  // with padding behind them
      EXPECT_EQ(ids, golden_["first_ids"][i].get<std::vector<std::int32_t>>()) << i;
    }
    for (std::size_t i = 0; i < golden_["first_logits"].size(); ++i) {
      const auto expected = golden_["first_logits"][i].get<std::vector<float>>();
      for (std::size_t j = 0; j < expected.size(); ++j) {
        EXPECT_NEAR(made.row(static_cast<std::int64_t>(i))[j], expected[j], on_gpu() ? 1e-2 : 1e-3)
            << i;
      }
    }
  }

  Json golden_;
  std::vector<std::vector<std::string>> rows_;
  std::shared_ptr<const models::Model> model_;
  std::unique_ptr<Encoder> encoder_;
  std::vector<std::vector<std::int32_t>> ids_;
  std::vector<std::vector<std::int32_t>> types_;
};

TEST_F(TrainedEncoders, FeelingsOfSentences) {
  if (!open("bert-7m-sst2", "SST-2")) {
    GTEST_SKIP() << "the test models are not here: " << kShared;
  }
  for (const auto& row : rows_) {
    add(encoded(row.at(0)));  // it was trained without [CLS] and [SEP]
  }
  const EncoderRows made = logits();
  expect_golden_start(made);
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < made.rows; ++i) {
    const bool positive = made.row(i)[1] > made.row(i)[0];
    right += positive == (rows_[static_cast<std::size_t>(i)].at(1) == "1") ? 1 : 0;
  }
  EXPECT_EQ(made.rows, golden_["n"].get<std::int64_t>());
  const double expected =
      golden_["metric"]["accuracy"].get<double>() * static_cast<double>(made.rows);
  EXPECT_LE(std::abs(right - std::lround(expected)), on_gpu() ? 1 : 0);
}

TEST_F(TrainedEncoders, SimilarityOfSentences) {
  if (!open("bert-7m-stsb", "STS-B")) {
    GTEST_SKIP() << "the test models are not here: " << kShared;
  }
  constexpr std::int32_t kCls = 2;
  constexpr std::int32_t kSep = 3;
  for (const auto& row : rows_) {
    std::vector<std::int32_t> ids = {kCls};
    const auto append = [&](const std::string& text) {
      const auto part = encoded(text);
      ids.insert(ids.end(), part.begin(), part.end());
      ids.push_back(kSep);
    };
    append(row.at(7));
    std::vector<std::int32_t> types(ids.size(), 0);
    append(row.at(8));
    types.resize(ids.size(), 1);
    add(std::move(ids), std::move(types));
  }
  const EncoderRows made = logits();
  expect_golden_start(made);
  double sums[5] = {};  // of x, y, xx, yy, xy
  for (std::int64_t i = 0; i < made.rows; ++i) {
    const auto x = static_cast<double>(made.row(i)[0]);
    const double y = std::stod(rows_[static_cast<std::size_t>(i)].at(9));
    const double terms[5] = {x, y, x * x, y * y, x * y};
    std::transform(terms, terms + 5, sums, sums, std::plus<>());
  }
  const auto n = static_cast<double>(made.rows);
  const double pearson =
      (n * sums[4] - sums[0] * sums[1]) /
      std::sqrt((n * sums[2] - sums[0] * sums[0]) * (n * sums[3] - sums[1] * sums[1]));
  EXPECT_NEAR(pearson, golden_["metric"]["pearson"].get<double>(), on_gpu() ? 1e-4 : 1e-5);
}

}  // namespace
}  // namespace nibble::engine
