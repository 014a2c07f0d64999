#include "cli/training_page.h"

#include <fstream>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/temporary_folder_for_tests.h"
#include "report/balanced_tags_for_tests.h"

namespace nibble::cli {
namespace {

using tune::LossPoint;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(TrainingPage, DrawsEachStage) {
  std::vector<LossPoint> points;
  for (std::int64_t block = 1; block <= 2; ++block) {
    for (std::int64_t step = 1; step <= 4; ++step) {
      points.push_back(
          {"bqpo", block, (step + 1) / 2, step, 8.124 / static_cast<double>(step * block * block),
           1e-3 * static_cast<double>(block), 1.0 * static_cast<double>(block * block)});
    }
  }
  for (std::int64_t step = 1; step <= 500; ++step) {
    points.push_back({"e2e-oqp", 0, 1, step, 2.0, 1e-3, 0.5});
  }
  const std::string page = training_page("Training of <x>", points);
  EXPECT_EQ(report::TagChecker::fault_of(page), "");
  EXPECT_EQ(count(page, "<svg"), 6U);
  EXPECT_EQ(count(page, "<polyline"), 3U * 2 + 3);
  EXPECT_EQ(count(page, "<circle"), 3U * 8 + 3 * 200);  // the mean of several where there are many
  EXPECT_EQ(count(page, ">block 2<"), 3U);
  EXPECT_EQ(count(page, "<tr"), 2U + 4 + 1);
  EXPECT_NE(page.find("Training of &lt;x&gt;"), std::string::npos);
  // Epoch 1 of the first block: steps of 8.124 and 4.062.
  EXPECT_NE(page.find(">6.093<"), std::string::npos);
}

TEST(TrainingPage, DrawsAFewOfManyBlocks) {
  std::vector<LossPoint> points;
  for (std::int64_t block = 1; block <= 32; ++block) {
    points.push_back({"bqpo", block, 1, 1, 1.0, 1e-3, 1});
    points.push_back({"bqpo", block, 1, 2, 0.5, 1e-3, 1});
  }
  const std::string page = training_page("x", points);
  EXPECT_EQ(count(page, "<polyline"), 3U * 6);
  EXPECT_EQ(report::TagChecker::fault_of(training_page("x", {})), "");
}

TEST(TrainingPage, ReadsTheCurveThatWasWritten) {
  const core::TemporaryFolder folder;
  tune::LossCurve curve(folder / "loss.csv");
  curve.add({"qat", 0, 1, 1, 0.5, 1e-4, 2.25});
  curve.add({"qat", 0, 2, 2, 0.25, 5e-5, 1.5});
  curve.save();
  const auto points = tune::read_loss_curve(folder / "loss.csv");
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[1].stage, "qat");
  EXPECT_EQ(points[1].block, 0);
  EXPECT_EQ(points[1].epoch, 2);
  EXPECT_EQ(points[1].step, 2);
  EXPECT_EQ(points[1].loss, 0.25);
  EXPECT_EQ(points[1].learning_rate, 5e-5);
  EXPECT_EQ(points[0].gradient_norm, 2.25);
  std::ofstream(folder / "loss.csv", std::ios::app) << "qat,0,3,3,x,1,1\n";
  try {
    (void)tune::read_loss_curve(folder / "loss.csv");
    FAIL() << "not refused";
  } catch (const core::Error& error) {
    EXPECT_NE(std::string(error.what()).find("line 4: 'x' is no number"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace nibble::cli
