// Times the GEMM kernels for many tokens at once: TOP/s for every format and plan, and the share of
// the read bandwidth that the weights take.
//   cuda_gemm_bench [--all | --layers] [--large] [--few] [--results float16 | --results gelu]
//                   [FORMAT...] [TOKENSxROWSxINPUTS...]
//     --all times every plan, not only the chosen one; --layers the kernel that a layer takes for
//     so many tokens, as built in; --large takes the largest shapes only, --few those of up to 64
//     tokens; --results: in float16 in the place of float32, or GELU of them in float16
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/cuda_devices.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/limits/read_bandwidth.h"
#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/schedules/choose_schedules.h"
#include "ops/cuda/schedules/linear_trial.h"
#include "ops/cuda/schedules/schedule_fields.h"
#include "ops/cuda/schedules/schedules.h"

namespace nibble::bench {
namespace {

using ops::cuda::CodeKind;
using ops::cuda::GemmInputs;
using ops::cuda::GemmPlan;
using ops::cuda::LinearShape;
using ops::cuda::LinearTrial;

struct Format {
  const char* name;
  CodeKind codes;
  int groups;  // in a unit
  bool row_scale;
  GemmInputs inputs;
  int tail;
  const char* code = "";  // LinearShape::code
};
constexpr Format kFormats[] = {
    {"w8a8", CodeKind::kInt8, 1, true, GemmInputs::kInt8, 0},
    {"w4a8-row", CodeKind::kInt4, 1, true, GemmInputs::kInt8, 0},
    {"w4a8-g128", CodeKind::kInt4, 1, false, GemmInputs::kInt8, 0},
    {"w4a8-g128z", CodeKind::kInt4WithZeros, 1, false, GemmInputs::kInt8, 0},
    {"w4a4-atom", CodeKind::kInt4, 1, false, GemmInputs::kInt8ScaledByGroup, 128},
    {"w4a16-g128", CodeKind::kInt4, 1, false, GemmInputs::kHalf, 0},
    {"w4a16-g32z", CodeKind::kInt4WithZeros, 4, false, GemmInputs::kHalf, 0},
    {"w8a16", CodeKind::kInt8, 1, true, GemmInputs::kHalf, 0},
    {"book-g64", CodeKind::kBook, 4, false, GemmInputs::kHalf, 0},
    {"fp8", CodeKind::kBytes, 1, true, GemmInputs::kHalf, 0, "fp8"},
    {"fp8-w8a8", CodeKind::kBytes, 1, true, GemmInputs::kBytes, 0, "fp8"},
};

struct Shape {
  int m, n, k;
};
constexpr int kMostFew = 64;
constexpr int kLeastLarge = 4096;
const std::vector<Shape> kShapes = {
    {8192, 8192, 8192}, {4096, 8192, 8192}, {1024, 4096, 4096}, {512, 4096, 4096},
    {256, 4096, 4096},  {128, 4096, 4096},  {65, 4096, 4096},   {512, 28672, 8192},
    {128, 28672, 8192}, {16, 4096, 4096},   {32, 4096, 4096},   {64, 4096, 4096},
    {16, 14336, 4096},  {32, 14336, 4096},  {64, 14336, 4096},  {16, 4096, 11008},
    {32, 4096, 11008},  {64, 4096, 11008},  {16, 28672, 8192},  {32, 28672, 8192},
    {64, 28672, 8192},
};

struct Options {
  bool all = false;
  bool layers = false;
  bool large = false;
  bool few = false;
  ops::Epilogue epilogue;
  std::vector<std::string> formats;
  std::vector<Shape> shapes;

  bool takes(const Format& format) const {
    return formats.empty() ||
           std::find(formats.begin(), formats.end(), format.name) != formats.end();
  }
  bool takes(const Shape& shape) const {
    return (!large || shape.m >= kLeastLarge) && (!few || shape.m <= kMostFew);
  }
};

ops::Epilogue results_named(const std::string& name) {
  if (name == "float32") {
    return {};
  }
  if (name == "float16") {
    return {.half = true};
  }
  if (name == "gelu") {
    return {.half = true, .activation = ops::MlpActivation::kGelu};
  }
  throw std::runtime_error("results are float32, float16 or gelu, not " + name);
}

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    Shape shape{};
    if (std::strcmp(words[i], "--all") == 0) {
      options.all = true;
    } else if (std::strcmp(words[i], "--layers") == 0) {
      options.layers = true;
    } else if (std::strcmp(words[i], "--large") == 0) {
      options.large = true;
    } else if (std::strcmp(words[i], "--few") == 0) {
      options.few = true;
    } else if (std::strcmp(words[i], "--results") == 0 && i + 1 < count) {
      options.epilogue = results_named(words[++i]);
    } else if (std::sscanf(words[i], "%dx%dx%d", &shape.m, &shape.n, &shape.k) == 3) {
      options.shapes.push_back(shape);
    } else {
      options.formats.emplace_back(words[i]);
    }
  }
  return options;
}

