#include "engine/text_to_text.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/json.h"
#include "engine/text_to_text_for_tests.h"

// A trained encoder-decoder, which spells words as phonemes, and random ones
// (tests/families/make_encoders.py), against what transformers computed with them. The same tests
// run on each device: CMake says which.
namespace nibble::engine {
namespace {

using core::Json;
namespace fs = std::filesystem;

const fs::path kFamilies = fs::path(NIBBLE_SOURCE_DIR) / "tests" / "families";
const fs::path kTrained = fs::path(NIBBLE_SOURCE_DIR) / ".." / "shared" / "models" / "bart-6x6-g2p";

Json read(const fs::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// What golden values of random models are met to.
float bound() {
  return on_gpu() ? 1e-3f : 1e-4f;
}

void expect_near(std::span<const float> values, const std::vector<float>& expected,
                 float tolerance) {
  ASSERT_GE(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance) << i;
  }
}

class TrainedTextToText : public OnDevice<testing::Test> {};

class RandomTextToText : public OnDevice<testing::TestWithParam<const char*>> {};

TEST_F(TrainedTextToText, NumbersOfWords) {
  if (!fs::exists(kTrained)) {
    GTEST_SKIP() << "the test model is not here: " << kTrained;
  }
  const Json golden = read(kTrained / "golden.json");
  const auto model = models::open_model(kTrained);
  const auto writer = make_text_to_text(model, on_device());
  const auto encoder = make_encoder(model, on_device());
  for (const Json& word : golden.at("words")) {
    const auto ids = word.at("input_ids").get<std::vector<std::int32_t>>();
    const EncoderText text{ids, {}};
    const EncoderRows states = encoder->hidden_states({&text, 1});
    const Json& first = word.at("encoder_first8_of_each_position");
    ASSERT_EQ(static_cast<std::size_t>(states.rows), first.size());
    for (std::int64_t i = 0; i < states.rows; ++i) {
      expect_near(states.row(i), first[static_cast<std::size_t>(i)].get<std::vector<float>>(),
                  on_gpu() ? 2e-2f : 1e-3f);  // inside the texts of an encoder a GPU has float16
    }
    writer->read(ids);
    expect_near(writer->next(model->network.config.decoder_start.value()),
                word.at("first_logits").get<std::vector<float>>(), 1e-3f);
  }
}

TEST_P(RandomTextToText, LogitsOfEachToken) {
  const fs::path folder = kFamilies / GetParam();
  const Json golden = read(folder / "golden.json");
  const auto writer = make_text_to_text(models::open_model(folder), on_device());
  ASSERT_EQ(golden.at("texts").size(), 3u);
  for (const Json& text : golden.at("texts")) {
    writer->read(text.at("ids").get<std::vector<std::int32_t>>());
    const auto written = text.at("written").get<std::vector<std::int32_t>>();
    for (std::size_t i = 0; i < written.size(); ++i) {
      expect_near(writer->next(written[i]), text.at("numbers")[i].get<std::vector<float>>(),
                  bound());
    }
  }
}

// All tokens in one pass, each seeing those before it alone.
TEST_P(RandomTextToText, ScoresOfATarget) {
  const fs::path folder = kFamilies / GetParam();
  const Json golden = read(folder / "golden.json");
  const auto writer = make_text_to_text(models::open_model(folder), on_device());
  for (const Json& text : golden.at("texts")) {
    const auto source = text.at("ids").get<std::vector<std::int32_t>>();
    auto target = text.at("written").get<std::vector<std::int32_t>>();
    target.erase(target.begin());  // the start token
    target.push_back(5);           // which nothing reads
    const EncoderRows logits = writer->score(source, target);
    ASSERT_EQ(logits.rows, std::ssize(target));
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      const Json& numbers = text.at("numbers")[static_cast<std::size_t>(i)];
      expect_near(logits.row(i), numbers.get<std::vector<float>>(), bound());
    }
  }
  const std::vector<std::int32_t> ids = {5};
  EXPECT_THROW(writer->score(ids, {}), core::Error);
  EXPECT_THROW(writer->score(ids, std::vector<std::int32_t>(41, 5)), core::Error);
  EXPECT_THROW(writer->score(ids, std::vector<std::int32_t>{5, 64}), core::Error);
}

// Other commands do not take it, and it takes no others.
TEST_P(RandomTextToText, IsNoRunner) {
  const auto model = models::open_model(kFamilies / GetParam());
  EXPECT_THROW(make_runner(model, on_device()), core::Error);
  EXPECT_THROW(make_text_to_text(models::open_model(kFamilies / "opt"), on_device()), core::Error);
  const auto writer = make_text_to_text(model, on_device());
  EXPECT_THROW(writer->next(1), core::Error);  // nothing was read
}

// Texts together, one of which has rows that part in the middle of a page, and one that does not
// begin with the others: on a CPU the very numbers of one alone.
TEST_P(RandomTextToText, RowsPartAndShare) {
  const auto writer = make_text_to_text(models::open_model(kFamilies / GetParam()), on_device());
  const std::vector<std::int32_t> first = {5, 6, 7, 8};
  const std::vector<std::int32_t> second = {9, 10};
  std::vector<std::int32_t> trunk = {2};
  for (std::int32_t i = 0; i < 20; ++i) {
    trunk.push_back(10 + i);
  }
  const auto alone = [&](std::span<const std::int32_t> source, std::int32_t last) {
    writer->read(source);
    for (const std::int32_t token : trunk) {
      writer->next(token);
    }
    const auto logits = writer->next(last);
    return std::vector<float>(logits.begin(), logits.end());
  };
  const std::vector<std::vector<float>> expected = {alone(first, 40), alone(second, 41),
                                                    alone(first, 42), alone(first, 43)};
  const std::vector<std::span<const std::int32_t>> sources = {first, second};
  writer->read(sources, {4, 22});
  for (std::size_t i = 0; i < trunk.size(); ++i) {
    const std::int64_t parent = i == 0 ? -1 : 0;
    const std::vector<DecoderRow> rows = {{0, parent, trunk[i]}, {1, i == 0 ? -1 : 1, trunk[i]}};
    writer->step(rows);
  }
  const std::vector<DecoderRow> parted = {{0, 0, 40}, {1, 1, 41}, {0, 0, 42}, {0, 0, 43}};
  const LogitsView logits = writer->step(parted);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto row = logits.row(static_cast<std::int64_t>(i));
    if (on_gpu()) {
      expect_near(row, expected[i], bound());
    } else {
      EXPECT_EQ(std::vector<float>(row.begin(), row.end()), expected[i]) << i;
    }
  }
  const std::vector<DecoderRow> deeper = {{0, 2, 5}, {0, 2, 6}};
  writer->step(deeper);
  const std::vector<DecoderRow> orphan = {{0, 2, 5}};
  EXPECT_THROW(writer->step(orphan), core::Error);
  const std::vector<DecoderRow> stranger = {{2, -1, 2}};
  EXPECT_THROW(writer->step(stranger), core::Error);
}

INSTANTIATE_TEST_SUITE_P(All, RandomTextToText, testing::Values("bart", "mbart"));

}  // namespace
}  // namespace nibble::engine
