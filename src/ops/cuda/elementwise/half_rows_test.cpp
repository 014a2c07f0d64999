#include <algorithm>
#include <optional>
#include <tuple>

#include "core/threads.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/packed/quantized_input.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/text_pooling.h"
#include "ops/cuda/elementwise/vectors.h"

// Row operators over matrices of float16, beside the CPU's on the same numbers.
namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

struct Shape {
  std::int64_t m;
  std::int64_t columns;
};
// Few and many rows; columns in one and several vectors, ragged, wider than registers hold.
constexpr Shape kShapes[] = {{1, 1},     {3, 5},    {2, 100},  {300, 128}, {5, 768},
                             {300, 768}, {3, 1030}, {2, 9000}, {1, 20000}, {1100, 768}};

/// Numbers of float16 on the host and the device.
struct Halves {
  std::vector<core::Fp16> bits;
  std::vector<float> values;
  Buffer buffer;

  Halves(std::int64_t count, std::uint64_t seed, float size = 1.0f) {
    for (const float value : normal_values(count, seed)) {
      bits.push_back(saturated_fp16(value * size));
      values.push_back(core::to_float(bits.back()));
    }
    buffer = on_device(bits);
  }
  core::Fp16* data() const { return buffer.as<core::Fp16>(); }
};

std::vector<float> floats_of(const Buffer& halves) {
  std::vector<float> result;
  for (const core::Fp16 half : halves.values<core::Fp16>()) {
    result.push_back(core::to_float(half));
  }
  return result;
}

/// Whether each is the float16 nearest to the expected number, or, where sums have another order,
/// its neighbour.
void expect_halves(const Buffer& made, const std::vector<float>& expected,
                   const std::string& what) {
  constexpr double kNeighbour = 1.1e-3;
  std::vector<float> rounded;
  for (const float value : expected) {
    rounded.push_back(core::to_float(saturated_fp16(value)));
  }
  EXPECT_LT(worst_error(floats_of(made), rounded, 1e-2), kNeighbour) << what;
}

/// INT8 with a scale for each row, in tile order.
struct Codes {
  Buffer codes;
  Buffer scales;
  InputTarget target;
  explicit Codes(const Shape& shape)
      : codes(poisoned<std::int8_t>(shape.m * padded_columns(shape.columns))),
        scales(poisoned<float>(shape.m)) {
    target.form = InputForm::kByteTiles;
    target.codes = codes.as<std::int8_t>();
    target.scales = scales.as<float>();
  }
};

/// Those are what the CPU makes of x, bit for bit.
void expect_codes(const Codes& made, const std::vector<float>& x, const Shape& shape,
                  const std::string& what) {
  core::ThreadPool pool(1);
  cpu::QuantizedInput expected;
  cpu::quantize_input(x.data(), shape.m, shape.columns, shape.columns,
                      {128, formats::Activation{8}}, expected, pool);
  const auto codes = made.codes.values<std::int8_t>();
  const auto scales = made.scales.values<float>();
  const std::int64_t padded = padded_columns(shape.columns);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t k = 0; k < padded; ++k) {
      const int right =
          k < shape.columns ? expected.codes(i)[k / 128 * expected.group_stride() + k % 128] : 0;
      wrong += codes[static_cast<std::size_t>(i * padded + int8_tile_position(k))] != right;
    }
    wrong += scales[static_cast<std::size_t>(i)] != expected.scales(i)[0];
  }
  EXPECT_EQ(wrong, 0) << what;
}

class CudaHalfRows : public device::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) {
      stream_.emplace();
      flag_ = on_device(std::vector<std::int32_t>{0});
    }
  }
  static std::string name(const Shape& shape) {
    return std::to_string(shape.m) + " rows of " + std::to_string(shape.columns);
  }
  /// A LayerNorm on both sides.
  struct BothNorms {
    Norm host;
    Buffer weight;
    Buffer bias;
    NormWeights device;
    explicit BothNorms(std::int64_t columns, NormKind kind = NormKind::kLayer) {
      host.kind = kind;
      host.weight = normal_values(columns, 2);
      host.eps = 1e-5f;
      weight = on_device(host.weight);
      if (kind == NormKind::kLayer) {
        host.bias = normal_values(columns, 3);
        bias = on_device(host.bias);
      }
      device = {kind, weight.as<float>(), bias.as<float>(), host.eps};
    }
    std::vector<float> of(const std::vector<float>& x, const Shape& shape) const {
      std::vector<float> y(x.size());
      for (std::int64_t i = 0; i < shape.m; ++i) {
        const auto at = static_cast<std::size_t>(i * shape.columns);
        cpu::norm_row(host, &x[at], &y[at]);
      }
      return y;
    }
  };
  /// The flag that operators raise.
  bool take_flag() {
    stream_->synchronize();
    const bool raised = flag_.values<std::int32_t>().front() != 0;
    const std::int32_t lowered = 0;
    flag_.upload(&lowered, sizeof(lowered));
    return raised;
  }
  std::int32_t* flag() const { return flag_.as<std::int32_t>(); }
  cudaStream_t stream() const { return stream_->get(); }

  std::optional<device::cuda::Stream> stream_;
  Buffer flag_;
};

