// Block-sparse rows times few tokens on a GPU, beside dense 4-bit weights in the same process:
// microseconds over weights that are in no cache, the medians of readings that take turns, and the
// share of the read bandwidth.
//
//   cuda_sparse_bench [warps] [SHAPE...]     with `warps`: also other numbers of warps in a thread
//   block. Shapes: o, qkv, down, gate_up, large
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/threads.h"
#include "device/cuda/check.h"
#include "device/cuda_devices.h"
#include "formats/stored_parts.h"
#include "measure.h"
#include "ops/cuda/limits/read_bandwidth.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/cuda/small_batch/small_batch.h"
#include "ops/cuda/sparse/sparse_few.h"
#include "ops/cuda/sparse/sparse_packer.h"
#include "timed_launches.h"

namespace nibble::bench {
namespace {

using device::cuda::Buffer;
using formats::PackedWeight;
using ops::cuda::SparsePlan;

constexpr std::int64_t kCaches = 8;  // that all copies of the weights would fill
constexpr std::int64_t kMostTokens = 32;

struct Shape {
  const char* name;
  std::int64_t n;
  std::int64_t k;
};
constexpr Shape kShapes[] = {{"o", 4096, 4096},
                             {"qkv", 12288, 4096},
                             {"down", 4096, 11008},
                             {"gate_up", 22016, 4096},
                             {"large", 28672, 8192}};

/// Random rows that keep share(row) of their groups.
PackedWeight random_sparse(std::int64_t n, std::int64_t k,
                           const std::function<double(std::int64_t)>& share) {
  core::Random random(1);
  const formats::Scheme scheme = formats::parse_scheme("int4-asym-g16-bsr");
  const std::int64_t all = k / scheme.scale.group;
  const auto kept_of = [&](std::int64_t row) {
    return static_cast<std::int64_t>(share(row) * static_cast<double>(all) + 0.5);
  };
  std::int64_t kept = 0;
  for (std::int64_t row = 0; row < n; ++row) {
    kept += kept_of(row);
  }
  PackedWeight weight;
  weight.scheme = scheme;
  weight.n = n;
  weight.k = k;
  for (const formats::StoredPart& part : formats::stored_parts(scheme, n, k, kept)) {
    weight.*part.tensor = core::Tensor::zeros(part.dtype, {part.rows, part.columns});
  }
  for (std::int64_t i = 0; i < weight.codes.bytes(); ++i) {
    weight.codes.mutable_raw()[i] = static_cast<std::byte>(random.below(256));
  }
  for (std::uint8_t& zeros : weight.zeros.mutable_data<std::uint8_t>()) {
    zeros = 0x78;
  }
  for (core::Fp16& scale : weight.scales.mutable_data<core::Fp16>()) {
    scale = core::to_fp16(0.01f);
  }
  const auto row_index = weight.row_index.mutable_data<std::int32_t>();
  const auto groups = weight.groups.mutable_data<std::uint8_t>();
  const std::int64_t bytes = weight.groups.dim(1);
  std::size_t at = 0;
  for (std::int64_t row = 0; row < n; ++row) {
    std::int64_t left = kept_of(row);
    for (std::int64_t g = 0; g < all && left > 0; ++g) {
      if (static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(all - g))) < left) {
        for (std::int64_t byte = 0; byte < bytes; ++byte) {
          groups[at++] = static_cast<std::uint8_t>(g >> (8 * byte));
        }
        --left;
      }
    }
    row_index[static_cast<std::size_t>(row + 1)] =
        row_index[static_cast<std::size_t>(row)] + static_cast<std::int32_t>(kept_of(row));
  }
  return weight;
}

/// What is read by the kernels of one shape beside the weights.
struct Inputs {
  explicit Inputs(std::int64_t n, std::int64_t k)
      : codes(Buffer::of<std::int8_t>(random_codes(2 * kMostTokens * k))),
        scales(Buffer::of<float>(
            std::vector<float>(static_cast<std::size_t>(kMostTokens * k), 0.01f))),
        y(kMostTokens * n * 4) {}

  static std::vector<std::int8_t> random_codes(std::int64_t count) {
    core::Random random(2);
    std::vector<std::int8_t> codes(static_cast<std::size_t>(count));
    for (std::int8_t& code : codes) {
      code = static_cast<std::int8_t>(static_cast<int>(random.below(255)) - 127);
    }
    return codes;
  }

