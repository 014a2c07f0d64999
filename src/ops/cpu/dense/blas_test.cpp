#include "ops/cpu/dense/blas.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <cblas.h>
#include <gtest/gtest.h>

#include "ops/cpu/cpu_features.h"

namespace nibble::ops::cpu {
namespace {

// Debian's OpenBLAS knows no CPU that came after it; it then takes kernels without AVX.
TEST(Blas, UsesTheVectorUnitsOfTheCpu) {
  if (!cpu_features().avx2 || std::getenv("OPENBLAS_CORETYPE") != nullptr) {
    GTEST_SKIP() << "no AVX2, or OPENBLAS_CORETYPE says what to use";
  }
  prepare_blas();
  EXPECT_NE(std::string(openblas_get_corename()), "Prescott");
  EXPECT_EQ(openblas_get_num_threads(), 1);

  constexpr int kSize = 33;
  std::vector<float> a(kSize * kSize);
  std::vector<float> product(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 7) - 3;
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1.0f, a.data(), kSize,
              a.data(), kSize, 0.0f, product.data(), kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j < kSize; ++j) {
      float sum = 0;  // small integers: exact in any order
      for (std::size_t k = 0; k < kSize; ++k) {
        sum += a[i * kSize + k] * a[k * kSize + j];
      }
      ASSERT_EQ(product[i * kSize + j], sum) << i << ' ' << j;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
