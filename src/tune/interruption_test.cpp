// Jobs that are killed between any two of the files that they write, and go on.
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "core/error.h"
#include "io/temporary_folder_for_tests.h"
#include "tune/qat/encoder_for_tests.h"
#include "tune/qat/train_student.h"
#include "tune/renames_for_tests.h"
#include "tune/tune_model.h"

namespace nibble::tune {
namespace {

namespace fs = std::filesystem;

const fs::path kLlama = fs::path(NIBBLE_SOURCE_DIR) / "tests" / "families" / "llama";

// A folder that jobs write to, and what lay in it before each file got its name.
class Interruptions : public testing::Test {
 protected:
  ~Interruptions() override { before_rename() = {}; }

  fs::path output() const { return folder_ / "work" / "made"; }
  fs::path unfinished(const std::string& file) const {
    return folder_ / "work" / ".made.partial" / file;
  }
  fs::path curve() const { return folder_ / "work" / "loss.csv"; }

  template <typename Job>
  std::map<std::string, std::string> run_and_remember(Job job) {
    fs::create_directory(folder_ / "work");
    before_rename() = [this](const fs::path& target) {
      targets_.push_back(target.filename());
      fs::copy(folder_ / "work", kept(targets_.size() - 1), fs::copy_options::recursive);
      return 0;
    };
    job(false);
    before_rename() = {};
    return io::folder_contents(folder_ / "work");
  }

  void go_back(std::size_t at) {
    fs::remove_all(folder_ / "work");
    fs::copy(kept(at), folder_ / "work", fs::copy_options::recursive);
  }

  // The place before the last write of a file of that name.
  std::size_t last(const std::string& name) const {
    const auto found = std::find(targets_.rbegin(), targets_.rend(), name);
    EXPECT_NE(found, targets_.rend()) << name;
    return static_cast<std::size_t>(targets_.rend() - found) - 1;
  }

  template <typename Job>
  void expect_same_bytes_from_everywhere(Job job, std::size_t least) {
    const auto whole = run_and_remember(job);
    EXPECT_GE(targets_.size(), least);
    for (std::size_t at = 0; at < targets_.size(); ++at) {
      go_back(at);
      job(true);
      EXPECT_EQ(io::folder_contents(folder_ / "work"), whole)
          << "killed before " << targets_[at] << ", write " << at;
    }
  }

  io::TemporaryFolder folder_;
  std::vector<std::string> targets_;

 private:
  fs::path kept(std::size_t at) const { return folder_ / ("at-" + std::to_string(at)); }
};

class OfADecoder : public Interruptions {
 protected:
  OfADecoder() {
    const fs::path folder = folder_ / "compressed";
    compress::quantize_model(*teacher_, compress::find_recipe("rtn-w4g16"), folder,
                             compress::small_job(2, 16, 1), false, core::silent_progress());
    model_ = models::open_model(folder);
    options_.calibration.texts = {compress::source_text("models/demo/texts/calibration.txt")};
    options_.calibration.samples = 4;
    options_.calibration.seq_len = 8;
    options_.batch = 2;
    options_.checkpoint = 1;
    options_.threads = 1;
    options_.blocks = {true, 1, 3e-3, 1.0, 0.0};
    options_.model = {true, 2, 1e-2, 1.0, 0.0};
    options_.csv = curve();
  }

  void tune(bool resume) {
    tune_model(*model_, *teacher_, output(), options_, resume, core::silent_progress());
  }

  std::shared_ptr<models::Model> teacher_ = models::open_model(kLlama);
  std::shared_ptr<models::Model> model_;
  TuningOptions options_;
};

TEST_F(OfADecoder, EndInTheSameBytes) {
  expect_same_bytes_from_everywhere([this](bool resume) { tune(resume); }, 24);
}

// Between the removals of the two files that are of no use any more, nothing is written.
TEST_F(OfADecoder, EndInTheSameBytesAtTheEnd) {
  const auto whole = run_and_remember([this](bool resume) { tune(resume); });
  go_back(last("README.md"));
  ASSERT_TRUE(fs::remove(unfinished("tuning.json")));  // the first of them
  tune(true);
  EXPECT_EQ(io::folder_contents(folder_ / "work"), whole);
}

// It is tuned again, with all blocks behind it, and the loss curve has the steps of each once.
TEST_F(OfADecoder, ABlockThatIsGoneIsTunedAgain) {
  const auto whole = run_and_remember([this](bool resume) { tune(resume); });
  for (const char* shard :
       {"model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"}) {
    go_back(last("e2e.training.safetensors"));
    ASSERT_TRUE(fs::remove(unfinished(shard)));
    tune(true);
    EXPECT_EQ(io::folder_contents(folder_ / "work"), whole) << shard;
  }
}

TEST_F(OfADecoder, NothingIsLostWhereTheLastFilesCannotBeWritten) {
  before_rename() = [](const fs::path& target) {
    return target.filename() == "README.md" ? EIO : 0;
  };
  fs::create_directory(folder_ / "work");
  io::expect_error(core::ErrorKind::kIo, {"README.md"}, [&] { tune(false); });
  EXPECT_TRUE(fs::exists(unfinished("tuning.json")));
  EXPECT_TRUE(fs::exists(unfinished("e2e.training.safetensors")));
}

class OfAStudent : public Interruptions {
 protected:
  OfAStudent() {
    options_.recipe = rounded_by("int4-sym-row-a4");
    options_.loss = {.labels = 1, .logits = 1};
    options_.epochs = 2;
    options_.batch = 5;
    options_.checkpoint = 1;
    options_.threads = 1;
    options_.learning_rate = 1e-3;
    options_.csv = curve();
  }

  void train(bool resume, core::ProgressSink& progress = core::silent_progress()) {
    train_student(*model_, texts_, options_, output(), resume, {}, progress);
  }

  std::shared_ptr<models::Model> model_ = small_encoder();
  std::vector<LabelledText> texts_ = random_texts(13, 8);  // 3 steps of an epoch
  StudentOptions options_;
};

TEST_F(OfAStudent, EndInTheSameBytes) {
  expect_same_bytes_from_everywhere([this](bool resume) { train(resume); }, 20);
}

TEST_F(OfAStudent, NothingIsLostWhereTheLastFilesCannotBeWritten) {
  before_rename() = [](const fs::path& target) {
    return target.filename() == "README.md" ? EIO : 0;
  };
  fs::create_directory(folder_ / "work");
  io::expect_error(core::ErrorKind::kIo, {"README.md"}, [&] { train(false); });
  before_rename() = {};
  EXPECT_TRUE(fs::exists(unfinished("training.safetensors")));
  class Steps final : public core::ProgressSink {
   public:
    void begin(std::string_view, std::int64_t) override {}
    void update(std::int64_t, std::string_view) override { ++count; }
    void end() override {}
    void message(std::string_view) override {}
    int count = 0;
  } steps;
  train(true, steps);
  EXPECT_EQ(steps.count, 0);
  EXPECT_TRUE(fs::exists(output()));
}

}  // namespace
}  // namespace nibble::tune
