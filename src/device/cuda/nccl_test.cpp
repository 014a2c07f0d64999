#include "device/cuda/nccl.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::device::cuda {
namespace {

constexpr const char* kVariable = "NIBBLE_NCCL_LIBRARY";

std::string refusal() {
  try {
    (void)make_nccl_id();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

// Where NCCL is opened once it stays open, so all of this is one test.
TEST(Nccl, SaysWhatIsMissing) {
  setenv(kVariable, "/nowhere/libnccl.so.2", 1);
  const std::string missing = refusal();
  EXPECT_NE(missing.find("NCCL cannot be opened (/nowhere/libnccl.so.2"), std::string::npos)
      << missing;
  EXPECT_NE(missing.find("pip install nvidia-nccl-cu13"), std::string::npos) << missing;
  EXPECT_EQ(missing.find('\n'), std::string::npos) << missing;

  const std::string other = "libm.so.6";
  setenv(kVariable, other.c_str(), 1);
  try {
    (void)nccl_version();
    ADD_FAILURE() << "a library that is another one was taken";
  } catch (const core::Error& error) {
    EXPECT_STREQ(error.what(), "NCCL has no function ncclGetVersion");
  }
  unsetenv(kVariable);
}

TEST(Nccl, WithoutACommunicatorHasNothingToEnd) {
  NcclCommunicator none;
  none.end();
  EXPECT_EQ(none.failure(), "");
}

}  // namespace
}  // namespace nibble::device::cuda