  Buffer codes;
  Buffer scales;
  Buffer y;
};

/// Reads all in turns and prints them; the first is what others are compared with.
void print_turns(const char* title, std::vector<std::unique_ptr<Timed>>& all, double limit) {
  read_in_turns(all);
  for (const auto& each : all) {
    std::printf("%-28s %-22s %8.2f us  %5.2f MB  %4.1f %%  x %.3f\n", title, each->name().c_str(),
                each->seconds() * 1e6, each->bytes() / 1e6,
                100 * each->bytes() / each->seconds() / limit,
                all.front()->seconds() / each->seconds());
  }
  std::fflush(stdout);
}

/// Copies of sparse rows that fill no cache.
struct SparseCopies {
  SparseCopies(const PackedWeight& weight, const SparsePlan& plan, core::ThreadPool& pool) {
    const ops::cuda::PackedSparse packed = ops::cuda::pack_sparse({{&weight}, false}, plan, pool);
    rows.emplace_back(packed, nullptr);
    const std::int64_t cache = kCaches * device::current_cuda_device().l2_bytes;
    while (std::ssize(rows) * rows.front().bytes() < cache) {
      rows.emplace_back(packed, nullptr);
    }
  }
  void launch(const Inputs& inputs, int turn, std::int64_t m, int digits,
              cudaStream_t stream) const {
    const auto& view = rows[static_cast<std::size_t>(turn) % rows.size()].view();
    const std::int64_t most = ops::cuda::max_sparse_tokens(view, digits);
    for (std::int64_t row = 0; row < m; row += most) {
      ops::cuda::SparseFewProblem few;
      few.weight = &view;
      few.x = {digits, inputs.codes.as<std::int8_t>(), inputs.scales.as<float>()};
      few.scale_step = 128;
      few.m = std::min(most, m - row);
      few.y = inputs.y.as<float>();
      few.ldy = view.n;
      ops::cuda::sparse_few(few, stream);
    }
  }
  double bytes() const { return static_cast<double>(rows.front().bytes()); }

  std::vector<ops::cuda::SparseRows> rows;
};

/// Dense weights of int4-sym-g128 in units.
struct DenseCopies {
  DenseCopies(std::int64_t n, std::int64_t k, int multiprocessors) {
    view.format = {};
    view.n = n;
    view.k = k;
    each = ops::cuda::unit_grid(n, k).count() * view.format.bytes();
    const std::int64_t cache = kCaches * device::current_cuda_device().l2_bytes;
    copies = cache / each + 1;
    const auto pattern = Inputs::random_codes(each);
    units = Buffer(copies * each);
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      device::cuda::check(cudaMemcpy(units.data() + copy * each, pattern.data(),
                                     static_cast<std::size_t>(each), cudaMemcpyHostToDevice),
                          "cudaMemcpy");
    }
    schedule = ops::cuda::small_batch_schedule(view, multiprocessors);
  }
  void launch(const Inputs& inputs, int turn, std::int64_t m, cudaStream_t stream) const {
    const std::int64_t most = ops::cuda::max_small_batch(view.format, 2);
    for (std::int64_t row = 0; row < m; row += most) {
      ops::cuda::SmallBatchProblem problem;
      problem.weight = view;
      problem.weight.units = units.data() + turn % copies * each;
      problem.x = {2, inputs.codes.as<std::int8_t>(), inputs.scales.as<float>()};
      problem.m = std::min(most, m - row);
      problem.y = inputs.y.as<float>();
      problem.ldy = view.n;
      ops::cuda::small_batch(problem, schedule, stream);
    }
  }
  double bytes() const { return static_cast<double>(each); }

  ops::cuda::UnitsView view;
  std::int64_t each = 0;
  std::int64_t copies = 1;
  Buffer units;
  ops::cuda::SmallBatchSchedule schedule;
};

