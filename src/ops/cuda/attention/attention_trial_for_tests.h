#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "core/float8.h"
#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "ops/cpu/attention/kv_cache.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/hadamard_signs.h"
#include "ops/cuda/attention/kv_pool.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {

using device::cuda::Buffer;

struct Sequence {
  std::int64_t context = 0;  // tokens that are there already
  std::int64_t rows = 1;
};

struct Problem {
  KvTypes types;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 128;
  std::int64_t window = 0;
  std::vector<Sequence> sequences;
  float value_scale = 1.0f;
  bool centred = false;  // keys are stored less a centre
};

/// Rows of sequences of 1 to 60 tokens.
inline std::vector<Sequence> short_sequences(int count) {
  std::vector<Sequence> sequences;
  for (int i = 0; i < count; ++i) {
    sequences.push_back({i * 37 % 60, 1});
  }
  return sequences;
}

/// So many sequences of some to many pages, one of them in several splits, that with 32 KV heads a
/// warp of a large GPU has each of them to itself.
inline std::vector<Sequence> many_sequences() {
  std::vector<Sequence> sequences;
  for (int i = 0; i < 34; ++i) {
    sequences.push_back({i * 37 % 290 + (i == 7 ? 500 : 0), 1});
  }
  return sequences;
}

/// One element as it lies in a block, read as kv_layout.h describes it.
struct Stored {
  double value = 0;  // of floats; of integers the code
  core::Fp16 step;
  core::Fp16 smallest;
};

inline Stored read_block(const KvLayout& layout, const std::byte* block, bool keys,
                         std::int64_t token, std::int64_t dim) {
  const KvType type = keys ? layout.types.keys : layout.types.values;
  const std::byte* half = block + (keys ? 0 : layout.key_bytes());
  Stored stored;
  if (is_integer(type)) {
    const std::byte* range = block + layout.key_bytes() + layout.value_bytes() + 16 * (token % 8) +
                             4 * (token / 8) + (keys ? 0 : 8);
    std::memcpy(&stored.step, range, 2);
    std::memcpy(&stored.smallest, range + 2, 2);
  }
  const std::int64_t row = keys ? token : dim % 16;
  const std::int64_t column = keys ? dim % 16 : token;
  const std::int64_t tile = dim / 16;
  const std::int64_t lane = 4 * (row % 8) + column % 8 / 2;
  const std::int64_t reg = row / 8 + 2 * (column / 8);
  const std::int64_t odd = column % 2;
  const auto unit_of = [&](std::int64_t tiles) { return tile / tiles * 512 + lane * 16; };
  const std::int64_t plain = token * layout.head_dim + dim;
  const auto byte_at = [&](std::int64_t at) { return std::to_integer<int>(half[at]); };
  switch (type) {
    case KvType::kF32: {
      float value = 0;
      std::memcpy(&value, half + 4 * plain, 4);
      stored.value = value;
      break;
    }
    case KvType::kF16: {
      core::Fp16 value;
      const std::int64_t matrix = token / 8 * (layout.head_dim / 8) + dim / 8;
      const std::int64_t in_matrix = 16 * (token % 8) + 2 * (dim % 8);
      std::memcpy(&value, half + (layout.fragments() ? 128 * matrix + in_matrix : 2 * plain), 2);
      stored.value = core::to_float(value);
      break;
    }
    case KvType::kInt8:
    case KvType::kFp8: {
      const int byte =
          byte_at(layout.fragments() ? unit_of(2) + tile % 2 * 8 + 2 * reg + odd : plain);
      stored.value = type == KvType::kInt8
                         ? static_cast<float>(byte)
                         : core::to_float(core::E4m3{static_cast<std::uint8_t>(byte)});
      break;
    }
    case KvType::kInt4: {
      const std::int64_t byte = 2 * odd + (keys ? row / 8 : column / 8);
      const std::int64_t nibble = keys ? column / 8 : row / 8;
      stored.value = layout.fragments()
                         ? byte_at(unit_of(4) + tile % 4 * 4 + byte) >> (4 * nibble) & 15
                         : byte_at(plain / 2) >> (4 * (plain % 2)) & 15;
      break;
    }
  }
  return stored;
}