TEST_F(CudaHalfRows, NormsMatchTheCpu) {
  for (const Shape& shape : kShapes) {
    for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
      const BothNorms norms(shape.columns, kind);
      const Halves x(shape.m * shape.columns, 1, 3.0f);
      const std::vector<float> expected = norms.of(x.values, shape);
      const Buffer narrow = poisoned<core::Fp16>(shape.m * shape.columns);
      const Buffer wide = poisoned<float>(shape.m * shape.columns);
      const Codes codes(shape);
      norm_matrix(x.data(), norms.device, narrow.as<core::Fp16>(), shape.m, shape.columns,
                  stream());
      norm_matrix(x.data(), norms.device, wide.as<float>(), shape.m, shape.columns, stream());
      norm(x.data(), norms.device, codes.target, shape.m, shape.columns, stream());
      stream_->synchronize();
      expect_halves(narrow, expected, name(shape));
      EXPECT_LT(worst_error(wide.values<float>(), expected, 1e-2), 1e-4) << name(shape);
      expect_codes(codes, wide.values<float>(), shape, name(shape));
    }
  }
}

// The residual stream is what is rounded to codes, and takes part in float32.
TEST_F(CudaHalfRows, PostNormWritesTheStreamAndWhatLayersReadOfIt) {
  for (const Shape& shape : kShapes) {
    const std::int64_t count = shape.m * shape.columns;
    const BothNorms norms(shape.columns);
    const Halves x(count, 1, 3.0f);
    const Halves delta(count, 5);
    std::vector<float> sum(x.values);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += delta.values[i];
    }
    const Buffer y = poisoned<core::Fp16>(count);
    const Buffer alone = poisoned<core::Fp16>(count);
    const Codes codes(shape);
    post_norm(x.data(), delta.data(), norms.device, y.as<core::Fp16>(), codes.target, shape.m,
              shape.columns, stream());
    post_norm_matrix(x.data(), delta.data(), norms.device, alone.as<core::Fp16>(), shape.m,
                     shape.columns, stream());
    stream_->synchronize();
    expect_halves(y, norms.of(sum, shape), name(shape));
    EXPECT_EQ(y.values<core::Fp16>(), alone.values<core::Fp16>()) << name(shape);
    expect_codes(codes, floats_of(y), shape, name(shape));
    const std::int64_t padded = padded_columns(shape.columns);
    const Buffer values = poisoned<core::Fp16>(shape.m * padded);
    for (const bool tiles : {false, true}) {
      const Buffer again = poisoned<core::Fp16>(count);
      const InputTarget target{.form = tiles ? InputForm::kFloat16Tiles : InputForm::kFloat16,
                               .values = values.as<core::Fp16>()};
      post_norm(x.data(), delta.data(), norms.device, again.as<core::Fp16>(), target, shape.m,
                shape.columns, stream());
      stream_->synchronize();
      EXPECT_EQ(again.values<core::Fp16>(), y.values<core::Fp16>()) << name(shape);
      const auto stored = y.values<core::Fp16>();
      const auto found = values.values<core::Fp16>();
      for (std::int64_t i = 0; i < shape.m; ++i) {
        for (std::int64_t k = 0; k < padded; ++k) {
          const auto at =
              static_cast<std::size_t>(i * padded + (tiles ? float16_tile_position(k) : k));
          const core::Fp16 right = k < shape.columns
                                       ? stored[static_cast<std::size_t>(i * shape.columns + k)]
                                       : core::Fp16{0};
          ASSERT_EQ(found[at], right) << name(shape) << ", row " << i << ", column " << k;
        }
      }
    }
  }
}

