#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"
#include "device/cuda/check.h"
#include "device/cuda/event.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "device/cuda_devices.h"
#include "measure.h"
#include "ops/cuda/dense/few_dense.h"
#include "ops/cuda/dense/lt_products.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/limits/read_bandwidth.h"

// Times linear layers of dense weights, few tokens by our kernel and all by cuBLASLt, beside what
// reading the weights takes.
//
//     cuda_dense_bench [plans] [f32|f16|bf16]... [TOKENSxROWSxINPUTS...]     types; default: bf16.
//     plans: every plan for few tokens. Tokens, rows and inputs in the place of those that are
//     built in
namespace nibble::bench {
namespace {

using core::DType;
using device::cuda::Buffer;

struct Shape {
  std::int64_t n;
  std::int64_t k;
};
// Products of Llama-2-7B (q, k and v together; gate and up; the output layer), and those of
// cuda_peers.py.
constexpr Shape kShapes[] = {{4096, 4096},  {11008, 4096}, {4096, 11008}, {12288, 4096},
                             {22016, 4096}, {32000, 4096}, {14336, 4096}, {28672, 8192}};
constexpr std::int64_t kFew[] = {1, 2, 4, 8, 16, 24, 32};
constexpr std::int64_t kMostFew = 32;
constexpr std::int64_t kMany[] = {1, 16, 32, 33, 64, 128, 512, 2048};
constexpr std::int64_t kMostTokens = 2048;
constexpr std::int64_t kL2Caches = 8;  // that all copies of the weights would fill
constexpr std::size_t kLeastReadings = 4;

struct Options {
  bool plans = false;
  std::vector<DType> types;
  std::vector<std::pair<std::int64_t, Shape>> products;  // tokens, and the layer
};

// `bytes` of numbers of magnitude 2^-2 to 2, in any of the types.
Buffer random_numbers(DType type, std::int64_t bytes) {
  constexpr std::int64_t kPattern = 1 << 22;
  const std::int64_t count = std::min(bytes, kPattern) / core::size_of(type);
  std::vector<float> values(static_cast<std::size_t>(count));
  core::Random random(1);
  for (float& value : values) {
    value = (random.below(2) == 0 ? -0.25f : 0.25f) * (1.0f + static_cast<float>(random.below(7)));
  }
  const core::Tensor pattern = core::from_float32(values, {1, count}, type);
  Buffer buffer(bytes);
  for (std::int64_t done = 0; done < bytes; done += pattern.bytes()) {
    device::cuda::check(
        cudaMemcpy(buffer.data() + done, pattern.raw(),
                   static_cast<std::size_t>(std::min(pattern.bytes(), bytes - done)),
                   cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }
  return buffer;
}

class Layer {
 public:
  Layer(DType type, const Shape& shape, std::int64_t most_tokens, std::int64_t cache_bytes,
        double limit)
      : type_(type),
        shape_(shape),
        limit_(limit),
        bytes_(shape.n * shape.k * core::size_of(type)),
        copies_(std::max<std::int64_t>(1, kL2Caches * cache_bytes / bytes_)),
        weights_(random_numbers(type, copies_ * bytes_)),
        x_(random_numbers(type,
                          most_tokens * ops::cuda::padded_columns(shape.k) * core::size_of(type))),
        y_(most_tokens * shape.n * static_cast<std::int64_t>(sizeof(float))) {}

  void few(std::int64_t m, const ops::cuda::FewDensePlan& plan, const char* mark) const {
    const double seconds = time(m, [&](int turn, cudaStream_t stream) {
      ops::cuda::FewDenseProblem problem;
      problem.weight = {weight(turn), type_, shape_.n, shape_.k};
      problem.x = x_.data();
      problem.ldx = ops::cuda::padded_columns(shape_.k);
      problem.m = m;
      problem.y = y_.as<float>();
      problem.ldy = shape_.n;
      ops::cuda::few_dense(problem, plan, stream);
    });
    char name[64];
    std::snprintf(name, sizeof(name), "few %d/%d%s", plan.blocks, plan.chunks_ahead, mark);
    report(name, m, seconds);
  }

  void many(std::int64_t m, ops::cuda::LtProducts& products, DType result = DType::kF32) const {
    const double seconds = time(m, [&](int turn, cudaStream_t stream) {
      device::cuda::LtProduct product;
      product.type = type_;
      product.n = shape_.n;
      product.k = shape_.k;
      product.m = m;
      product.w = weight(turn);
      product.x = x_.data();
      product.ldx = shape_.k;
      product.y = y_.data();
      product.type_of_y = result;
      product.ldy = shape_.n;
      products.multiply(product, stream);
    });
    report(result == DType::kF32 ? "cublaslt" : "cublaslt to 16", m, seconds);
  }

 private:
  using Launch = std::function<void(int turn, cudaStream_t stream)>;

  const void* weight(int turn) const { return weights_.data() + turn % copies_ * bytes_; }

  // As LinearTrial does.
  double time(std::int64_t m, const Launch& launch) const {
    const double work = 2.0 * static_cast<double>(m) * static_cast<double>(shape_.n) *
                        static_cast<double>(shape_.k);
    const int turns = static_cast<int>(std::clamp(4e12 / work, 4.0, 200.0));
    launch(0, stream_.get());
    const auto graph = device::cuda::Graph::record(stream_.get(), [&] {
      for (int turn = 0; turn < turns; ++turn) {
        launch(turn, stream_.get());
      }
    });
    device::cuda::Event begin;
    device::cuda::Event end;
    std::vector<double> seconds;
    double total = 0.0;
    while (total < (work > 2e11 ? 0.1 : 0.02) || seconds.size() < kLeastReadings) {
      begin.record(stream_.get());
      graph.launch(stream_.get());
      end.record(stream_.get());
      end.synchronize();
      total += end.seconds_since(begin);
      seconds.push_back(end.seconds_since(begin) / turns);
    }
    seconds.erase(seconds.begin(),
                  seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 3));
    return median(seconds);
  }

  void report(const char* name, std::int64_t m, double seconds) const {
    const double work = 2.0 * static_cast<double>(m) * static_cast<double>(shape_.n) *
                        static_cast<double>(shape_.k);
    std::printf("%-5s %-14s m %5lld n %5lld k %5lld  %9.2f us  %7.1f TFLOP/s  %5.1f %% of reads\n",
                std::string(core::name_of(type_)).c_str(), name, static_cast<long long>(m),
                static_cast<long long>(shape_.n), static_cast<long long>(shape_.k), seconds * 1e6,
                work / seconds / 1e12, 100 * static_cast<double>(bytes_) / seconds / limit_);
    std::fflush(stdout);
  }

  DType type_;
  Shape shape_;
  double limit_;
  std::int64_t bytes_;
  std::int64_t copies_;
  Buffer weights_;
  Buffer x_;
  Buffer y_;
  device::cuda::Stream stream_;
};

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    long long m = 0;
    long long n = 0;
    long long k = 0;
    if (std::sscanf(words[i], "%lldx%lldx%lld", &m, &n, &k) == 3) {
      options.products.push_back({m, {n, k}});
    } else if (word == "plans") {
      options.plans = true;
    } else if (word == "f32" || word == "f16" || word == "bf16") {
      options.types.push_back(word == "f32"   ? DType::kF32
                              : word == "f16" ? DType::kF16
                                              : DType::kBF16);
    } else {
      throw std::runtime_error(word + " is not known");
    }
  }
  if (options.types.empty()) {
    options.types.push_back(DType::kBF16);
  }
  return options;
}

// Few tokens by our kernel; all by cuBLASLt, with results in float32 and, where it has them, 16
// bits.
void bench_few(const Layer& layer, std::int64_t m, int multiprocessors, bool plans) {
  const ops::cuda::FewDensePlan built_in = ops::cuda::few_dense_plan(multiprocessors);
  layer.few(m, built_in, "");
  for (const int each : {1, 2}) {
    for (const int ahead : {0, 4, 8, 16}) {
      if (plans && (each * multiprocessors != built_in.blocks || ahead != built_in.chunks_ahead)) {
        layer.few(m, {each * multiprocessors, ahead}, " plan");
      }
    }
  }
}

void bench_many(const Layer& layer, std::int64_t m, DType type, ops::cuda::LtProducts& products) {
  layer.many(m, products);
  if (type != DType::kF32) {
    layer.many(m, products, type);
  }
}

void run(const Options& options) {
  const device::CudaDevice device = device::require_cuda_device();
  const double limit = ops::cuda::measure_read_bandwidth();
  std::printf("%s: reads %.0f GB/s\n", device.name.c_str(), limit / 1e9);
  ops::cuda::LtProducts products;
  for (const DType type : options.types) {
    for (const auto& [m, shape] : options.products) {
      const Layer layer(type, shape, m, device.l2_bytes, limit);
      if (m <= kMostFew && type != DType::kF32) {
        bench_few(layer, m, device.multiprocessors, options.plans);
      }
      bench_many(layer, m, type, products);
    }
    for (const Shape& shape : kShapes) {
      if (!options.products.empty()) {
        break;
      }
      const Layer layer(type, shape, kMostTokens, device.l2_bytes, limit);
      for (const std::int64_t m : kFew) {
        if (type != DType::kF32) {
          bench_few(layer, m, device.multiprocessors, options.plans);
        }
      }
      for (const std::int64_t m : kMany) {
        bench_many(layer, m, type, products);
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
    std::fprintf(stderr, "cuda_dense_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
