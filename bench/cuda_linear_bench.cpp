// Linear layers of a few tokens on a GPU: microseconds, and the share of the read bandwidth, over
// weights that are in no cache.
//
//   cuda_linear_bench [schedules]     with `schedules`: the time of every candidate
#include <cstdio>
#include <cstring>

#include "device/cuda_devices.h"
#include "ops/cuda/limits/read_bandwidth.h"
#include "ops/cuda/schedules/choose_schedules.h"
#include "ops/cuda/schedules/linear_trial.h"

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
    {"book-g128", CodeKind::kBook, 1, false, GemmInputs::kHalf},
    {"int8-row", CodeKind::kInt8, 1, true, GemmInputs::kHalf},
    {"int8-row-a8", CodeKind::kInt8, 1, true, GemmInputs::kInt8},
    {"int4-g128-a8", CodeKind::kInt4, 1, false, GemmInputs::kInt8},
};

struct Rows {
  std::int64_t n;
  std::int64_t k;
};
constexpr Rows kRows[] = {{4096, 4096}, {14336, 4096}, {4096, 11008}, {28672, 8192}};
constexpr std::int64_t kTokens[] = {1, 4, 8, 16};

void row(const Format& format, const Rows& rows, int multiprocessors, double limit, bool all) {
  const LinearShape shape{{format.codes, ScaleKind::kF16, format.groups},
                          format.row_scale,
                          format.inputs,
                          0,
                          rows.n,
                          rows.k};
  const std::int64_t most = ops::cuda::max_small_batch(shape.format, shape.digits());
  const ops::cuda::LinearTrial trial(shape, most);
  const auto built_in = ops::cuda::small_batch_schedule(weights_of(shape).units, multiprocessors);
  for (const std::int64_t m : kTokens) {
    if (m > most) {
      continue;
    }
    const double seconds = trial.few_tokens(m, built_in);
    std::printf("%-15s %6lld x %-6lld m %2lld  %7.2f us  %4.1f %% of the read bandwidth\n",
                format.name, static_cast<long long>(rows.n), static_cast<long long>(rows.k),
                static_cast<long long>(m), seconds * 1e6,
                100 * static_cast<double>(trial.weight_bytes()) / seconds / limit);
    if (all) {
      for (const auto& each : ops::cuda::few_token_candidates(shape, multiprocessors)) {
        std::printf("    %d/%d/%d %.2f", each.warps, each.stages, each.blocks,
                    trial.few_tokens(m, each) * 1e6);
      }
      std::printf("\n");
    }
    std::fflush(stdout);
  }
}

void run(bool all) {
  const device::CudaDevice device = device::require_cuda_device();
  const double limit = ops::cuda::measure_read_bandwidth();
  std::printf("%s: reads %.0f GB/s\n", device.name.c_str(), limit / 1e9);
  for (const Format& format : kFormats) {
    for (const Rows& rows : kRows) {
      row(format, rows, device.multiprocessors, limit, all);
    }
    all = false;  // those of the first format tell enough
  }
}

}  // namespace
}  // namespace nibble::bench

int main(int argc, char** argv) {
  try {
    nibble::bench::run(argc > 1 && std::strcmp(argv[1], "schedules") == 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_linear_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
