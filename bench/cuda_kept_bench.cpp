// Weights of which two of each four are stored, on a GPU, beside dense ones in the same process:
// microseconds, TOP/s as if all weights were there, and how many times as fast as the dense product
// of the same weights' type. Medians of readings that take turns.
//   cuda_kept_bench [--all] [TOKENSxROWSxINPUTS...]     --all: every plan, not only the chosen one
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/threads.h"
#include "cuda_layers.h"
#include "device/cuda/blas_lt.h"
#include "device/cuda_devices.h"
#include "formats/format.h"
#include "measure.h"
#include "ops/cuda/schedules/linear_shape.h"
#include "ops/cuda/schedules/schedule_fields.h"
#include "ops/cuda/two_of_four/kept_gemm.h"
#include "ops/cuda/two_of_four/kept_packer.h"
#include "timed_launches.h"

namespace nibble::bench {
namespace {

using device::cuda::Buffer;
using ops::cuda::CodeKind;
using ops::cuda::GemmInputs;
using ops::cuda::GemmPlan;

struct Shape {
  int m, n, k;
};
const std::vector<Shape> kShapes = {
    {1, 8192, 8192}, {16, 8192, 8192}, {64, 8192, 8192}, {512, 8192, 8192}, {4096, 8192, 8192}};

/// Dense weights of the same type, by the kernels of gemm.h; float16 by cuBLASLt.
struct Format {
  const char* scheme;
  CodeKind dense;
  bool row_scale;
  GemmInputs inputs;

  bool is_float() const { return dense == CodeKind::kBytes; }
  bool is_rounded() const { return inputs == GemmInputs::kInt8; }
};
constexpr Format kFormats[] = {
    {"f16-2of4", CodeKind::kBytes, false, GemmInputs::kHalf},
    {"int8-sym-row-2of4", CodeKind::kInt8, true, GemmInputs::kHalf},
    {"int4-sym-g128-2of4", CodeKind::kInt4, false, GemmInputs::kHalf},
    {"int8-sym-row-2of4-a8", CodeKind::kInt8, true, GemmInputs::kInt8},
    {"int4-sym-row-2of4-a8", CodeKind::kInt4, true, GemmInputs::kInt8},
    {"int4-sym-g128-2of4-a8", CodeKind::kInt4, false, GemmInputs::kInt8},
};

std::vector<std::int8_t> random_codes(std::int64_t count) {
  core::Random random(3);
  std::vector<std::int8_t> codes;
  for (std::int64_t i = 0; i < count; ++i) {
    codes.push_back(static_cast<std::int8_t>(static_cast<int>(random.below(255)) - 127));
  }
  return codes;
}

/// [n][k] whose groups of 64 rows and 128 inputs are all alike: packing takes no time.
ops::cuda::PackedKept repeated(const formats::Scheme& scheme, std::int64_t n, std::int64_t k) {
  const std::int64_t rows = ops::cuda::kKeptGroupRows;
  const std::int64_t inputs = ops::cuda::kKeptUnitInputs;
  core::Random random(2);
  std::vector<float> values(static_cast<std::size_t>(rows * inputs));
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const std::uint64_t first = random.below(3);
    values[i + first] = random.normal();
    values[i + first + 1 + random.below(3 - first)] = random.normal();
  }
  const formats::PackedWeight weight = formats::round_to_nearest(values, rows, inputs, scheme);
  core::ThreadPool pool(1);
  const ops::cuda::PackedKept one = ops::cuda::pack_kept({{&weight}, false}, pool);
  ops::cuda::PackedKept all{one.form, n, k, {}};
  for (std::int64_t i = 0; i < (n + rows - 1) / rows * all.units_along_k(); ++i) {
    all.units.insert(all.units.end(), one.units.begin(), one.units.end());
  }
  return all;
}

/// By the kernel that such a layer takes, as built in.
double dense_units_seconds(const Format& format, const Shape& shape) {
  const ops::cuda::LinearShape layer = {{format.dense, ops::cuda::ScaleKind::kF16, 1},
                                        format.row_scale,
                                        format.inputs,
                                        0,
                                        shape.n,
                                        shape.k,
                                        ""};
  return built_in_seconds(layer, shape.m);
}

/// Inputs of one shape, as float16 or as codes, and results.
struct Arrays {
  Arrays(const Format& format, const Shape& shape)
      : x(format.is_rounded()
              ? Buffer()
              : Buffer::of<core::Fp16>(random_halves(std::int64_t{shape.m} * shape.k))),
        codes(format.is_rounded()
                  ? Buffer::of<std::int8_t>(random_codes(std::int64_t{shape.m} * shape.k))
                  : Buffer()),
        scales(Buffer::of<float>(std::vector<float>(static_cast<std::size_t>(shape.m), 0.01f))),
        y(std::int64_t{shape.m} * shape.n * 4) {}

