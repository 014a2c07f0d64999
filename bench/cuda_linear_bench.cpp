// Linear layers of a few tokens on a GPU: microseconds, and the share of the read bandwidth, over
// weights that are in no cache.
//
//   cuda_linear_bench [schedules]     with `schedules`: the time of every candidate
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/float16.h"
#include "core/random.h"
#include "device/cuda/check.h"
#include "device/cuda/event.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "device/cuda_devices.h"
#include "measure.h"
#include "ops/cuda/limits/read_bandwidth.h"
#include "ops/cuda/small_batch/small_batch.h"

namespace nibble::bench {
namespace {

using device::cuda::Buffer;
using ops::cuda::CodeKind;
using ops::cuda::UnitFormat;

constexpr std::int64_t kPoolBytes = 1 << 30;
constexpr int kLaunches = 60;
constexpr int kRepeats = 7;

// Units with random codes and sound scales, again and again.
Buffer weights(const UnitFormat& format) {
  constexpr std::int64_t kUnits = 512;
  core::Random random(1);
  std::vector<std::byte> units(static_cast<std::size_t>(kUnits * format.bytes()));
  for (std::byte& byte : units) {
    byte = static_cast<std::byte>(random.below(256));
  }
  for (std::int64_t unit = 0; unit < kUnits; ++unit) {
    for (std::int64_t tile = 0; tile < ops::cuda::kTiles; ++tile) {
      std::byte* scales =
          units.data() + unit * format.bytes() + tile * format.tile_bytes() + format.code_bytes();
      for (std::int64_t i = 0; i < ops::cuda::kTileRows * format.groups; ++i) {
        const core::Fp16 scale = core::to_fp16(0.01f + 0.001f * static_cast<float>(i % 7));
        std::memcpy(scales + 2 * i, &scale, 2);
      }
    }
  }
  const auto bytes = static_cast<std::int64_t>(units.size());
  Buffer pool(kPoolBytes / bytes * bytes);
  for (std::int64_t at = 0; at < pool.bytes(); at += bytes) {
    device::cuda::check(
        cudaMemcpy(pool.data() + at, units.data(), units.size(), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }
  device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return pool;
}

class Bench {
 public:
  explicit Bench(const device::CudaDevice& device)
      : device_(device),
        limit_(ops::cuda::measure_read_bandwidth()),
        codes_(64 << 20),
        scales_(16 << 20),
        y_(64 << 20) {
    std::printf("%s: reads %.0f GB/s\n", device.name.c_str(), limit_ / 1e9);
    std::fflush(stdout);
    std::vector<std::int8_t> codes(static_cast<std::size_t>(codes_.bytes()));
    core::Random random(2);
    for (std::int8_t& code : codes) {
      code = static_cast<std::int8_t>(static_cast<int>(random.below(255)) - 127);
    }
    codes_.upload(codes.data(), codes_.bytes());
    std::vector<float> scales(static_cast<std::size_t>(scales_.bytes()) / 4, 0.01f);
    scales_.upload(scales.data(), scales_.bytes());
  }

  // Microseconds of one launch.
  double time(const Buffer& pool, const UnitFormat& format, std::int64_t n, std::int64_t k,
              std::int64_t m, int digits, const ops::cuda::SmallBatchSchedule& schedule) {
    const std::int64_t bytes = ops::cuda::unit_grid(n, k).count() * format.bytes();
    ops::cuda::SmallBatchProblem problem;
    problem.weight.format = format;
    problem.weight.n = n;
    problem.weight.k = k;
    problem.weight.tables = codes_.as<std::int8_t>();
    problem.weight.factors = format.codes == CodeKind::kBook ? scales_.as<float>() : nullptr;
    problem.x = {digits, codes_.as<std::int8_t>(), scales_.as<float>()};
    problem.m = m;
    problem.y = y_.as<float>();
    problem.ldy = n;
    const std::int64_t copies = pool.bytes() / bytes;
    const auto graph = device::cuda::Graph::record(stream_.get(), [&] {
      for (std::int64_t i = 0; i < kLaunches; ++i) {
        problem.weight.units = pool.data() + i % copies * bytes;
        ops::cuda::small_batch(problem, schedule, stream_.get());
      }
    });
    std::vector<double> times;
    for (int i = 0; i <= kRepeats; ++i) {
      begin_.record(stream_.get());
      graph.launch(stream_.get());
      end_.record(stream_.get());
      end_.synchronize();
      if (i > 0) {
        times.push_back(end_.seconds_since(begin_) / kLaunches * 1e6);
      }
    }
    return median(times);
  }

  void run(bool all_schedules) {
    struct Format {
      const char* name;
      UnitFormat format;
      int digits;
    };
    const Format formats[] = {
        {"int4-g128", {CodeKind::kInt4, ops::cuda::ScaleKind::kF16, 1}, 2},
        {"int4-asym-g128", {CodeKind::kInt4WithZeros, ops::cuda::ScaleKind::kF16, 1}, 2},
        {"int4-g32", {CodeKind::kInt4, ops::cuda::ScaleKind::kF16, 4}, 2},
        {"book-g128", {CodeKind::kBook, ops::cuda::ScaleKind::kF16, 1}, 2},
        {"int8-row", {CodeKind::kInt8, ops::cuda::ScaleKind::kF16, 1}, 2},
        {"int8-row-a8", {CodeKind::kInt8, ops::cuda::ScaleKind::kF16, 1}, 1},
        {"int4-g128-a8", {CodeKind::kInt4, ops::cuda::ScaleKind::kF16, 1}, 1},
    };
    struct Shape {
      std::int64_t n;
      std::int64_t k;
    };
    const Shape shapes[] = {{4096, 4096}, {14336, 4096}, {4096, 11008}, {28672, 8192}};
    for (const Format& format : formats) {
      const Buffer pool = weights(format.format);
      for (const Shape& shape : shapes) {
        for (const std::int64_t m : {1, 4, 8, 16, 32}) {
          if (m <= ops::cuda::max_small_batch(format.format, format.digits)) {
            row(pool, format.name, format.format, format.digits, shape.n, shape.k, m,
                all_schedules);
          }
        }
      }
      all_schedules = false;  // those of the first format tell enough
    }
  }

 private:
  void row(const Buffer& pool, const char* name, const UnitFormat& format, int digits,
           std::int64_t n, std::int64_t k, std::int64_t m, bool all_schedules) {
    const double bytes = static_cast<double>(ops::cuda::unit_grid(n, k).count() * format.bytes());
    ops::cuda::UnitsView view;
    view.n = n;
    view.k = k;
    const auto chosen = ops::cuda::small_batch_schedule(view, device_.multiprocessors);
    const double us = time(pool, format, n, k, m, digits, chosen);
    std::printf("%-15s %6lld x %-6lld m %2lld  %7.2f us  %4.1f %% of the read bandwidth\n", name,
                static_cast<long long>(n), static_cast<long long>(k), static_cast<long long>(m), us,
                100 * bytes / us / 1e-6 / limit_);
    for (const int warps : {8, 12}) {
      for (const int stages : {2, 3, 4}) {
        for (const int blocks : {device_.multiprocessors, 128, 112}) {
          if (all_schedules) {
            std::printf("    %d/%d/%d %.2f", warps, stages, blocks,
                        time(pool, format, n, k, m, digits, {warps, stages, blocks}));
          }
        }
      }
    }
    if (all_schedules) {
      std::printf("\n");
    }
    std::fflush(stdout);
  }

  device::CudaDevice device_;
  double limit_;
  Buffer codes_;
  Buffer scales_;
  Buffer y_;
  device::cuda::Stream stream_;
  device::cuda::Event begin_;
  device::cuda::Event end_;
};

}  // namespace
}  // namespace nibble::bench

int main(int argc, char** argv) {
  try {
    nibble::bench::Bench bench(nibble::device::require_cuda_device());
    bench.run(argc > 1 && std::strcmp(argv[1], "schedules") == 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_linear_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