/// The same element of the CPU's cache.
inline Stored read_cpu(const cpu::KvPages& pages, bool keys, std::int64_t position,
                       std::int64_t dim) {
  const cpu::KvView view = pages.page(position / pages.page_tokens);
  const std::int64_t token = position % pages.page_tokens;
  Stored stored;
  if (view.steps != nullptr) {
    stored.step = view.steps[token];
    stored.smallest = view.smallest[token];
  }
  stored.value = cpu::stored_element(view, keys, token, dim);
  return stored;
}

inline double decoded(const Stored& stored, KvType type) {
  return is_integer(type) ? core::to_float(stored.smallest) +
                                static_cast<double>(core::to_float(stored.step)) * stored.value
                          : stored.value;
}

/// A batch on the device and on the CPU.
class Trial {
 public:
  explicit Trial(const Problem& problem) : p_(problem), turn_(problem.head_dim) {
    layer_.layout = {p_.types, p_.kv_heads, p_.head_dim};
    layer_.heads = p_.heads;
    layer_.turned = turn_.exists();
    layer_.turn = turn_.view();
    if (p_.centred) {
      centre_ = normal_values(p_.kv_heads * p_.head_dim, 11);
      device_centre_ = on_device(centre_);
      layer_.key_centre = device_centre_.as<float>();
    }
    std::int64_t pages = 3;
    std::int64_t rows = 0;
    for (const Sequence& sequence : p_.sequences) {
      const std::int64_t tokens = sequence.context + sequence.rows;
      pages += (tokens + kPageTokens - 1) / kPageTokens;
      rows += tokens;
    }
    pool_ = std::make_unique<KvPool>(layer_.layout, 2, pages);
    const std::vector<std::uint8_t> poison(static_cast<std::size_t>(pool_->bytes()), 0xff);
    // What no token was written to is NaN.
    device::cuda::check(
        cudaMemcpy(pool_->layer(0), poison.data(), poison.size(), cudaMemcpyHostToDevice),
        "cudaMemcpy");
    for (const Sequence& sequence : p_.sequences) {
      caches_.push_back(std::make_unique<cpu::KvCache>(p_.types, 1, p_.kv_heads, p_.head_dim,
                                                       sequence.context + sequence.rows));
    }
    // Pages of different sequences lie mixed.
    lists_.resize(p_.sequences.size());
    PageId next = 0;
    for (std::int64_t tokens = 0, left = 1; left > 0; tokens += kPageTokens) {
      left = 0;
      for (std::size_t s = 0; s < lists_.size(); ++s) {
        const std::int64_t all = p_.sequences[s].context + p_.sequences[s].rows;
        if (tokens < all) {
          lists_[s].push_back(next++);
          ++left;
        }
      }
    }
    buffer_.emplace(PlanBuffer::Limits{rows, 2 * pages, 4096, 4096});
    partials_ = poisoned<float>(partial_floats(4096, p_.heads, p_.head_dim));
  }

  AttentionLayer& layer() { return layer_; }
  std::int64_t width() const { return (p_.heads + 2 * p_.kv_heads) * p_.head_dim; }
  const device::cuda::Stream& stream() const { return stream_; }
  std::byte* pages() const { return pool_->layer(1); }

  std::vector<PlannedSequence> planned(bool context) const {
    std::vector<PlannedSequence> result;
    std::int64_t row = 0;
    for (std::size_t s = 0; s < lists_.size(); ++s) {
      const Sequence& sequence = p_.sequences[s];
      const std::int64_t rows = context ? sequence.context : sequence.rows;
      if (rows > 0) {
        result.push_back({lists_[s], context ? 0 : sequence.context, row, rows});
      }
      row += rows;
    }
    return result;
  }

