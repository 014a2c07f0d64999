// Attention of packed texts (encoders) of the CUDA back end: time of one call in a graph of many,
// the products and bytes that it takes at the least, and their shares of what this device
// multiplies by warps and reads, which is measured first. Rows that fit into the L2 cache, as in a
// model they lie there from the layer before, can be read faster than that.
//
//   cuda_packed_attention_bench [BATCHxLENGTH]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "core/float16.h"
#include "core/random.h"
#include "device/cuda/event.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "measure.h"
#include "ops/cuda/attention/packed/packed_attention.h"
#include "ops/cuda/limits/multiply_add_rate.h"
#include "ops/cuda/limits/read_bandwidth.h"

namespace {

using namespace nibble;
using namespace nibble::ops::cuda;
using device::cuda::Buffer;
using device::cuda::Event;
using device::cuda::Graph;
using device::cuda::Stream;

struct Texts {
  std::int64_t batch;
  std::int64_t length;

  std::int64_t rows() const { return batch * length; }
  std::string name() const { return std::to_string(batch) + "x" + std::to_string(length); }
};

constexpr Texts kTexts[] = {{1, 32}, {1, 128}, {8, 32}, {8, 128}, {32, 128}, {64, 128}, {64, 256}};

struct Limits {
  double flops;  // per second, of float16 products by warps: half the rate of 8-bit ones
  double bytes;  // per second
};

// Random float16 numbers, a run of them over and over.
Buffer random_halves(std::int64_t count) {
  core::Random random(1);
  std::vector<core::Fp16> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i < 65537 ? core::to_fp16(random.normal()) : values[i - 65537];
  }
  return Buffer::of<core::Fp16>(values);
}

std::vector<PackedTile> tiles_of(const Texts& texts, std::int64_t tile_rows) {
  std::vector<std::int32_t> firsts;
  for (std::int64_t text = 0; text < texts.batch; ++text) {
    firsts.push_back(static_cast<std::int32_t>(text * texts.length));
  }
  return packed_tiles(firsts, texts.rows(), 0, tile_rows);
}

struct Kernel {
  const char* scores;  // what they are products of
  decltype(packed_attention)* launch;
};

constexpr Kernel kKernels[] = {{"f16", packed_attention}, {"int8", packed_attention_int8}};

// Median seconds of one call.
double seconds_of(const Texts& texts, const PackedAttention& shape, const Kernel& kernel,
                  const Buffer& qkv, const Buffer& y) {
  constexpr int kCalls = 50;
  const std::vector<PackedTile> tiles = tiles_of(texts, shape.tile_rows);
  const Buffer device_tiles = Buffer::of<PackedTile>(tiles);
  const Stream stream;
  const Graph graph = Graph::record(stream.get(), [&] {
    for (int i = 0; i < kCalls; ++i) {
      kernel.launch(shape, qkv.as<__half>(), 3 * shape.heads * shape.head_dim,
                    device_tiles.as<PackedTile>(), static_cast<std::int64_t>(tiles.size()),
                    y.as<__half>(), stream.get());
    }
  });
  std::vector<double> times;
  for (int round = 0; round < 10; ++round) {
    Event begin;
    Event end;
    begin.record(stream.get());
    graph.launch(stream.get());
    end.record(stream.get());
    end.synchronize();
    times.push_back(end.seconds_since(begin) / kCalls);
  }
  times.erase(times.begin());  // warms up
  return bench::median(times);
}

void print(const Texts& texts, const PackedAttention& shape, const Kernel& kernel, double time,
           const Limits& limits) {
  const auto columns = static_cast<double>(shape.heads * shape.head_dim);
  const auto rows = static_cast<double>(texts.rows());
  const double flops = 4.0 * rows * static_cast<double>(texts.length) * columns;
  const double bytes = 2.0 * 4.0 * rows * columns;
  std::printf("%8s %5ld %5ld %6s %9.2f us %8.1f TFLOP/s (%5.1f %%) %8.1f GB/s (%5.1f %%)\n",
              texts.name().c_str(), static_cast<long>(shape.heads),
              static_cast<long>(shape.tile_rows), kernel.scores, time * 1e6, flops / time / 1e12,
              100.0 * flops / time / limits.flops, bytes / time / 1e9,
              100.0 * bytes / time / limits.bytes);
  std::fflush(stdout);
}

void run(const Texts& texts, std::int64_t heads, const Limits& limits) {
  constexpr std::int64_t kHeadDim = 64;
  const Buffer qkv = random_halves(texts.rows() * 3 * heads * kHeadDim);
  const Buffer y(texts.rows() * heads * kHeadDim * 2);
  for (const std::int64_t tile_rows : {32, 64, 128}) {
    const PackedAttention shape{heads, heads, kHeadDim, 0.125f, tile_rows};
    for (const Kernel& kernel : kKernels) {
      print(texts, shape, kernel, seconds_of(texts, shape, kernel, qkv, y), limits);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  const Limits limits{measure_multiply_add_rate(), measure_read_bandwidth()};
  std::printf("limits: %.1f TFLOP/s, %.1f GB/s\n   texts heads tiles scores\n", limits.flops / 1e12,
              limits.bytes / 1e9);
  int count = 0;
  for (const Texts& texts : kTexts) {
    for (const std::int64_t heads : {12, 16}) {
      if (only.empty() || only == texts.name()) {
        run(texts, heads, limits);
        ++count;
      }
    }
  }
  if (count == 0) {
    std::fprintf(stderr, "cuda_packed_attention_bench: no texts are %s\n", only.c_str());
  }
  return count > 0 ? 0 : 2;
}
