#include "tune/training_state.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "core/random.h"
#include "core/temporary_folder_for_tests.h"
#include "tune/finished_blocks.h"
#include "tune/loss_curve.h"

namespace nibble::tune {
namespace {

Parameters two_parameters() {
  Parameters parameters;
  parameters.push_back(std::make_unique<Parameter>("a", std::vector<float>(7, 1.0f)));
  parameters.push_back(std::make_unique<Parameter>("b.scales", std::vector<float>(3, 2.0f)));
  return parameters;
}

void train(const Parameters& parameters, AdamW& optimizer, int steps, core::Random& random) {
  for (int step = 0; step < steps; ++step) {
    for (const auto& parameter : parameters) {
      for (float& value : parameter->gradient) {
        value = random.normal();
      }
    }
    optimizer.step(0.01);
  }
}

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(TrainingState, GoesOnWithTheSameBits) {
  const core::TemporaryFolder folder;
  const auto file = folder.path() / "state.safetensors";
  core::ThreadPool pool(1);
  core::Random random(1);
  const Parameters whole = two_parameters();
  AdamW optimizer(whole, {}, pool);
  train(whole, optimizer, 4, random);
  save_training(file, whole, optimizer, {{"epoch", 2}});
  core::Random same = random;
  train(whole, optimizer, 5, random);

  const Parameters halves = two_parameters();
  AdamW second(halves, {}, pool);
  EXPECT_FALSE(load_training(folder.path() / "nothing", 9, halves, second));
  const auto more = load_training(file, 9, halves, second);
  ASSERT_TRUE(more);
  EXPECT_EQ(more->at("epoch"), 2);
  EXPECT_EQ(second.steps(), 4);
  train(halves, second, 5, same);
  for (std::size_t p = 0; p < whole.size(); ++p) {
    EXPECT_EQ(whole[p]->values, halves[p]->values);
  }
}

TEST(TrainingState, RefusesThatOfOtherParameters) {
  const core::TemporaryFolder folder;
  const auto file = folder.path() / "state.safetensors";
  core::ThreadPool pool(1);
  const Parameters parameters = two_parameters();
  const AdamW optimizer(parameters, {}, pool);
  save_training(file, parameters, optimizer, core::Json::object());
  for (const auto& [name, size] : {std::pair<const char*, std::size_t>{"c", 3}, {"b.scales", 4}}) {
    Parameters others = two_parameters();
    others[1] = std::make_unique<Parameter>(name, std::vector<float>(size, 5.0f));
    AdamW other(others, {}, pool);
    EXPECT_THROW(load_training(file, 9, others, other), core::Error) << name;
    EXPECT_EQ(others[0]->values[0], 1.0f);
  }
  std::ofstream(file, std::ios::trunc) << "garbage";
  const Parameters again = two_parameters();
  AdamW unused(again, {}, pool);
  EXPECT_THROW(load_training(file, 9, again, unused), core::Error);
}

// Damaged files are refused, or give what was written (a space in a header may change): no number
// of them is taken for another.
TEST(TrainingState, RefusesDamagedFiles) {
  const core::TemporaryFolder folder;
  const auto file = folder.path() / "state.safetensors";
  core::ThreadPool pool(1);
  core::Random random(3);
  const Parameters parameters = two_parameters();
  AdamW optimizer(parameters, {}, pool);
  train(parameters, optimizer, 3, random);
  save_training(file, parameters, optimizer, {{"curve", 5}, {"before", 0.5}});
  const std::string good = text_of(file);
  const Parameters others = two_parameters();
  AdamW other(others, {}, pool);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    const auto at = static_cast<std::size_t>(random.below(std::ssize(bad)));
    if (i % 4 == 0) {
      bad.resize(at);
    } else {
      bad[at] = static_cast<char>(bad[at] ^ (1 << random.below(8)));
    }
    folder.write("state.safetensors", bad);
    try {
      const auto more = load_training(file, 9, others, other);
      ASSERT_TRUE(more && *more == core::Json({{"curve", 5}, {"before", 0.5}})) << i;
      EXPECT_EQ(others[0]->values, parameters[0]->values);
      EXPECT_EQ(others[1]->values, parameters[1]->values);
      EXPECT_EQ(other.steps(), 3);
    } catch (const core::Error& error) {
      EXPECT_TRUE(error.kind() == core::ErrorKind::kInvalidModel ||
                  error.kind() == core::ErrorKind::kIntegrity)
          << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 1900);
  folder.write("state.safetensors", good);
  EXPECT_THROW(load_training(file, 2, others, other), core::Error);  // a run of two steps
}

TEST(FinishedBlocks, AreReadOrRefused) {
  const core::TemporaryFolder folder;
  const auto file = folder.path() / "tuning.json";
  EXPECT_TRUE(read_finished_blocks(file, 3).empty());
  const std::vector<std::int64_t> steps = {10, 10, 25};
  write_finished_blocks(file, steps);
  EXPECT_EQ(read_finished_blocks(file, 3), steps);
  const auto expect_refused = [&](const std::string& text) {
    folder.write("tuning.json", text);
    try {
      (void)read_finished_blocks(file, 3);
      ADD_FAILURE() << text;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel) << text;
      EXPECT_NE(std::string(error.what()).find("tuning.json"), std::string::npos) << error.what();
    }
  };
  for (const char* text :
       {"", "{}", "7", "[-1]", "[1,0]", "[1.5]", "[\"1\"]", "[null]", "[1,2,3,4]", "[[1]]",
        "[18446744073709551615]", "[9223372036854775807]", "[1,"}) {
    expect_refused(text);
  }
  core::Random random(4);
  const std::string good = "[10,10,25]";
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    bad[static_cast<std::size_t>(random.below(std::ssize(bad)))] =
        static_cast<char>(random.below(256));
    folder.write("tuning.json", bad);
    try {
      const auto read = read_finished_blocks(file, 3);
      EXPECT_TRUE(std::is_sorted(read.begin(), read.end())) << bad;
      EXPECT_LE(read.size(), 3U);
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel) << error.what();
    }
  }
}

