#include "ops/gradient/attention_gradient.h"

#include <vector>

#include "ops/cpu/attention/rope.h"
#include "ops/cpu/vector/vector_kernels.h"
#include "ops/gradient/attention_scores.h"
#include "ops/gradient/head_gradient.h"
#include "ops/gradient/norm_gradient.h"

namespace nibble::ops::gradient {
namespace {

// One KV head of one sequence, with the query heads that read it.
class GroupGradient {
 public:
  GroupGradient(const AttentionRecord& record, const cpu::Matrix& dout, cpu::Matrix& dqkv,
                const RowRange& rows, std::int64_t first_score, std::int64_t kv_head)
      : record_(record),
        spec_(record.spec),
        dout_(dout),
        dqkv_(dqkv),
        first_(rows.row),
        rows_(rows.rows),
        first_score_(first_score),
        kv_head_(kv_head) {}

  void run() {
    const std::int64_t group = spec_.heads / spec_.kv_heads;
    const auto size = static_cast<std::size_t>(rows_ * spec_.head_dim);
    HeadGradient gradient(rows_, rows_);
    std::vector<float> dquery(size);
    std::vector<float> dkey(size);
    float* const dvalue = dqkv_.row(first_) + value_head() * spec_.head_dim;
    for (std::int64_t h = kv_head_ * group; h < (kv_head_ + 1) * group; ++h) {
      const HeadRecord head{rows_,
                            rows_,
                            spec_.head_dim,
                            spec_.score_scale(),
                            spec_.softcap,
                            spec_.mask,
                            part_of(record_.turned, h),
                            part_of(record_.turned, key_head()),
                            part_of(record_.turned, value_head()),
                            part_of(record_.out, h),
                            part_of(dout_, h),
                            record_.dscores == nullptr
                                ? nullptr
                                : record_.dscores->data() + first_score_ + h * rows_ * rows_};
      gradient.run(head, dquery.data(), dkey.data(), dvalue, dqkv_.columns());
      turn_back(h, spec_.q_norm, dquery);
    }
    turn_back(key_head(), spec_.k_norm, dkey);
  }

 private:
  std::int64_t key_head() const { return spec_.heads + kv_head_; }
  std::int64_t value_head() const { return spec_.heads + spec_.kv_heads + kv_head_; }
  HeadView part_of(const cpu::Matrix& x, std::int64_t head) const {
    return {x.row(first_) + head * spec_.head_dim, x.columns()};
  }

  // Adds to dqkv the gradient of a head before RoPE and QK norm.
  void turn_back(std::int64_t h, const std::vector<float>& weight, std::vector<float>& gradient) {
    const std::int64_t dim = spec_.head_dim;
    cpu::Rotation rotation;
    const Norm norm{"", NormKind::kRms, weight, {}, spec_.norm_eps, 0.0f};
    for (std::int64_t i = 0; i < rows_; ++i) {
      float* g = gradient.data() + i * dim;
      if (!spec_.inverse_frequency.empty()) {
        rotation.set(spec_.inverse_frequency,
                     record_.positions[static_cast<std::size_t>(first_ + i)], spec_.rope_factor);
        for (float& sine : rotation.sine) {
          sine = -sine;  // the transpose of the rotation
        }
        cpu::rotate(g, rotation);
      }
      float* to = dqkv_.row(first_ + i) + h * dim;
      if (weight.empty()) {
        cpu::vector_kernels().add(to, g, dim);
      } else {
        add_norm_gradient(norm, record_.qkv.row(first_ + i) + h * dim, g, to);
      }
    }
  }

  const AttentionRecord& record_;
  const AttentionSpec& spec_;
  const cpu::Matrix& dout_;
  cpu::Matrix& dqkv_;
  std::int64_t first_;
  std::int64_t rows_;
  std::int64_t first_score_;  // of the sequence
  std::int64_t kv_head_;
};

// y [rows, columns] += x, which has no gaps; `stride` floats from row to row of y.
void add_rows(const std::vector<float>& x, std::int64_t rows, std::int64_t columns, float* y,
              std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    cpu::vector_kernels().add(y + i * stride, x.data() + i * columns, columns);
  }
}

// One KV head of a text that was read, with the query heads that read it. `dscores`: those of the
// text, or null.
void add_group_gradient(const MemoryRecord& record, const TextRows& rows, std::int64_t kv_head,
                        const float* dscores, const cpu::Matrix& dout, cpu::Matrix& dq,
                        cpu::Matrix& dkv) {
  const AttentionSpec& spec = record.spec;
  const std::int64_t dim = spec.head_dim;
  const std::int64_t group = spec.heads / spec.kv_heads;
  const std::int64_t key = kv_head * dim;
  const std::int64_t value = (spec.kv_heads + kv_head) * dim;
  const auto part = [](const cpu::Matrix& x, const RowRange& range, std::int64_t column) {
    return HeadView{x.row(range.row) + column, x.columns()};
  };
  const RowRange& own = rows.own;
  const RowRange& read = rows.read;
  HeadGradient gradient(own.rows, read.rows);
  std::vector<float> dquery(static_cast<std::size_t>(own.rows * dim));
  std::vector<float> dkey(static_cast<std::size_t>(read.rows * dim));
  for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    const HeadRecord head{own.rows,
                          read.rows,
                          dim,
                          spec.score_scale(),
                          spec.softcap,
                          {.bidirectional = true},
                          part(record.q, own, h * dim),
                          part(record.kv, read, key),
                          part(record.kv, read, value),
                          part(record.out, own, h * dim),
                          part(dout, own, h * dim),
                          dscores == nullptr ? nullptr : dscores + h * own.rows * read.rows};
    gradient.run(head, dquery.data(), dkey.data(), dkv.row(read.row) + value, dkv.columns());
    add_rows(dquery, own.rows, dim, dq.row(own.row) + h * dim, dq.columns());
  }
  add_rows(dkey, read.rows, dim, dkv.row(read.row) + key, dkv.columns());
}

}  // namespace

void add_attention_gradient(const AttentionRecord& record, const cpu::Matrix& dout,
                            cpu::Matrix& dqkv, core::ThreadPool& pool) {
  const auto sequences = static_cast<std::int64_t>(record.sequences.size());
  const std::int64_t heads = record.spec.kv_heads;
  const std::vector<std::int64_t> first_scores =
      first_scores_of(record.spec, reading_themselves(record.sequences));
  pool.parallel_for(sequences * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const auto sequence = static_cast<std::size_t>(task / heads);
      GroupGradient(record, dout, dqkv, record.sequences[sequence], first_scores[sequence],
                    task % heads)
          .run();
    }
  });
}

void add_memory_gradient(const MemoryRecord& record, const cpu::Matrix& dout, cpu::Matrix& dq,
                         cpu::Matrix& dkv, core::ThreadPool& pool) {
  const std::int64_t heads = record.spec.kv_heads;
  const std::vector<std::int64_t> first_scores = first_scores_of(record.spec, record.texts);
  pool.parallel_for(std::ssize(record.texts) * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const auto text = static_cast<std::size_t>(task / heads);
      add_group_gradient(
          record, record.texts[text], task % heads,
          record.dscores == nullptr ? nullptr : record.dscores->data() + first_scores[text], dout,
          dq, dkv);
    }
  });
}

}  // namespace nibble::ops::gradient
