// Attention and row operators of the CUDA back end: time of graph replays, bytes that have to move,
// and the share of the device's read limit, which is measured first.
//
//   cuda_rows_bench [decode | rows]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string_view>
#include <vector>

#include "device/cuda/event.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/kv_pool.h"
#include "ops/cuda/elementwise/elementwise.h"

namespace {

using namespace nibble::ops;
using namespace nibble::ops::cuda;
using nibble::device::cuda::Buffer;
using nibble::device::cuda::Event;
using nibble::device::cuda::Graph;
using nibble::device::cuda::Stream;

// Finite positive float16 numbers below 1 in every 16 bits, which are also codes.
__global__ void fill(std::uint32_t* words, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += stride) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    words[i] = x & 0x3bff3bffu;
  }
}

__global__ void fill_floats(float* x, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += stride) {
    std::uint32_t h = static_cast<std::uint32_t>(i) * 2654435761u + 977u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    x[i] = static_cast<float>(static_cast<std::int32_t>(h)) * 4.6566129e-10f;
  }
}

__global__ void read_all(const uint4* data, std::int64_t count, std::uint32_t* out) {
  std::uint32_t sum = 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      v[k] = __ldcs(data + i + k * stride);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      sum ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
  }
  if (sum == 0x12345678u) {
    *out = sum;
  }
}

Buffer filled(std::int64_t bytes) {
  Buffer buffer(bytes);
  fill<<<2048, 256>>>(buffer.as<std::uint32_t>(), bytes / 4);
  return buffer;
}

Buffer filled_floats(std::int64_t count) {
  Buffer buffer(count * 4);
  fill_floats<<<2048, 256>>>(buffer.as<float>(), count);
  return buffer;
}