TEST(LossCurve, HoldsEachStepOnce) {
  const core::TemporaryFolder folder;
  const auto file = folder.path() / "loss.csv";
  const auto point = [](std::int64_t step) {
    return LossPoint{"bqpo", 1, 1, step, 0.5 / static_cast<double>(step), 1e-4, 2.0};
  };
  LossCurve whole(file);
  for (std::int64_t step = 1; step <= 3; ++step) {
    whole.add(point(step));
  }
  whole.save();
  const std::string expected =
      "stage,block,epoch,step,loss,learning_rate,gradient_norm\n"
      "bqpo,1,1,1,0.5,0.0001,2\nbqpo,1,1,2,0.25,0.0001,2\n"
      "bqpo,1,1,3,0.166666667,0.0001,2\n";
  EXPECT_EQ(text_of(file), expected);

  LossCurve again(file);
  again.resume(2);
  EXPECT_EQ(again.steps(), 2);
  again.add(point(3));
  again.save();
  EXPECT_EQ(text_of(file), expected);

  LossCurve more(file);
  EXPECT_THROW(more.resume(4), core::Error);
}

TEST(LossCurve, ReplacesNothingButCurves) {
  const core::TemporaryFolder folder;
  const auto file = folder.path() / "loss.csv";
  LossCurve(file).start();
  const std::string names = text_of(file);
  EXPECT_EQ(names, "stage,block,epoch,step,loss,learning_rate,gradient_norm\n");
  std::ofstream(file, std::ios::app) << "bqpo,1,1,1,0.5,0.0001,2\n";
  LossCurve(file).start();
  EXPECT_EQ(text_of(file), names + "bqpo,1,1,1,0.5,0.0001,2\n");
  std::ofstream(file) << "my notes, which are longer than the names of the columns of a curve";
  EXPECT_THROW(LossCurve(file).start(), core::Error);
  EXPECT_THROW(LossCurve(folder.path() / "none" / "loss.csv").start(), core::Error);
  EXPECT_NO_THROW(LossCurve().start());
}

}  // namespace
}  // namespace nibble::tune