  // Queries, keys and values of all rows.
  std::vector<float> values(std::int64_t rows, std::uint64_t seed) const {
    std::vector<float> qkv = normal_values(rows * width(), seed);
    for (std::size_t i = 0; i < qkv.size(); ++i) {
      const auto column = static_cast<std::int64_t>(i) % width();
      if (column >= (p_.heads + p_.kv_heads) * p_.head_dim) {
        qkv[i] = (qkv[i] + 0.5f) * p_.value_scale;
      } else if (column % p_.head_dim == 3) {
        qkv[i] *= 6.0f;  // a channel of outliers
      }
    }
    return qkv;
  }

  void upload_plan(bool context) {
    const auto sequences = planned(context);
    const AttentionPlan plan = plan_attention(sequences, p_.heads / p_.kv_heads, p_.window);
    upload_.begin();
    buffer_->put(plan, upload_);
    upload_.start(stream_.get());
    splits_ = plan.partials > 0;
  }

  // So many rows of the step at a time; 0: all.
  void append_rows(const std::vector<float>& qkv, bool context, std::int64_t at_a_time = 0) {
    upload_plan(context);
    const auto m = static_cast<std::int64_t>(qkv.size()) / width();
    const Buffer device_qkv = on_device(qkv);
    const std::int64_t elements = m * p_.heads * p_.head_dim;
    if (layer_.layout.fragments()) {
      queries_ = poisoned<core::Fp16>(elements);
      q_ = {queries_.as<core::Fp16>(), nullptr};
    } else {
      queries_ = poisoned<float>(elements);
      q_ = {nullptr, queries_.as<float>()};
    }
    const std::int64_t step = at_a_time == 0 ? m : at_a_time;
    for (std::int64_t row = 0; row < m; row += step) {
      DevicePlan plan = buffer_->plan();
      plan.positions += row;
      plan.slots += row;
      const std::int64_t at = row * p_.heads * p_.head_dim;
      const Queries q = q_.halves != nullptr ? Queries{q_.halves + at, nullptr}
                                             : Queries{nullptr, q_.floats + at};
      append(layer_, device_qkv.as<float>() + row * width(), plan, std::min(step, m - row), q,
             pool_->layer(1), stream_.get());
    }
    stream_.synchronize();
  }

  void store_rows(const std::vector<float>& qkv, bool context) {
    for (const PlannedSequence& sequence : planned(context)) {
      for (std::int64_t i = 0; i < sequence.rows; ++i) {
        for (std::int64_t head = 0; head < p_.kv_heads; ++head) {
          const float* from = &qkv[static_cast<std::size_t>((sequence.row + i) * width() +
                                                            (p_.heads + head) * p_.head_dim)];
          std::vector<float> key(from, from + p_.head_dim);
          for (std::int64_t d = 0; p_.centred && d < p_.head_dim; ++d) {
            key[static_cast<std::size_t>(d)] -=
                centre_[static_cast<std::size_t>(head * p_.head_dim + d)];
          }
          cache_of(sequence).store(0, head, sequence.position + i, key.data(),
                                   from + p_.kv_heads * p_.head_dim);
        }
      }
    }
  }

  cpu::KvCache& cache_of(const PlannedSequence& sequence) {
    for (std::size_t s = 0; s < lists_.size(); ++s) {
      if (lists_[s].data() == sequence.pages.data()) {
        return *caches_[s];
      }
    }
    throw std::logic_error("a sequence without a cache");
  }

