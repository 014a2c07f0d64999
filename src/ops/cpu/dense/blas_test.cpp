#include "ops/cpu/dense/blas.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "ops/cpu/cpu_features.h"

namespace nibble::ops::cpu {
namespace {

constexpr int kSize = 150;  // small ones work without memory

// Small integers: products are exact in any order.
std::vector<float> matrix() {
  std::vector<float> a(kSize * kSize);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 7) - 3;
  }
  return a;
}

std::vector<float> square(const std::vector<float>& a) {
  std::vector<float> product(a.size());
  blas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1.0f, a.data(),
               kSize, a.data(), kSize, 0.0f, product.data(), kSize);
  return product;
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

rlim_t mapped_bytes() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// Runs `work` in a process of its own that has `bytes` more addresses than it takes now.
template <typename Work>
int exit_code_within(rlim_t bytes, Work work) {
  const pid_t child = fork();
  if (child == 0) {
    const rlim_t most = mapped_bytes() + bytes;
    const rlimit limit = {most, most};
    setrlimit(RLIMIT_AS, &limit);
    alarm(60);  // an endless loop must not outlive the test
    try {
      work();
    } catch (const core::Error& error) {
      std::_Exit(static_cast<int>(error.kind()));
    } catch (const std::bad_alloc&) {
      std::_Exit(static_cast<int>(core::ErrorKind::kOutOfMemory));
    }
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Debian's OpenBLAS knows no CPU that came after it; it then takes kernels without AVX.
TEST(Blas, UsesTheVectorUnitsOfTheCpu) {
  if (!cpu_features().avx2 || std::getenv("OPENBLAS_CORETYPE") != nullptr) {
    GTEST_SKIP() << "no AVX2, or OPENBLAS_CORETYPE says what to use";
  }
  EXPECT_NE(std::string(blas().corename()), "Prescott");
  const std::vector<float> a = matrix();
  const std::vector<float> product = square(a);
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j < kSize; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < kSize; ++k) {
        sum += a[i * kSize + k] * a[k * kSize + j];
      }
      ASSERT_EQ(product[i * kSize + j], sum) << i << ' ' << j;
    }
  }
}

TEST(Blas, StartsNoThreads) {
  const std::ptrdiff_t before = threads_of_this_process();
  square(matrix());
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(Blas, CallsFindTheMemoryThatWasReserved) {
  reserve_blas_memory(1);
  const rlim_t before = mapped_bytes();
  square(matrix());
  EXPECT_LT(mapped_bytes(), before + (rlim_t{32} << 20));
}

TEST(Blas, TooLittleMemoryIsAnErrorNotAnEndlessLoop) {
  static_cast<void>(blas());
  EXPECT_EQ(exit_code_within(rlim_t{300} << 20, [] { reserve_blas_memory(64); }),
            static_cast<int>(core::ErrorKind::kOutOfMemory));
}

}  // namespace
}  // namespace nibble::ops::cpu
