#include "compress/calibration/curvature_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline.h"
#include "compress/pipeline/pipeline_for_tests.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::compress {
namespace {

namespace fs = std::filesystem;

// Ends a job while it measures the curvature.
class StopsMeasuring final : public core::ProgressSink {
 public:
  void begin(std::string_view job, std::int64_t) override { measures_ = job == "curvature"; }
  void update(std::int64_t done, std::string_view) override {
    if (measures_ && done == 2) {
      throw std::runtime_error("interrupted");
    }
  }
  void end() override {}
  void message(std::string_view) override {}

 private:
  bool measures_ = false;
};

// A job that needs the curvature, in a folder of its own.
class KeptCurvature : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(7);
    run(whole_, false, core::silent_progress());
  }

  // Words of the small model's vocabulary; as many bytes for every `step`.
  void write_text(int step) {
    std::string text;
    for (int i = 0; i < 300; ++i) {
      text += fmt::format("t{} ", 10 + i * step % 50);
    }
    options_.calibration.texts = {std::make_shared<const std::string>(std::move(text))};
  }

  void run(const fs::path& target, bool resume, core::ProgressSink& progress) {
    quantize_model(*model_, find_recipe("best4"), target, options_, resume, progress);
  }

  void interrupt(core::ProgressSink& progress) {
    EXPECT_THROW(run(parts_, false, progress), std::runtime_error);
  }
  void interrupt_at(const std::string& note) {
    Interrupted progress(note);
    interrupt(progress);
  }

  // Whether going on measures the curvature; the result must be that of a job in one piece.
  bool goes_on_measuring() {
    Interrupted progress("");
    run(parts_, true, progress);
    EXPECT_EQ(io::folder_contents(parts_), io::folder_contents(whole_));
    return std::count(progress.jobs().begin(), progress.jobs().end(), "curvature") > 0;
  }

  void expect_refusal(const std::string& part) {
    try {
      run(parts_, true, core::silent_progress());
      ADD_FAILURE() << "not refused";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kIntegrity);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  io::TemporaryFolder folder_;
  fs::path whole_ = folder_ / "whole";
  fs::path parts_ = folder_ / "parts";
  fs::path file_ = folder_ / ".parts.partial" / "curvature.safetensors";
  std::shared_ptr<const models::Model> model_ =
      models::open_model(fs::path(NIBBLE_SOURCE_DIR) / "tests/families/qwen2");
  PipelineOptions options_ = small_job(4, 32, 2);
};

TEST_F(KeptCurvature, IsNotMeasuredAgain) {
  for (const char* moment :
       {"block 1 of 2: measuring window 1", "block 1 of 2 finished", "block 2 of 2: model"}) {
    interrupt_at(moment);
    EXPECT_TRUE(fs::exists(file_)) << moment;
    EXPECT_FALSE(goes_on_measuring()) << moment;
    EXPECT_FALSE(fs::exists(parts_ / "curvature.safetensors"));
    fs::remove_all(parts_);
  }
}

TEST_F(KeptCurvature, IsMeasuredWhereItWasNotFinished) {
  StopsMeasuring stop;
  interrupt(stop);
  EXPECT_FALSE(fs::exists(file_));
  EXPECT_TRUE(goes_on_measuring());
}

TEST_F(KeptCurvature, IsNotMissedWhenAllBlocksAreFinished) {
  interrupt_at("block 2 of 2 finished");
  fs::remove(file_);  // as a job that is killed while it commits leaves it
  EXPECT_FALSE(goes_on_measuring());
}

TEST_F(KeptCurvature, OfAnotherTextIsRefused) {
  interrupt_at("block 1 of 2 finished");
  write_text(11);
  expect_refusal("another model, recipe or calibration");
}

TEST_F(KeptCurvature, ThatIsDamagedIsRefused) {
  interrupt_at("block 1 of 2 finished");
  std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end).put(last).flush();
  expect_refusal("is damaged");
  file.close();
  fs::remove(file_);
  EXPECT_TRUE(goes_on_measuring());
}

// The output layer's curvature is kept with that of the blocks.
TEST_F(KeptCurvature, HoldsTheOutputLayer) {
  const Recipe recipe = with_output(find_recipe("best4"), formats::parse_scheme("int8-sym-g32"));
  quantize_model(*model_, recipe, folder_ / "with-output", options_, false,
                 core::silent_progress());
  Interrupted stop("block 2 of 2 finished");
  EXPECT_THROW(quantize_model(*model_, recipe, parts_, options_, false, stop), std::runtime_error);
  Interrupted progress("");
  quantize_model(*model_, recipe, parts_, options_, true, progress);
  EXPECT_EQ(std::count(progress.jobs().begin(), progress.jobs().end(), "curvature"), 0);
  EXPECT_EQ(io::folder_contents(parts_), io::folder_contents(folder_ / "with-output"));
}

}  // namespace
}  // namespace nibble::compress