void run_shape(const Shape& shape, int multiprocessors, double limit, bool all_warps,
               core::ThreadPool& pool) {
  const Inputs inputs(shape.n, shape.k);
  const DenseCopies dense(shape.n, shape.k, multiprocessors);
  const PackedWeight weight = random_sparse(shape.n, shape.k, [](std::int64_t) { return 0.5; });
  std::vector<std::pair<std::string, std::unique_ptr<SparseCopies>>> sparse;
  const int built_in = ops::cuda::sparse_plan(shape.n, multiprocessors).warps;
  for (const int warps : {8, 16, 32}) {
    if (all_warps || warps == built_in) {
      SparsePlan plan = ops::cuda::sparse_plan(shape.n, multiprocessors);
      plan.warps = warps;
      sparse.emplace_back("bsr 50 % " + std::to_string(warps) + " warps",
                          std::make_unique<SparseCopies>(weight, plan, pool));
    }
  }
  for (const std::int64_t m : {1, 2, 4, 8, 16, 32}) {
    std::vector<std::unique_ptr<Timed>> turns;
    turns.push_back(std::make_unique<Timed>(
        "int4-sym-g128", dense.bytes(),
        [&](int turn, cudaStream_t stream) { dense.launch(inputs, turn, m, stream); }));
    for (const auto& [name, copies] : sparse) {
      for (const int digits : {2, 1}) {
        turns.push_back(
            std::make_unique<Timed>(name + (digits == 1 ? " a8" : ""), copies->bytes(),
                                    [&, &kept = *copies](int turn, cudaStream_t stream) {
                                      kept.launch(inputs, turn, m, digits, stream);
                                    }));
      }
    }
    const Buffer wide(ops::cuda::rows_at_once(shape.n, shape.k) * shape.k * 2);
    if (m == 1) {
      turns.push_back(std::make_unique<Timed>(
          "to float16", sparse.front().second->bytes(), [&](int turn, cudaStream_t stream) {
            const auto& kept = sparse.front().second->rows;
            const auto& view = kept[static_cast<std::size_t>(turn) % kept.size()].view();
            const std::int64_t step = ops::cuda::rows_at_once(shape.n, shape.k);
            for (std::int64_t row = 0; row < shape.n; row += step) {
              ops::cuda::widen_rows(view, row, std::min(step, shape.n - row), wide.as<core::Fp16>(),
                                    stream);
            }
          }));
    }
    const std::string title = std::string(shape.name) + " " + std::to_string(shape.n) + " x " +
                              std::to_string(shape.k) + " m " + std::to_string(m);
    print_turns(title.c_str(), turns, limit);
  }
}

/// Half of the groups on average: a quarter of the rows keep nearly all, the others a third.
void run_skewed(const Shape& shape, int multiprocessors, double limit, core::ThreadPool& pool) {
  const Inputs inputs(shape.n, shape.k);
  const PackedWeight weight = random_sparse(
      shape.n, shape.k, [&](std::int64_t row) { return row < shape.n / 4 ? 0.95 : 0.35; });
  ops::cuda::SparsePlan plan = ops::cuda::sparse_plan(shape.n, multiprocessors);
  std::vector<std::unique_ptr<SparseCopies>> copies;
  std::vector<std::unique_ptr<Timed>> turns;
  for (const bool by_rows : {true, false}) {
    plan.by_rows = by_rows;
    copies.push_back(std::make_unique<SparseCopies>(weight, plan, pool));
    turns.push_back(
        std::make_unique<Timed>(by_rows ? "equal rows" : "equal groups", copies.back()->bytes(),
                                [&inputs, &kept = *copies.back()](int turn, cudaStream_t stream) {
                                  kept.launch(inputs, turn, 1, 2, stream);
                                }));
  }
  print_turns((std::string(shape.name) + " skewed").c_str(), turns, limit);
}

void run(const std::vector<std::string>& words) {
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const bool all_warps = has("warps");
  const bool all_shapes = words.size() == (all_warps ? 1u : 0u);
  const device::CudaDevice device = device::require_cuda_device();
  const double limit = ops::cuda::measure_read_bandwidth();
  std::printf("%s: reads %.0f GB/s\n", device.name.c_str(), limit / 1e9);
  core::ThreadPool pool(8);
  for (const Shape& shape : kShapes) {
    if (all_shapes || has(shape.name)) {
      run_shape(shape, device.multiprocessors, limit, all_warps, pool);
      run_skewed(shape, device.multiprocessors, limit, pool);
    }
  }
}

}  // namespace
}  // namespace nibble::bench

int main(int count, char** words) {
  try {
    nibble::bench::run({words + 1, words + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_sparse_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
