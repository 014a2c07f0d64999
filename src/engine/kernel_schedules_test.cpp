#include <gtest/gtest.h>

#include "core/json.h"
#include "engine/cuda_kernel_schedules.h"
#include "io/atomic_file.h"
#include "io/json_file.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using ops::cuda::GemmPlan;
using ops::cuda::LinearShape;
using ops::cuda::MediumBatchSchedule;
using ops::cuda::Schedules;

class KernelSchedules : public ::testing::Test {
 protected:
  KernelSchedules() {
    device_.name = "NVIDIA Test/1";
    device_.multiprocessors = 4;
    device_.driver = 13;
  }

  LoadedSchedules load(const ScheduleSource& source) const {
    return load_schedules(
        source, device_,
        {[](const LinearShape&) { return std::vector<GemmPlan>{{.token_tile = 32, .blocks = 4}}; },
         [](const LinearShape&) { return std::vector<MediumBatchSchedule>(); }});
  }

  void write(std::string_view text) const { io::write_file_atomically(file(), text); }

  // A file whose one layer takes tiles of so many tokens for 64.
  void write(const ops::cuda::ScheduleOrigin& origin, int token_tile) const {
    Schedules schedules(origin);
    ops::cuda::LinearSchedules layer;
    layer.shape.n = 64;
    layer.shape.k = 128;
    layer.many = {{64, GemmPlan{.token_tile = token_tile, .blocks = 4}, 1.0}};
    schedules.add(layer);
    write(schedules.to_json().dump());
  }

  std::filesystem::path file() const { return folder_.path() / "schedules-nvidia-test-1.json"; }

  // A file in the cache is passed over for this reason; of one that was named it is the error.
  void is_refused(ErrorKind kind, const std::string& reason) const {
    const LoadedSchedules loaded = load({{}, folder_.path()});
    EXPECT_EQ(loaded.schedules, nullptr);
    EXPECT_NE(loaded.ignored.find(file().filename().string()), std::string::npos);
    EXPECT_NE(loaded.ignored.find(reason), std::string::npos) << loaded.ignored;
    try {
      load({file(), {}});
      ADD_FAILURE() << "was taken";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_EQ(error.what(), loaded.ignored);
    }
  }

  io::TemporaryFolder folder_;
  device::CudaDevice device_;
};

TEST_F(KernelSchedules, AreReadFromTheFileOfTheGpu) {
  write(ops::cuda::origin_of(device_), 32);
  for (const ScheduleSource& source :
       {ScheduleSource{{}, folder_.path()}, ScheduleSource{file(), {}}}) {
    const LoadedSchedules loaded = load(source);
    EXPECT_EQ(loaded.ignored, "");
    ASSERT_NE(loaded.schedules, nullptr);
    EXPECT_EQ(loaded.schedules->layers().size(), 1u);
  }
}

TEST_F(KernelSchedules, AreBuiltInWhereThereIsNoFile) {
  for (const ScheduleSource& source : {ScheduleSource(), ScheduleSource{{}, folder_.path()}}) {
    const LoadedSchedules loaded = load(source);
    EXPECT_EQ(loaded.schedules, nullptr);
    EXPECT_EQ(loaded.ignored, "");
  }
  EXPECT_THROW(load({file(), {}}), core::Error);
}

TEST_F(KernelSchedules, OfAnotherGpuAreNotUsed) {
  auto origin = ops::cuda::origin_of(device_);
  origin.multiprocessors = 5;
  write(origin, 32);
  is_refused(ErrorKind::kUsage, "5 multiprocessors");
}

TEST_F(KernelSchedules, OfOtherKernelsAreNotUsed) {
  auto origin = ops::cuda::origin_of(device_);
  ++origin.kernels;
  write(origin, 32);
  is_refused(ErrorKind::kUsage, "tune-kernels");
}

TEST_F(KernelSchedules, WithUnknownPlansAreNotUsed) {
  write(ops::cuda::origin_of(device_), 16);
  is_refused(ErrorKind::kInvalidModel, "token_tile 16");
}

TEST_F(KernelSchedules, MalformedFilesAreNotUsed) {
  write(ops::cuda::origin_of(device_), 32);
  const std::string whole = io::load_json_file(file()).dump();
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    write(whole.substr(0, length));
    is_refused(ErrorKind::kInvalidModel, "");
  }
}

}  // namespace
}  // namespace nibble::engine