// In float32: the bits of the norm of the sum, and codes of them.
TEST_F(CudaHalfRows, PostNormOfFloatsHasTheBitsOfItsParts) {
  for (const Shape& shape : kShapes) {
    const std::int64_t count = shape.m * shape.columns;
    const BothNorms norms(shape.columns);
    const Buffer x = on_device(normal_values(count, 1));
    const Buffer sum = on_device(normal_values(count, 1));
    const Buffer delta = on_device(normal_values(count, 2));
    const Buffer expected = poisoned<float>(count);
    const Buffer y = poisoned<float>(count);
    const Codes codes(shape);
    add(sum.as<float>(), delta.as<float>(), count, stream());
    norm_matrix(sum.as<float>(), norms.device, expected.as<float>(), shape.m, shape.columns,
                stream());
    post_norm(x.as<float>(), delta.as<float>(), norms.device, y.as<float>(), codes.target, shape.m,
              shape.columns, stream());
    stream_->synchronize();
    EXPECT_EQ(y.values<float>(), expected.values<float>()) << name(shape);
    EXPECT_EQ(x.values<float>(), normal_values(count, 1)) << name(shape);
    expect_codes(codes, y.values<float>(), shape, name(shape));
  }
}

TEST_F(CudaHalfRows, AddNormKeepsTheSumInFloat16) {
  for (const Shape& shape : kShapes) {
    const std::int64_t count = shape.m * shape.columns;
    const BothNorms norms(shape.columns);
    const Halves x(count, 1, 3.0f);
    const Halves delta(count, 5);
    std::vector<float> sum;
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      sum.push_back(core::to_float(saturated_fp16(x.values[i] + delta.values[i])));
    }
    const Codes codes(shape);
    const Buffer wide = poisoned<float>(count);
    add_norm(x.data(), delta.data(), norms.device, codes.target, shape.m, shape.columns, stream());
    norm_matrix(x.data(), norms.device, wide.as<float>(), shape.m, shape.columns, stream());
    stream_->synchronize();
    EXPECT_EQ(floats_of(x.buffer), sum) << name(shape);
    expect_codes(codes, wide.values<float>(), shape, name(shape));
  }
}

TEST_F(CudaHalfRows, RowsDoNotDependOnTheBatch) {
  for (const std::int64_t columns : {768, 1030, 3000, 20000}) {
    const Shape many{300, columns};
    const BothNorms norms(columns);
    const Halves x(many.m * columns, 1, 3.0f);
    const Halves delta(many.m * columns, 5);
    const auto run = [&](std::int64_t m) {
      const Buffer y = poisoned<core::Fp16>(m * columns);
      const Codes codes({m, columns});
      post_norm(x.data(), delta.data(), norms.device, y.as<core::Fp16>(), codes.target, m, columns,
                stream());
      stream_->synchronize();
      return std::pair{y.values<core::Fp16>(), codes.codes.values<std::int8_t>()};
    };
    const auto all = run(many.m);
    for (const std::int64_t m : {1, 16, 17}) {
      const auto some = run(m);
      EXPECT_TRUE(std::equal(some.first.begin(), some.first.end(), all.first.begin()));
      EXPECT_TRUE(std::equal(some.second.begin(), some.second.end(), all.second.begin()));
    }
  }
}

// Many short rows have kernels of their own (warp_rows.cuh).
TEST_F(CudaHalfRows, ManyShortRowsHaveTheBitsOfFew) {
  struct Rounding {
    int bits;
    float scale;
  };
  for (const std::int64_t columns : {256, 512, 768, 1024, 1536, 2048, 3072, 4096}) {
    const BothNorms norms(columns);
    const Halves x(1500 * columns, 1, 3.0f);
    const Halves delta(1500 * columns, 5);
    for (const Rounding& rounding : {Rounding{8, 0.0f}, Rounding{4, 0.0f}, Rounding{8, 0.02f}}) {
      const Buffer y = poisoned<core::Fp16>(1500 * columns);
      const Codes codes({1500, columns});
      const auto target_from = [&](std::int64_t row) {
        InputTarget target = codes.target;
        target.codes += row * columns;
        target.scales += row;
        target.bits = rounding.bits;
        target.scale = rounding.scale;
        return target;
      };
      const auto round = [&](std::int64_t row, std::int64_t m) {
        input(x.data() + row * columns, target_from(row), m, columns, stream());
      };
      const auto norm = [&](std::int64_t row, std::int64_t m) {
        const std::int64_t at = row * columns;
        post_norm(x.data() + at, delta.data() + at, norms.device, y.as<core::Fp16>() + at,
                  target_from(row), m, columns, stream());
      };
      const auto results = [&](const auto& run, std::int64_t step) {
        device::cuda::check(
            cudaMemsetAsync(codes.codes.data(), 0x55, codes.codes.bytes(), stream()),
            "cudaMemsetAsync");
        for (std::int64_t row = 0; row < 1500; row += step) {
          run(row, step);
        }
        stream_->synchronize();
        return std::tuple{y.values<core::Fp16>(), codes.codes.values<std::int8_t>(),
                          codes.scales.values<float>()};
      };
      const std::string what = std::to_string(columns) + " columns, " +
                               std::to_string(rounding.bits) + " bits, scale " +
                               std::to_string(rounding.scale);
      EXPECT_TRUE(results(round, 1500) == results(round, 500)) << what;
      EXPECT_TRUE(results(norm, 1500) == results(norm, 500)) << what;
    }
  }
}