// Median seconds of one call of `work`, `calls` of them in a graph.
double seconds(const Stream& stream, int calls, const std::function<void(int)>& work) {
  cudaDeviceSynchronize();
  const Graph graph = Graph::record(stream.get(), [&] {
    for (int i = 0; i < calls; ++i) {
      work(i);
    }
  });
  std::vector<double> times;
  for (int round = 0; round < 9; ++round) {
    Event begin;
    Event end;
    begin.record(stream.get());
    graph.launch(stream.get());
    end.record(stream.get());
    end.synchronize();
    times.push_back(end.seconds_since(begin) / calls);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double read_limit = 1;

void print(const char* what, double time, double bytes, double flops = 0) {
  std::printf("%-52s %9.2f us", what, time * 1e6);
  if (bytes > 0) {
    std::printf("  %8.1f MB  %7.1f GB/s  %5.1f %% of the read limit", bytes / 1e6,
                bytes / time / 1e9, 100 * bytes / time / read_limit);
  }
  if (flops > 0) {
    std::printf("  %6.1f TFLOP/s", flops / time / 1e12);
  }
  std::printf("\n");
  std::fflush(stdout);
}

const char* name_of(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kF16:
      return "f16";
    case KvType::kInt8:
      return "int8";
    case KvType::kInt4:
      return "int4";
    case KvType::kFp8:
      return "fp8";
  }
  return "";
}

struct Heads {
  std::int64_t heads = 32;
  std::int64_t kv_heads = 8;
  std::int64_t head_dim = 128;
};

AttentionLayer layer_of(KvTypes types, const Heads& shape) {
  AttentionLayer layer;
  layer.layout = {types, shape.kv_heads, shape.head_dim};
  layer.heads = shape.heads;
  layer.turned = true;
  return layer;
}

std::int64_t pages_of(std::int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

// `batch` sequences at `context` tokens, each with `rows` rows at its end, in pages in an order
// that no prefetcher follows.
AttentionPlan plan_of(const Heads& shape, std::int64_t batch, std::int64_t context,
                      std::int64_t rows) {
  const std::int64_t each = pages_of(context);
  std::vector<std::int32_t> order(static_cast<std::size_t>(batch * each));
  std::iota(order.begin(), order.end(), 0);
  std::uint64_t random = 88172645463325252u;
  for (std::size_t i = order.size(); i > 1; --i) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    std::swap(order[i - 1], order[random % i]);
  }
  std::vector<PlannedSequence> sequences;
  for (std::int64_t s = 0; s < batch; ++s) {
    sequences.push_back({std::span<const std::int32_t>(order).subspan(
                             static_cast<std::size_t>(s * each), static_cast<std::size_t>(each)),
                         context - rows, s * rows, rows});
  }
  return plan_attention(sequences, shape.heads / shape.kv_heads, 0);
}

void upload(const Stream& stream, const AttentionPlan& plan, PlanBuffer& buffer) {
  StepUpload step;
  step.begin();
  buffer.put(plan, step);
  step.start(stream.get());
}

// Decode or prefill, and append.
void attention(const Stream& stream, KvTypes types, const Heads& shape, std::int64_t batch,
               std::int64_t context, std::int64_t rows) {
  AttentionLayer layer = layer_of(types, shape);
  const std::int64_t each = pages_of(context);
  KvPool pool(layer.layout, 1, batch * each);
  fill<<<2048, 256>>>(reinterpret_cast<std::uint32_t*>(pool.layer(0)), pool.bytes() / 4);
  const AttentionPlan plan = plan_of(shape, batch, context, rows);
  const std::int64_t m = batch * rows;
  const auto items = static_cast<std::int64_t>(std::max(plan.decode.size(), plan.prefill.size()));
  PlanBuffer buffer({m, batch * each, items, plan.partials});
  upload(stream, plan, buffer);
  const std::int64_t columns = shape.heads * shape.head_dim;
  const Buffer queries = filled(m * columns * 2);
  const Buffer out(m * columns * 2);
  const Buffer partials(
      std::max<std::int64_t>(16, 4 * partial_floats(plan.partials, shape.heads, shape.head_dim)));
  const Queries q{queries.as<nibble::core::Fp16>(), nullptr};
  AttentionOutput output;
  output.target.values = out.as<nibble::core::Fp16>();
  stream.synchronize();
  char what[128];
  const double bytes = static_cast<double>(pool.bytes());
  if (rows == 1) {
    const double time = seconds(stream, 10, [&](int) {
      attend_decode(layer, q, pool.layer(0), buffer.plan(), partials.as<float>(), output,
                    stream.get());
    });
    std::snprintf(what, sizeof(what), "decode %s-%s, %ld x %ld, %ld/%ld x %ld", name_of(types.keys),
                  name_of(types.values), static_cast<long>(batch), static_cast<long>(context),
                  static_cast<long>(shape.heads), static_cast<long>(shape.kv_heads),
                  static_cast<long>(shape.head_dim));
    print(what, time, bytes);
  } else {
    const double time = seconds(stream, 3, [&](int) {
      attend_prefill(layer, q, pool.layer(0), buffer.plan(), output, stream.get());
    });
    std::snprintf(what, sizeof(what), "prefill %s-%s, %ld x %ld of %ld, %ld/%ld x %ld",
                  name_of(types.keys), name_of(types.values), static_cast<long>(batch),
                  static_cast<long>(rows), static_cast<long>(context),
                  static_cast<long>(shape.heads), static_cast<long>(shape.kv_heads),
                  static_cast<long>(shape.head_dim));
    const double seen = static_cast<double>(rows) * static_cast<double>(context - rows) +
                        0.5 * static_cast<double>(rows) * static_cast<double>(rows + 1);
    print(what, time, 0, 4.0 * static_cast<double>(batch * columns) * seen);
  }
  const Buffer qkv = filled_floats(m * (shape.heads + 2 * shape.kv_heads) * shape.head_dim);
  const Buffer frequency = filled_floats(shape.head_dim / 2);
  layer.inverse_frequency = frequency.as<float>();
  layer.rotary = shape.head_dim;
  const double time = seconds(stream, 10, [&](int) {
    append(layer, qkv.as<float>(), buffer.plan(), m, q, pool.layer(0), stream.get());
  });
  std::snprintf(what, sizeof(what), "  append %ld rows", static_cast<long>(m));
  print(what, time, static_cast<double>(qkv.bytes() + queries.bytes()));
}

// append_attend() of `batch` sequences at `context` tokens, one layer after the other.
void append_and_attend(const Stream& stream, KvTypes types, const Heads& shape, std::int64_t batch,
                       std::int64_t context) {
  constexpr int kLayers = 32;
  AttentionLayer layer = layer_of(types, shape);
  const Buffer frequency = filled_floats(shape.head_dim / 2);
  layer.inverse_frequency = frequency.as<float>();
  layer.rotary = shape.head_dim;
  KvPool pool(layer.layout, kLayers, batch * pages_of(context));
  fill<<<2048, 256>>>(reinterpret_cast<std::uint32_t*>(pool.layer(0)), pool.bytes() / 4);
  const AttentionPlan plan = plan_of(shape, batch, context, 1);
  PlanBuffer buffer({batch, batch * pages_of(context),
                     static_cast<std::int64_t>(plan.decode.size()), plan.partials});
  upload(stream, plan, buffer);
  const std::int64_t columns = shape.heads * shape.head_dim;
  const Buffer qkv = filled_floats(batch * (shape.heads + 2 * shape.kv_heads) * shape.head_dim);
  const Buffer out(batch * columns * 2);
  const Buffer partials(
      std::max<std::int64_t>(16, 4 * partial_floats(plan.partials, shape.heads, shape.head_dim)));
  AttentionOutput output;
  output.target.values = out.as<nibble::core::Fp16>();
  const double time = seconds(stream, kLayers, [&](int i) {
    append_attend(layer, qkv.as<float>(), buffer.plan(), batch, pool.layer(i), partials.as<float>(),
                  output, stream.get());
  });
  char what[128];
  std::snprintf(what, sizeof(what), "append, attend %s-%s, %ld x %ld, %ld/%ld x %ld",
                name_of(types.keys), name_of(types.values), static_cast<long>(batch),
                static_cast<long>(context), static_cast<long>(shape.heads),
                static_cast<long>(shape.kv_heads), static_cast<long>(shape.head_dim));
  print(what, time, static_cast<double>(pool.bytes() / kLayers + qkv.bytes()));
}

void rows(const Stream& stream, std::int64_t m, std::int64_t hidden, std::int64_t width) {
  const Buffer x = filled_floats(m * hidden);
  const Buffer delta = filled_floats(m * hidden);
  const Buffer gate_up = filled_floats(m * 2 * width);
  const Buffer weight = filled_floats(hidden);
  const Buffer halves(m * padded_columns(std::max(hidden, width)) * 2);
  const Buffer scales(m * 1024 * 4);
  const NormWeights norm_weights{NormKind::kRms, weight.as<float>(), nullptr, 1e-5f};
  InputTarget half;
  half.values = halves.as<nibble::core::Fp16>();
  InputTarget integers;
  integers.form = InputForm::kByteTiles;
  integers.codes = halves.as<std::int8_t>();
  integers.scales = scales.as<float>();
  InputTarget groups = integers;
  groups.group = 128;
  groups.bits = 4;
  const int calls = m > 100 ? 5 : 100;
  const auto h = static_cast<double>(m * hidden);
  const auto w = static_cast<double>(m * width);
  char what[128];
  const auto row = [&](const char* name, double bytes, const std::function<void(int)>& work) {
    const double time = seconds(stream, calls, work);
    std::snprintf(what, sizeof(what), "%s, %ld rows", name, static_cast<long>(m));
    print(what, time, bytes);
  };
  row("norm to float16", h * 6,
      [&](int) { norm(x.as<float>(), norm_weights, half, m, hidden, stream.get()); });
  row("add_norm to float16", h * 14, [&](int) {
    add_norm(x.as<float>(), delta.as<float>(), norm_weights, half, m, hidden, stream.get());
  });
  row("add_norm to int8", h * 13, [&](int) {
    add_norm(x.as<float>(), delta.as<float>(), norm_weights, integers, m, hidden, stream.get());
  });
  row("add_norm to int4 g128", h * 13, [&](int) {
    add_norm(x.as<float>(), delta.as<float>(), norm_weights, groups, m, hidden, stream.get());
  });
  row("silu gated to float16", w * 10, [&](int) {
    gated_activation(gate_up.as<float>(), MlpActivation::kSilu, half, m, width, stream.get());
  });
  row("silu gated to int8", w * 9, [&](int) {
    gated_activation(gate_up.as<float>(), MlpActivation::kSilu, integers, m, width, stream.get());
  });
  row("silu gated to int4 g128", w * 9, [&](int) {
    gated_activation(gate_up.as<float>(), MlpActivation::kSilu, groups, m, width, stream.get());
  });
  row("norm to int8", h * 5,
      [&](int) { norm(x.as<float>(), norm_weights, integers, m, hidden, stream.get()); });
  const auto* const x_halves = x.as<nibble::core::Fp16>();
  const auto* const delta_halves = delta.as<nibble::core::Fp16>();
  row("post_norm of float32, and to int8", h * 13, [&](int) {
    post_norm(x.as<float>(), delta.as<float>(), norm_weights, gate_up.as<float>(), integers, m,
              hidden, stream.get());
  });
  row("post_norm of float16, and to int8", h * 7, [&](int) {
    post_norm(x_halves, delta_halves, norm_weights, gate_up.as<nibble::core::Fp16>(), integers, m,
              hidden, stream.get());
  });
  row("gelu of float16 to int8", w * 3, [&](int) {
    mlp_activation(gate_up.as<nibble::core::Fp16>(), MlpActivation::kGelu, integers, m, width,
                   stream.get());
  });
  row("float16 to int8", w * 3,
      [&](int) { input(gate_up.as<nibble::core::Fp16>(), integers, m, width, stream.get()); });
  row("input to int8", h * 5,
      [&](int) { input(x.as<float>(), integers, m, hidden, stream.get()); });
  row("input to float16", h * 6, [&](int) { input(x.as<float>(), half, m, hidden, stream.get()); });
  row("add", h * 12, [&](int) { add(x.as<float>(), delta.as<float>(), m * hidden, stream.get()); });
}

}  // namespace

