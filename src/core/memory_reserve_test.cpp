#include "core/memory_reserve.h"

#include <cstdlib>
#include <fstream>
#include <new>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/json.h"

namespace nibble::core {
namespace {

constexpr int kUnwound = 4;

void limit_memory(rlim_t more_bytes) {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit = {most + more_bytes, most + more_bytes};
  setrlimit(RLIMIT_AS, &limit);
}

// Its members take the last byte, and its destructor more.
void fill_an_object() {
  Json object = Json::object();
  for (int i = 0;; ++i) {
    object[std::to_string(i)] = i;
  }
}

[[noreturn]] void run_out_of_memory(int times) {
  limit_memory(rlim_t{48} << 20);
  for (int i = 0; i < times; ++i) {
    keep_memory_reserve();
    try {
      fill_an_object();
    } catch (const std::bad_alloc&) {
    }
  }
  std::_Exit(kUnwound);
}

TEST(MemoryReserve, LetsObjectsBeDestroyedWithoutMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes all addresses";
#endif
  EXPECT_EXIT(run_out_of_memory(1), ::testing::ExitedWithCode(kUnwound), "");
  EXPECT_EXIT(run_out_of_memory(3), ::testing::ExitedWithCode(kUnwound), "") << "made anew";
}

}  // namespace
}  // namespace nibble::core