  std::vector<std::byte> blocks() const {
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(pool_->pages() * layer_.layout.page_bytes()));
    device::cuda::check(
        cudaMemcpy(bytes.data(), pool_->layer(1), bytes.size(), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
    return bytes;
  }

  // Elements and ranges that differ from the CPU's.
  std::int64_t differences() {
    const std::vector<std::byte> bytes = blocks();
    const KvLayout& layout = layer_.layout;
    std::int64_t wrong = 0;
    for (std::size_t s = 0; s < lists_.size(); ++s) {
      for (std::int64_t position = 0; position < caches_[s]->capacity(); ++position) {
        const std::int32_t page = lists_[s][static_cast<std::size_t>(position / kPageTokens)];
        for (std::int64_t head = 0; head < p_.kv_heads; ++head) {
          const std::byte* block =
              bytes.data() + page * layout.page_bytes() + head * layout.block_bytes();
          for (const bool keys : {true, false}) {
            const cpu::KvPages there =
                keys ? caches_[s]->keys(0, head) : caches_[s]->values(0, head);
            for (std::int64_t dim = 0; dim < p_.head_dim; ++dim) {
              const Stored here = read_block(layout, block, keys, position % kPageTokens, dim);
              const Stored expected = read_cpu(there, keys, position, dim);
              wrong += !(here.value == expected.value && here.step == expected.step &&
                         here.smallest == expected.smallest);
            }
          }
        }
      }
    }
    return wrong;
  }

  // Attention of the rows that were appended last, in double precision over the CPU's caches, with
  // the queries rounded as the device has them.
  std::vector<float> reference(const std::vector<float>& qkv) {
    const auto m = static_cast<std::int64_t>(qkv.size()) / width();
    std::vector<float> out(static_cast<std::size_t>(m * p_.heads * p_.head_dim));
    const auto dim = static_cast<std::size_t>(p_.head_dim);
    for (const PlannedSequence& sequence : planned(false)) {
      const cpu::KvCache& cache = cache_of(sequence);
      for (std::int64_t i = 0; i < sequence.rows; ++i) {
        for (std::int64_t head = 0; head < p_.heads; ++head) {
          const float* from =
              &qkv[static_cast<std::size_t>((sequence.row + i) * width() + head * p_.head_dim)];
          std::vector<float> q(from, from + dim);
          if (cache.key_turn() != nullptr) {
            cache.key_turn()->apply(std::span<float>(q));
          }
          for (float& value : q) {
            value = layer_.layout.fragments() ? core::to_float(saturated_fp16(value)) : value;
          }
          const std::vector<double> result =
              attend_one(cache, q, head / (p_.heads / p_.kv_heads), sequence.position + i);
          for (std::size_t d = 0; d < dim; ++d) {
            out[static_cast<std::size_t>(((sequence.row + i) * p_.heads + head)) * dim + d] =
                static_cast<float>(result[d]);
          }
        }
      }
    }
    return out;
  }

  std::vector<double> attend_one(const cpu::KvCache& cache, const std::vector<float>& q,
                                 std::int64_t kv_head, std::int64_t position) const {
    const auto dim = static_cast<std::int64_t>(q.size());
    const std::int64_t begin =
        p_.window > 0 ? std::max<std::int64_t>(0, position + 1 - p_.window) : 0;
    const cpu::KvPages keys = cache.keys(0, kv_head);
    const cpu::KvPages values = cache.values(0, kv_head);
    std::vector<double> weights;
    for (std::int64_t j = begin; j <= position; ++j) {
      double sum = 0;
      for (std::int64_t d = 0; d < dim; ++d) {
        sum += q[static_cast<std::size_t>(d)] * decoded(read_cpu(keys, true, j, d), keys.type);
      }
      weights.push_back(sum / std::sqrt(static_cast<double>(dim)));
    }
    const double largest = *std::max_element(weights.begin(), weights.end());
    double total = 0;
    for (double& weight : weights) {
      weight = std::exp(weight - largest);
      total += weight;
    }
    std::vector<double> out(q.size(), 0.0);
    for (std::int64_t j = begin; j <= position; ++j) {
      for (std::int64_t d = 0; d < dim; ++d) {
        out[static_cast<std::size_t>(d)] += weights[static_cast<std::size_t>(j - begin)] / total *
                                            decoded(read_cpu(values, false, j, d), values.type);
      }
    }
    if (cache.value_turn() != nullptr) {
      cache.value_turn()->apply_transposed(std::span<double>(out));
    }
    return out;
  }

  // As operators have it, which know the rows of a step.
  DevicePlan step_plan() const {
    DevicePlan plan = buffer_->plan();
    if (!splits_) {
      plan.max_items = std::min(plan.max_items, rows(false));
      plan.max_partials = 0;
    }
    return plan;
  }

  void launch_attend(const AttentionOutput& output) {
    attend_decode(layer_, q_, pool_->layer(1), step_plan(), partials_.as<float>(), output,
                  stream_.get());
    attend_prefill(layer_, q_, pool_->layer(1), step_plan(), output, stream_.get());
  }

  std::vector<float> attend(std::int64_t m) {
    const Buffer out = poisoned<float>(m * p_.heads * p_.head_dim);
    AttentionOutput output;
    output.rows = out.as<float>();
    launch_attend(output);
    stream_.synchronize();
    return out.values<float>();
  }

  bool launch_append_attend(const float* qkv, std::int64_t m, const AttentionOutput& output) {
    return cuda::append_attend(layer_, qkv, step_plan(), m, pool_->layer(1), partials_.as<float>(),
                               output, stream_.get());
  }

  // Rows of the step that were not appended; nothing where one kernel does not serve.
  std::vector<float> append_attend(const std::vector<float>& qkv) {
    upload_plan(false);
    const auto m = static_cast<std::int64_t>(qkv.size()) / width();
    const Buffer device_qkv = on_device(qkv);
    const Buffer out = poisoned<float>(m * p_.heads * p_.head_dim);
    AttentionOutput output;
    output.rows = out.as<float>();
    const bool served = launch_append_attend(device_qkv.as<float>(), m, output);
    stream_.synchronize();
    return served ? out.values<float>() : std::vector<float>();
  }

  // What append() made of the queries.
  std::vector<float> queries() const { return queries_.values<float>(); }
  std::vector<std::uint16_t> query_halves() const { return queries_.values<std::uint16_t>(); }
  // The query heads of rows of q|k|v.
  std::vector<float> heads_of(const std::vector<float>& qkv) const {
    std::vector<float> q;
    for (std::size_t at = 0; at < qkv.size(); at += static_cast<std::size_t>(width())) {
      const auto from = qkv.begin() + static_cast<std::ptrdiff_t>(at);
      q.insert(q.end(), from, from + p_.heads * p_.head_dim);
    }
    return q;
  }

  std::int64_t rows(bool context) const {
    std::int64_t sum = 0;
    for (const Sequence& sequence : p_.sequences) {
      sum += context ? sequence.context : sequence.rows;
    }
    return sum;
  }

  // Both kinds of rows stored; returns the step's values.
  std::vector<float> fill() {
    if (rows(true) > 0) {
      const std::vector<float> context = values(rows(true), 5);
      append_rows(context, true);
      store_rows(context, true);
    }
    std::vector<float> step = values(rows(false), 6);
    append_rows(step, false);
    store_rows(step, false);
    return step;
  }

 private:
  Problem p_;
  HadamardSigns turn_;
  std::vector<float> centre_;
  Buffer device_centre_;
  AttentionLayer layer_;
  std::unique_ptr<KvPool> pool_;
  std::vector<std::vector<PageId>> lists_;  // pages of each sequence
  std::vector<std::unique_ptr<cpu::KvCache>> caches_;
  std::optional<PlanBuffer> buffer_;
  StepUpload upload_;
  bool splits_ = false;  // of the plan
  Buffer partials_;
  Buffer queries_;
  Queries q_;
  device::cuda::Stream stream_;
};

/// Largest |a - b| as a part of the largest |b|.
inline double worst_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double error = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  return worst / largest;
}

}  // namespace nibble::ops::cuda
