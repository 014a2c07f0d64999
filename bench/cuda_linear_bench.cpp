// Linear layers of up to 32 tokens on a GPU: microseconds, and the share of the read bandwidth,
// over weights that are in no cache.
//
//   cuda_linear_bench [schedules] [float16] [FORMAT...]     with `schedules`: the time of every
//   candidate; with `float16` results are of that type, not float32
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "device/cuda_devices.h"
#include "ops/cuda/limits/read_bandwidth.h"
#include "ops/cuda/schedules/choose_schedules.h"
#include "ops/cuda/schedules/linear_trial.h"
#include "ops/cuda/schedules/schedule_fields.h"

namespace nibble::bench {
namespace {

using ops::cuda::CodeKind;
using ops::cuda::GemmInputs;
using ops::cuda::LinearShape;
using ops::cuda::ScaleKind;

struct Format {
  const char* name;
  CodeKind codes;
  int groups;  // in a unit
  bool row_scale;
  GemmInputs inputs;
};
constexpr Format kFormats[] = {
    {"int4-g128", CodeKind::kInt4, 1, false, GemmInputs::kHalf},
    {"int4-asym-g128", CodeKind::kInt4WithZeros, 1, false, GemmInputs::kHalf},
    {"int4-g32", CodeKind::kInt4, 4, false, GemmInputs::kHalf},
    {"int3-g128", CodeKind::kInt3, 1, false, GemmInputs::kHalf},
    {"int3-asym-g128", CodeKind::kInt3WithZeros, 1, false, GemmInputs::kHalf},
    {"int2-g128", CodeKind::kInt2, 1, false, GemmInputs::kHalf},
    {"int2-asym-g128", CodeKind::kInt2WithZeros, 1, false, GemmInputs::kHalf},
    {"int2-g32", CodeKind::kInt2, 4, false, GemmInputs::kHalf},
    {"book-g128", CodeKind::kBook, 1, false, GemmInputs::kHalf},
    {"book3-g128", CodeKind::kBook3, 1, false, GemmInputs::kHalf},
    {"book2-g128", CodeKind::kBook2, 1, false, GemmInputs::kHalf},
    {"int8-row", CodeKind::kInt8, 1, true, GemmInputs::kHalf},
    {"int8-row-a8", CodeKind::kInt8, 1, true, GemmInputs::kInt8},
    {"int4-g128-a8", CodeKind::kInt4, 1, false, GemmInputs::kInt8},
};

struct Rows {
  std::int64_t n;
  std::int64_t k;
};
constexpr Rows kRows[] = {{4096, 4096},  {8192, 4096},  {12288, 4096}, {14336, 4096},
                          {22016, 4096}, {4096, 11008}, {28672, 8192}};
constexpr std::int64_t kFewTokens[] = {1, 4, 8, 16};
constexpr std::int64_t kMediumTokens[] = {16, 32, 48, 64};
constexpr std::int64_t kMostTokens = 64;

struct Options {
  bool all = false;
  bool half = false;
  std::vector<std::string> formats;
};

// A layer's times on this device.
class Layer {
 public:
  Layer(const char* name, const LinearShape& shape, int multiprocessors, double limit,
        const Options& options)
      : name_(name),
        shape_(shape),
        trial_(shape, kMostTokens, {.half = options.half}),
        candidates_(linear_candidates(shape, multiprocessors)),
        limit_(limit),
        all_(options.all) {}

  void few() const {
    for (const std::int64_t m : kFewTokens) {
      if (m <= ops::cuda::max_small_batch(shape_.format, shape_.digits())) {
        row(m, candidates_.built_in_few, candidates_.few,
            [&](const auto& schedule) { return trial_.few_tokens(m, schedule); });
      }
    }
  }

  void medium() const {
    if (candidates_.medium.empty()) {
      return;
    }
    for (const std::int64_t m : kMediumTokens) {
      if (shape_.is_medium(m)) {
        row(m, candidates_.medium.front(), candidates_.medium,
            [&](const auto& schedule) { return trial_.medium(m, schedule); });
      }
    }
  }

 private:
  template <typename Schedule, typename Time>
  void row(std::int64_t m, const Schedule& built_in, const std::vector<Schedule>& candidates,
           const Time& time) const {
    const double seconds = time(built_in);
    std::printf("%-15s %6lld x %-6lld m %2lld  %7.2f us  %4.1f %% of the read bandwidth, %s\n",
                name_, static_cast<long long>(shape_.n), static_cast<long long>(shape_.k),
                static_cast<long long>(m), seconds * 1e6,
                100 * static_cast<double>(trial_.weight_bytes()) / seconds / limit_,
                to_string(built_in).c_str());
    if (all_) {
      for (const Schedule& each : candidates) {
        const char* before = "    ";
        each_field(each, [&](const char*, int value) {
          std::printf("%s%d", before, value);
          before = "/";
        });
        std::printf(" %.2f", time(each) * 1e6);
      }
      std::printf("\n");
    }
    std::fflush(stdout);
  }

  const char* name_;
  LinearShape shape_;
  ops::cuda::LinearTrial trial_;
  ops::cuda::LinearCandidates candidates_;
  double limit_;
  bool all_;
};

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "schedules") == 0) {
      options.all = true;
    } else if (std::strcmp(words[i], "float16") == 0) {
      options.half = true;
    } else {
      options.formats.emplace_back(words[i]);
    }
  }
  return options;
}

void run(const Options& options) {
  const device::CudaDevice device = device::require_cuda_device();
  const double limit = ops::cuda::measure_read_bandwidth();
  std::printf("%s: reads %.0f GB/s\n", device.name.c_str(), limit / 1e9);
  const std::vector<std::string>& wanted = options.formats;
  for (const Format& format : kFormats) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), format.name) == wanted.end()) {
      continue;
    }
    for (const Rows& rows : kRows) {
      const LinearShape shape{{format.codes, ScaleKind::kF16, format.groups},
                              format.row_scale,
                              format.inputs,
                              0,
                              rows.n,
                              rows.k};
      const Layer layer(format.name, shape, device.multiprocessors, limit, options);
      layer.few();
      layer.medium();
    }
  }
}

}  // namespace
}  // namespace nibble::bench

int main(int count, char** words) {
  try {
    nibble::bench::run(nibble::bench::parse(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_linear_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