int main(int argc, char** argv) {
  const bool only_decode = argc > 1 && std::string_view(argv[1]) == "decode";
  const bool only_rows = argc > 1 && std::string_view(argv[1]) == "rows";
  const Stream stream;
  {
    const Buffer data = filled(std::int64_t{4} << 30);
    const Buffer out(16);
    for (const int blocks : {132 * 8, 132 * 16, 132 * 32}) {
      const double time = seconds(stream, 2, [&](int) {
        read_all<<<blocks, 256, 0, stream.get()>>>(data.as<uint4>(), data.bytes() / 16,
                                                   out.as<std::uint32_t>());
      });
      read_limit = std::max(read_limit, static_cast<double>(data.bytes()) / time);
    }
  }
  std::printf("read limit %.1f GB/s\n", read_limit / 1e9);
  const auto all_rows = [&] {
    rows(stream, 1, 4096, 14336);
    rows(stream, 16, 4096, 14336);
    rows(stream, 2048, 4096, 11008);
    rows(stream, 8192, 4096, 14336);
    rows(stream, 1024, 768, 3072);  // of encoders
    rows(stream, 16384, 768, 3072);
  };
  if (only_rows) {
    all_rows();
    return 0;
  }
  constexpr KvType kF16 = KvType::kF16;
  constexpr KvType kInt8 = KvType::kInt8;
  constexpr KvType kInt4 = KvType::kInt4;
  constexpr KvType kFp8 = KvType::kFp8;
  for (const KvTypes types :
       {KvTypes(kInt4), KvTypes(kInt8), KvTypes(kFp8), KvTypes(kF16), KvTypes(kInt8, kInt4)}) {
    attention(stream, types, {}, 64, 4096, 1);
    attention(stream, types, {}, 1, 4096, 1);
    if (!only_decode) {
      attention(stream, types, {}, 1, 4096, 4096);
    }
  }
  attention(stream, KvTypes(kInt4), {}, 256, 1024, 1);
  attention(stream, KvTypes(kInt4), {}, 16, 4096, 1);
  attention(stream, KvTypes(kInt4), {}, 8, 32768, 1);
  attention(stream, KvTypes(kInt4), {}, 1, 32768, 1);
  attention(stream, KvTypes(kInt4), {}, 1, 512, 1);
  for (const KvTypes types : {KvTypes(kInt4), KvTypes(kInt8)}) {
    attention(stream, types, {32, 32, 128}, 32, 2000, 1);
    attention(stream, types, {32, 32, 128}, 64, 400, 1);
    attention(stream, types, {32, 32, 128}, 256, 400, 1);
    attention(stream, types, {32, 32, 128}, 256, 1100, 1);
  }
  attention(stream, KvTypes(kInt4), {64, 8, 128}, 64, 4096, 1);
  attention(stream, KvTypes(kF16), {32, 8, 64}, 64, 4096, 1);
  attention(stream, KvTypes(kInt4), {32, 8, 64}, 64, 4096, 1);
  for (const KvTypes types : {KvTypes(kF16), KvTypes(kInt4)}) {
    append_and_attend(stream, types, {32, 32, 128}, 1, 60);
    append_and_attend(stream, types, {32, 32, 128}, 32, 60);
    append_and_attend(stream, types, {}, 8, 1000);
  }
  if (only_decode) {
    return 0;
  }
  all_rows();
  return 0;
}