LinearShape shape_of(const Format& format, const Shape& shape) {
  return {{format.codes, ops::cuda::ScaleKind::kF16, format.groups},
          format.row_scale,
          format.inputs,
          format.tail,
          shape.n,
          shape.k - format.tail,
          format.code};
}

void report(const Format& format, const Shape& shape, double seconds, const LinearTrial& trial,
            double limit, const std::string& remark) {
  std::printf("%-11s m %5d n %5d k %5d  %9.2f us  %7.1f TOP/s  %5.1f %% of reads  %s\n",
              format.name, shape.m, shape.n, shape.k, seconds * 1e6,
              2e-12 * shape.m * shape.n * shape.k / seconds,
              100 * static_cast<double>(trial.weight_bytes()) / seconds / limit, remark.c_str());
  std::fflush(stdout);
}

void bench(const Format& format, const Shape& shape, const Options& options, double limit) {
  const LinearShape layer = shape_of(format, shape);
  const auto weights = weights_of(layer);
  const GemmPlan chosen = ops::cuda::plan_gemm(weights, layer.inputs, shape.m);
  const LinearTrial trial(layer, shape.m, options.epilogue);
  const auto row = [&](const GemmPlan& plan, const char* remark) {
    report(format, shape, trial.gemm(shape.m, plan), trial, limit, to_string(plan) + remark);
  };
  if (!options.all) {
    return row(chosen, "");
  }
  for (const GemmPlan& plan : ops::cuda::planned_product(layer)->plans(layer)) {
    if (plan.token_tile < std::max(2 * shape.m, kMostFew)) {
      row(plan, same_fields(plan, chosen) ? ", chosen" : "");
    }
  }
}

// In the order of ops/cuda/linear/linear_kernels.h.
void bench_layer(const Format& format, const Shape& shape, const Options& options,
                 int multiprocessors, double limit) {
  const LinearShape layer = shape_of(format, shape);
  const ops::cuda::LinearCandidates candidates = linear_candidates(layer, multiprocessors);
  const LinearTrial trial(layer, shape.m, options.epilogue);
  if (!candidates.medium.empty() && layer.is_medium(shape.m)) {
    const auto& schedule = candidates.medium.front();
    return report(format, shape, trial.medium(shape.m, schedule), trial, limit,
                  "medium-batch, " + to_string(schedule));
  }
  if (shape.m <= ops::cuda::max_small_batch(layer.format, layer.digits())) {
    const auto& schedule = candidates.built_in_few;
    return report(format, shape, trial.few_tokens(shape.m, schedule), trial, limit,
                  "small-batch, " + to_string(schedule));
  }
  const GemmPlan plan = candidates.built_in_plan(shape.m);
  report(format, shape, trial.gemm(shape.m, plan), trial, limit, "gemm, " + to_string(plan));
}

void run(const Options& options) {
  const auto device = device::require_cuda_device();
  const double limit = ops::cuda::measure_read_bandwidth();
  std::printf("%s, %d multiprocessors: reads %.0f GB/s\n", device.name.c_str(),
              device.multiprocessors, limit / 1e9);
  for (const Format& format : kFormats) {
    if (!options.takes(format)) {
      continue;
    }
    for (const Shape& shape : options.shapes.empty() ? kShapes : options.shapes) {
      if (options.takes(shape)) {
        options.layers ? bench_layer(format, shape, options, device.multiprocessors, limit)
                       : bench(format, shape, options, limit);
      }
    }
  }
}

}  // namespace
}  // namespace nibble::bench

int main(int count, char** words) {
  try {
    nibble::bench::run(nibble::bench::parse(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_gemm_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
