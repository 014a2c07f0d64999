// Trellis codes on a GPU, beside integers of as many bits in the same process: microseconds,
// weights read in GB/s, and the integers' time over that of the codes. Medians of readings that
// take turns.
//   cuda_trellis_bench [TOKENSxROWSxINPUTS...]
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "cuda_layers.h"
#include "device/cuda_devices.h"
#include "measure.h"
#include "ops/cuda/schedules/linear_shape.h"
#include "ops/cuda/trellis/trellis_products.h"
#include "timed_launches.h"

namespace nibble::bench {
namespace {

using device::cuda::Buffer;
using ops::cuda::CodeKind;

struct Shape {
  int m, n, k;
};
const std::vector<Shape> kShapes = {{1, 4096, 4096}, {1, 14336, 4096}, {1, 28672, 8192},
                                    {8, 4096, 4096}, {8, 14336, 4096}, {8, 28672, 8192}};

struct Format {
  int bits;
  CodeKind integers;
};
constexpr Format kFormats[] = {{4, CodeKind::kInt4}, {3, CodeKind::kInt3}, {2, CodeKind::kInt2}};

/// Random bits, of which all are weights.
ops::cuda::PackedTrellis random_weight(int bits, const Shape& shape) {
  core::Random random(1);
  ops::cuda::PackedTrellis packed{bits, shape.n, shape.k, false, {}, {}};
  packed.words.resize(static_cast<std::size_t>(shape.n / ops::cuda::kTrellisRows) *
                      static_cast<std::size_t>(ops::cuda::trellis_units(shape.k) *
                                               ops::cuda::trellis_unit_words(bits)));
  for (std::uint32_t& word : packed.words) {
    word = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32));
  }
  packed.scales.assign(static_cast<std::size_t>(shape.n), 0.01f);
  return packed;
}

/// By the kernel that such a layer takes, as built in.
double integer_seconds(const Format& format, const Shape& shape) {
  const ops::cuda::LinearShape layer = {{format.integers, ops::cuda::ScaleKind::kF16, 1},
                                        true,
                                        ops::cuda::GemmInputs::kHalf,
                                        0,
                                        shape.n,
                                        shape.k,
                                        ""};
  return built_in_seconds(layer, shape.m);
}

void run_shape(const Format& format, const Shape& shape) {
  const ops::cuda::PackedTrellis packed = random_weight(format.bits, shape);
  const auto copies = copies_of([&] { return ops::cuda::TrellisWeights(packed, nullptr); });
  const std::int64_t ldx = ops::cuda::padded_columns(shape.k);
  const Buffer x = Buffer::of<core::Fp16>(random_halves(shape.m * ldx));
  const Buffer y(std::int64_t{shape.m} * shape.n * 4);
  const int multiprocessors = device::current_cuda_device().multiprocessors;
  const auto bytes = static_cast<double>(copies.front().bytes());
  std::vector<std::unique_ptr<Timed>> turns;
  turns.push_back(std::make_unique<Timed>("trellis", bytes, [&](int turn, cudaStream_t stream) {
    ops::cuda::TrellisProblem problem;
    problem.x = x.as<core::Fp16>();
    problem.ldx = ldx;
    problem.m = shape.m;
    problem.y = y.as<float>();
    problem.ldy = shape.n;
    problem.weight = &copies[static_cast<std::size_t>(turn) % copies.size()].view();
    problem.multiprocessors = multiprocessors;
    ops::cuda::trellis_products(problem, stream);
  }));
  const double before = integer_seconds(format, shape);
  read_in_turns(turns);
  const double integers = (before + integer_seconds(format, shape)) / 2;
  const double seconds = turns.front()->seconds();
  std::printf(
      "%d bits  m %2d n %5d k %5d  integers %8.2f us  trellis %8.2f us %7.0f GB/s  x %.2f\n",
      format.bits, shape.m, shape.n, shape.k, integers * 1e6, seconds * 1e6, bytes / seconds * 1e-9,
      integers / seconds);
  std::fflush(stdout);
}

void run(int count, char** words) {
  std::vector<Shape> shapes;
  for (int i = 1; i < count; ++i) {
    Shape shape{};
    if (std::sscanf(words[i], "%dx%dx%d", &shape.m, &shape.n, &shape.k) == 3) {
      shapes.push_back(shape);
    }
  }
  std::printf("%s\n", device::require_cuda_device().name.c_str());
  for (const Shape& shape : shapes.empty() ? kShapes : shapes) {
    for (const Format& format : kFormats) {
      run_shape(format, shape);
    }
  }
}

}  // namespace
}  // namespace nibble::bench

int main(int count, char** words) {
  try {
    nibble::bench::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_trellis_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
