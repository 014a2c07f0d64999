#include "core/memory_reserve.h"

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <utility>
#include <vector>

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

// All of the memory that malloc() gives, in blocks that know the one before.
class AllMemory {
 public:
  AllMemory() {
    for (std::size_t bytes = 1 << 20; bytes >= sizeof(void*); bytes /= 2) {
      while (void* const block = std::malloc(bytes)) {
        *static_cast<void**>(block) = last_;
        last_ = block;
      }
    }
  }
  ~AllMemory() {
    while (last_ != nullptr) {
      std::free(std::exchange(last_, *static_cast<void**>(last_)));
    }
  }
  AllMemory(const AllMemory&) = delete;
  AllMemory& operator=(const AllMemory&) = delete;

 private:
  void* last_ = nullptr;
};

// Throws where the object is destroyed before there is memory again; its destructor takes some.
void fail_beside_an_object() {
  Json object = Json::object();
  for (int i = 0; i < 50'000; ++i) {
    object[std::to_string(i)] = i;
  }
  const auto all = std::make_unique<AllMemory>();
  const Json moved = std::move(object);
  const std::vector<char> one_more(1 << 20);
  [[maybe_unused]] const volatile char seen = one_more.back();  // no compiler may leave it out
}

[[noreturn]] void run_out_of_memory(int times) {
  limit_memory(rlim_t{64} << 20);
  for (int i = 0; i < times; ++i) {
    keep_memory_reserve();
    try {
      fail_beside_an_object();
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
