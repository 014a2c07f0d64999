#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/trellis/trellis_code.h"
#include "ops/cuda/cuda_layers_for_tests.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/trellis/trellis_weights_for_tests.h"
#include "ops/input_transform.h"

// Layers of trellis codes from float input to result, beside rows as the format decodes them.
namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

class TrellisCudaLayers : public CudaLayers {
 protected:
  /// y [m][n] in double, of inputs that the weight's Hadamard has turned.
  static std::vector<double> expected(const PackedWeight& weight, const std::vector<float>& x,
                                      std::int64_t m) {
    std::vector<float> turned = x;
    const InputTransform transform(weight);
    for (std::int64_t token = 0; token < m; ++token) {
      transform.apply(std::span(turned).subspan(static_cast<std::size_t>(token * weight.k),
                                                static_cast<std::size_t>(weight.k)));
    }
    std::vector<double> y(static_cast<std::size_t>(m * weight.n));
    std::vector<float> row(static_cast<std::size_t>(weight.k));
    for (std::int64_t n = 0; n < weight.n; ++n) {
      formats::decode_row(weight, n, row);
      for (std::int64_t token = 0; token < m; ++token) {
        double sum = 0;
        for (std::int64_t i = 0; i < weight.k; ++i) {
          sum += static_cast<double>(row[static_cast<std::size_t>(i)]) *
                 turned[static_cast<std::size_t>(token * weight.k + i)];
        }
        y[static_cast<std::size_t>(token * weight.n + n)] = sum;
      }
    }
    return y;
  }
};

double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// Activations in float16; with more than 64 tokens weights too.
TEST_F(TrellisCudaLayers, ComeNear) {
  for (const std::string scheme :
       {"trellis4-row", "trellis3-row-hrow", "trellis2-row", "trellis4-row-hrow"}) {
    const PackedWeight weight = random_trellis(scheme, 208, 1152, 3);
    const LinearSet set = single(weight);
    for (const std::int64_t m : {1, 4, 8, 9, 33, 64, 65, 130}) {
      const std::vector<float> x = normal_values(m * weight.k, 4);
      const std::vector<double> y = expected(weight, x, m);
      const std::vector<float> got = run(set, x, m);
      const double tolerance = (m > 64 ? 4e-3 : 2e-3) * root_mean_square(y);
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(got[i], y[i], tolerance) << scheme << ", " << m << " tokens, " << i;
      }
    }
  }
}

// Gate and up, of whose rows eight and eight take turns in the result, and the parts of a set that
// stand side by side, with biases.
TEST_F(TrellisCudaLayers, StandInPairsOrSideBySide) {
  for (const bool pairs : {true, false}) {
    LinearSet set;
    set.id = 0;
    set.pairs = pairs;
    const std::vector<float> bias(160, 0.5f);
    set.parts.push_back({"gate", random_trellis("trellis3-row-hrow", 160, 256, 1), {}});
    set.parts.push_back({"up", random_trellis("trellis3-row-hrow", 160, 256, 2), bias});
    for (const std::int64_t m : {3, 70}) {
      const std::vector<float> x = normal_values(m * 256, 4);
      const std::vector<float> got = run(set, x, m);
      for (std::size_t part = 0; part < 2; ++part) {
        const std::vector<double> y = expected(set.parts[part].weight, x, m);
        const double tolerance = 4e-3 * root_mean_square(y);
        for (std::size_t i = 0; i < y.size(); ++i) {
          const std::size_t row = i % 160;
          const std::size_t column = pairs ? row / 8 * 16 + row % 8 + 8 * part : 160 * part + row;
          ASSERT_NEAR(got[i / 160 * 320 + column], y[i] + (part == 1 ? 0.5 : 0.0), tolerance)
              << m << " tokens, part " << part << ", " << i;
        }
      }
    }
  }
}

TEST_F(TrellisCudaLayers, OfRoundedActivationsAreRefused) {
  CudaOps ops({});
  UnitPacker packer(pool_);
  LinearSet set;
  set.id = 0;
  set.parts.push_back({"layer", random_trellis("trellis4-row-a8", 16, 64, 1), {}});
  try {
    ops.prepare(set, packer);
    ADD_FAILURE() << "was taken";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    EXPECT_STREQ(error.what(),
                 "layer layer: trellis4-row-a8 on a GPU: trellis codes meet activations that are "
                 "not rounded; use --device cpu");
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