  Buffer x;
  Buffer codes;
  Buffer scales;
  Buffer y;
};

void run_shape(const Format& format, const Shape& shape, bool all_plans) {
  const Arrays arrays(format, shape);
  const ops::cuda::PackedKept packed =
      repeated(formats::parse_scheme(format.scheme), shape.n, shape.k);
  const auto copies = copies_of([&] { return ops::cuda::KeptWeights(packed); });
  const ops::cuda::KeptForm& form = copies.front().view().form;
  const auto bytes = static_cast<double>(copies.front().bytes());
  const auto view = [&](int turn) -> const ops::cuda::KeptView& {
    return copies[static_cast<std::size_t>(turn) % copies.size()].view();
  };
  std::vector<std::unique_ptr<Timed>> turns;
  const Buffer w = format.is_float()
                       ? Buffer::of<core::Fp16>(random_halves(std::int64_t{shape.n} * shape.k))
                       : Buffer();
  device::cuda::BlasLt library;
  if (format.is_float()) {
    turns.push_back(std::make_unique<Timed>("dense", static_cast<double>(w.bytes()),
                                            [&](int, cudaStream_t stream) {
                                              library.multiply({.type = core::DType::kF16,
                                                                .n = shape.n,
                                                                .k = shape.k,
                                                                .m = shape.m,
                                                                .w = w.data(),
                                                                .x = arrays.x.data(),
                                                                .ldx = shape.k,
                                                                .y = arrays.y.data(),
                                                                .ldy = shape.n},
                                                               stream);
                                            }));
  }
  if (shape.m <= ops::cuda::kMostKeptTokens) {
    turns.push_back(std::make_unique<Timed>("few", bytes, [&](int turn, cudaStream_t stream) {
      ops::cuda::KeptProblem problem;
      problem.x = arrays.x.as<core::Fp16>();
      problem.codes = arrays.codes.as<std::int8_t>();
      problem.scales = arrays.scales.as<float>();
      problem.ldx = shape.k;
      problem.m = shape.m;
      problem.y = arrays.y.as<float>();
      problem.ldy = shape.n;
      problem.weight = &view(turn);
      ops::cuda::kept_products(problem, stream);
    }));
  }
  const ops::cuda::GemmOutput output{.y = arrays.y.as<float>(), .stride = shape.n};
  const GemmPlan chosen = ops::cuda::kept_gemm_plan(form, shape.n, shape.m);
  for (const GemmPlan& plan : ops::cuda::kept_gemm_plans(form)) {
    const bool is_chosen = same_fields(plan, chosen);
    if (all_plans || is_chosen) {
      turns.push_back(std::make_unique<Timed>(
          to_string(plan) + (is_chosen ? ", chosen" : ""), bytes,
          [&, plan](int turn, cudaStream_t stream) {
            if (format.is_rounded()) {
              const ops::cuda::Int8Inputs inputs{arrays.codes.as<std::int8_t>(), shape.m, shape.k,
                                                 arrays.scales.as<float>()};
              return kept_gemm(plan, view(turn), inputs, output, stream);
            }
            kept_gemm(plan, view(turn),
                      ops::cuda::HalfInputs{arrays.x.data(), shape.m, std::int64_t{2} * shape.k},
                      output, stream);
          }));
    }
  }
  const double before = format.is_float() ? 0 : dense_units_seconds(format, shape);
  read_in_turns(turns);
  const double dense = format.is_float() ? turns.front()->seconds()
                                         : (before + dense_units_seconds(format, shape)) / 2;
  const auto row = [&](const char* name, double seconds) {
    std::printf("%-21s m %4d n %5d k %5d  %9.2f us  %7.1f TOP/s  x %.2f  %s\n", format.scheme,
                shape.m, shape.n, shape.k, seconds * 1e6,
                2e-12 * shape.m * shape.n * shape.k / seconds, dense / seconds, name);
    std::fflush(stdout);
  };
  if (!format.is_float()) {
    row("dense", dense);
  }
  for (const auto& each : turns) {
    row(each->name().c_str(), each->seconds());
  }
}

void run(int count, char** words) {
  bool all_plans = false;
  std::vector<Shape> shapes;
  for (int i = 1; i < count; ++i) {
    Shape shape{};
    if (std::strcmp(words[i], "--all") == 0) {
      all_plans = true;
    } else if (std::sscanf(words[i], "%dx%dx%d", &shape.m, &shape.n, &shape.k) == 3) {
      shapes.push_back(shape);
    }
  }
  std::printf("%s\n", device::require_cuda_device().name.c_str());
  for (const Format& format : kFormats) {
    for (const Shape& shape : shapes.empty() ? kShapes : shapes) {
      run_shape(format, shape, all_plans);
    }
  }
}

}  // namespace
}  // namespace nibble::bench

int main(int count, char** words) {
  try {
    nibble::bench::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_kept_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