TEST_F(CudaHalfRows, ManyShortRowsNoticeTheEndOfTheRange) {
  constexpr std::int64_t kRows = 1200;
  constexpr std::int64_t kColumns = 768;
  const BothNorms norms(kColumns);
  for (const bool large : {false, true}) {
    for (const bool in_delta : {false, true}) {
      const Halves x(kRows * kColumns, 1);
      const Halves delta(kRows * kColumns, 5);
      const std::uint16_t end = large ? 0xfbff : 0xfbfe;  // -65504, and its neighbour
      device::cuda::check(cudaMemcpy((in_delta ? delta : x).data() + 700 * kColumns + 301, &end,
                                     sizeof(end), cudaMemcpyHostToDevice),
                          "cudaMemcpy");
      const Buffer y = poisoned<core::Fp16>(kRows * kColumns);
      const Codes codes({kRows, kColumns});
      post_norm(MatrixView(x.data(), in_delta ? nullptr : flag()),
                MatrixView(delta.data(), in_delta ? flag() : nullptr), norms.device,
                y.as<core::Fp16>(), codes.target, kRows, kColumns, stream());
      EXPECT_EQ(take_flag(), large) << (in_delta ? "delta" : "x");
    }
  }
}

TEST_F(CudaHalfRows, InputsAndActivationsMatchTheCpu) {
  for (const Shape& shape : kShapes) {
    const std::int64_t count = shape.m * shape.columns;
    const Halves x(count, 7, 4.0f);
    const Codes plain(shape);
    input(x.data(), plain.target, shape.m, shape.columns, stream());
    stream_->synchronize();
    expect_codes(plain, x.values, shape, name(shape));
    for (const MlpActivation activation :
         {MlpActivation::kGelu, MlpActivation::kRelu, MlpActivation::kTanh}) {
      std::vector<float> expected(x.values.size());
      cpu::activate(activation, x.values.data(), expected.data(), count);
      const Buffer narrow = poisoned<core::Fp16>(count);
      const Buffer wide = poisoned<float>(count);
      const Codes codes(shape);
      mlp_activation_matrix(x.data(), activation, narrow.as<core::Fp16>(), shape.m, shape.columns,
                            stream());
      mlp_activation_matrix(x.data(), activation, wide.as<float>(), shape.m, shape.columns,
                            stream());
      mlp_activation(x.data(), activation, codes.target, shape.m, shape.columns, stream());
      stream_->synchronize();
      expect_halves(narrow, expected, name(shape));
      EXPECT_LT(worst_error(wide.values<float>(), expected, 1e-2), 1e-4) << name(shape);
      expect_codes(codes, wide.values<float>(), shape, name(shape));
    }
  }
}

