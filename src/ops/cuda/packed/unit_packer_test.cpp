#include "ops/cuda/packed/unit_packer.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/packed/unit_cases_for_tests.h"
#include "ops/cuda/packed/unit_kernels.h"

// What the device makes of weights, bit by bit beside the reference.
namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

constexpr std::int64_t kMargin = 64;  // bytes behind the last unit, which must not change

class CudaUnitPacker : public device::GpuTest {
 protected:
  void expect_packed(UnitPacker& packer, const UnitCase& weights, const std::string& what) {
    const auto bytes = static_cast<std::int64_t>(weights.units.size());
    const Buffer device = poisoned<std::byte>(bytes + kMargin);
    packer.pack(weights.rows, weights.format, device.data());
    std::vector<std::byte> expected = weights.units;
    expected.resize(static_cast<std::size_t>(bytes + kMargin), std::byte{0xff});
    const std::vector<std::byte> units = device.values<std::byte>();
    const auto first = std::mismatch(units.begin(), units.end(), expected.begin()).first;
    EXPECT_EQ(first, units.end()) << what << ": byte " << first - units.begin() << " of "
                                  << weights.format.bytes() << " of a unit";
  }

  core::ThreadPool pool_{3};
};

TEST_F(CudaUnitPacker, MakesTheUnitsOfTheReference) {
  UnitPacker packer(pool_);
  for (const std::string& scheme : kUnitSchemes) {
    for (const auto& [n, k] : unit_shapes(scheme)) {
      const std::string what = scheme + ", " + std::to_string(n) + " x " + std::to_string(k);
      expect_packed(packer, UnitCase(scheme, {n}, k), what);
    }
  }
}

// The smallest pieces are less than 64 rows: each of them grows, and both buffers are used often.
TEST_F(CudaUnitPacker, TheSameInPieces) {
  for (const std::int64_t staging : {std::int64_t{256}, std::int64_t{20000}, std::int64_t{50000}}) {
    UnitPacker packer(pool_, staging);
    for (const std::string scheme :
         {"int4-asym-g32", "lut3-row-g64", "int2-asym-g128", "int8-sym-row", "int8-sym-tensor",
          "nvfp4", "fp8-row", "fp8-tensor"}) {
      expect_packed(packer, UnitCase(scheme, {300, 400, 377}, 416), scheme);
      expect_packed(packer, UnitCase(scheme, {584, 584}, 416, true), scheme + " in pairs");
    }
    expect_packed(packer, UnitCase("int4-sym-g128", {200}, 2048), "longer rows behind shorter");
  }
}

TEST_F(CudaUnitPacker, SumsOfRowsAreThoseOfTheReference) {
  for (const std::string& scheme : kUnitSchemes) {
    for (const auto& [n, k] : unit_shapes(scheme)) {
      const UnitCase weights(scheme, {n}, k);
      const bool book = is_book(weights.format.codes);
      const Buffer units = on_device(weights.units);
      const Buffer tables = on_device(weights.tables);
      const Buffer factors = on_device(weights.factors);
      const UnitsView view{weights.format,
                           n,
                           k,
                           units.data(),
                           book ? tables.as<std::int8_t>() : nullptr,
                           book ? factors.as<float>() : nullptr};
      for (const std::int64_t step : {0, 16, 128}) {
        const std::int64_t steps = step == 0 ? 1 : (k + step - 1) / step;
        const Buffer sums = poisoned<float>(n * steps);
        sum_rows(view, step, sums.as<float>(), nullptr);
        device::cuda::check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
        const std::vector<float> got = sums.values<float>();
        for (std::int64_t row = 0; row < n; ++row) {
          const std::vector<float> expected =
              unit_row_sums(weights.weights.front(), weights.format, row, step);
          for (std::int64_t i = 0; i < steps; ++i) {
            ASSERT_EQ(got[static_cast<std::size_t>(row * steps + i)],
                      expected[static_cast<std::size_t>(i)])
                << scheme << ", row " << row << ", inputs from " << i * step;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