TEST_F(CudaHalfRows, RowsAreReadMovedAndAdded) {
  constexpr std::int64_t kTableRows = 7;
  for (const std::int64_t columns : {3, 100, 768, 1500}) {
    const auto width = static_cast<std::size_t>(columns);
    const std::vector<float> table = normal_values(kTableRows * columns, 31);
    const Buffer device_table = on_device(table);
    const std::vector<std::int32_t> ids = {4, 0, 6};
    const Buffer device_ids = on_device(ids);
    const auto m = static_cast<std::int64_t>(ids.size());
    const EmbeddingTable embedding{device_table.data(), core::DType::kF32, kTableRows, columns};
    const Buffer x = poisoned<core::Fp16>(m * columns);
    embed(embedding, device_ids.as<std::int32_t>(), 0, x.as<core::Fp16>(), m, stream());
    stream_->synchronize();
    std::vector<float> expected;
    for (const std::int32_t id : ids) {
      for (std::int64_t k = 0; k < columns; ++k) {
        const float value = table[static_cast<std::size_t>(id * columns + k)];
        expected.push_back(core::to_float(saturated_fp16(value)));
      }
    }
    EXPECT_EQ(floats_of(x), expected) << columns;
    add_rows(embedding, device_ids.as<std::int32_t>(), 0, x.as<core::Fp16>(), m, stream());
    scale(x.as<core::Fp16>(), 0.7f, m * columns, stream());
    add(x.as<core::Fp16>(), x.as<core::Fp16>(), m * columns, stream());
    stream_->synchronize();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto id = static_cast<std::size_t>(ids[i / width]);
      const float added =
          core::to_float(saturated_fp16(expected[i] + table[id * width + i % width]));
      expected[i] = 2.0f * core::to_float(saturated_fp16(added * 0.7f));
    }
    EXPECT_EQ(floats_of(x), expected) << columns;
    const Buffer gathered = poisoned<float>(2 * columns);
    const Buffer rows = on_device(std::vector<std::int32_t>{2, 0});
    gather(x.as<core::Fp16>(), m, columns, rows.as<std::int32_t>(), gathered.as<float>(), 2,
           stream());
    const Buffer wide = poisoned<float>(m * columns);
    const Buffer narrow = poisoned<core::Fp16>(m * columns);
    convert(x.as<core::Fp16>(), wide.as<float>(), m, columns, stream());
    convert(wide.as<float>(), narrow.as<core::Fp16>(), m, columns, stream());
    const Buffer pooled = poisoned<float>(columns);
    const Buffer begin = on_device(std::vector<std::int32_t>{0});
    const Buffer end = on_device(std::vector<std::int32_t>{3});
    pool_texts(TextPooling::kMax, x.as<core::Fp16>(), columns, begin.as<std::int32_t>(),
               end.as<std::int32_t>(), pooled.as<float>(), 1, stream());
    stream_->synchronize();
    EXPECT_EQ(wide.values<float>(), expected) << columns;
    EXPECT_EQ(narrow.values<core::Fp16>(), x.values<core::Fp16>()) << columns;
    const auto from_rows = gathered.values<float>();
    const auto most = pooled.values<float>();
    for (std::size_t k = 0; k < width; ++k) {
      const auto row = [&](std::size_t i) { return expected[i * width + k]; };
      EXPECT_EQ(from_rows[k], row(2));
      EXPECT_EQ(from_rows[width + k], row(0));
      EXPECT_EQ(most[k], std::max({row(0), row(1), row(2)}));
    }
  }
}

// Each operator that reads a value at the end of the range says so, and none that reads the one
// before it.
TEST_F(CudaHalfRows, TheEndOfTheRangeIsNoted) {
  constexpr std::uint16_t kLast = 0xfbff;
  constexpr std::uint16_t kInfinity = 0x7c00;
  constexpr std::uint16_t kBefore = 0xfbfe;
  for (const Shape& shape : {Shape{2, 768}, Shape{3, 101}, Shape{1, 20000}}) {
    const std::int64_t count = shape.m * shape.columns;
    const BothNorms norms(shape.columns);
    const Codes codes(shape);
    const Buffer y = poisoned<core::Fp16>(count);
    const Buffer wide = poisoned<float>(count);
    const Halves plain(count, 9);
    const std::vector<std::int32_t> all{0, 1, 2};
    const Buffer rows = on_device(all);
    const Buffer ends = on_device(std::vector<std::int32_t>{1, 2, 3});
    for (const std::uint16_t bits : {kLast, kInfinity, kBefore}) {
      for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
        std::vector<core::Fp16> values = plain.bits;
        values[static_cast<std::size_t>(at)].bits = bits;
        const Buffer x = on_device(values);
        const MutableMatrixView view(x.as<core::Fp16>(), flag());
        const bool expected = bits != kBefore;
        const auto check = [&](const char* what) {
          EXPECT_EQ(take_flag(), expected) << what << ", " << name(shape) << ", " << at;
        };
        input(view, codes.target, shape.m, shape.columns, stream());
        check("input");
        mlp_activation(view, MlpActivation::kRelu, codes.target, shape.m, shape.columns, stream());
        check("mlp_activation");
        post_norm(plain.data(), view, norms.device, y.as<core::Fp16>(), codes.target, shape.m,
                  shape.columns, stream());
        check("post_norm");
        norm(view, norms.device, codes.target, shape.m, shape.columns, stream());
        check("norm");
        convert(view, wide.as<float>(), shape.m, shape.columns, stream());
        check("convert");
        gather(view, shape.m, shape.columns, rows.as<std::int32_t>(), wide.as<float>(), shape.m,
               stream());
        check("gather");
        pool_texts(TextPooling::kMean, view, shape.columns, rows.as<std::int32_t>(),
                   ends.as<std::int32_t>(), wide.as<float>(), shape.m, stream());
        check("pool_texts");
        add(MutableMatrixView(y.as<core::Fp16>()), view, count, stream());
        check("add");
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
