#include "tune/qat/distillation.h"

#include <memory>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "models/encoder_forward.h"
#include "ops/gradient/attention_scores.h"

namespace nibble::tune {
namespace {

using ops::cpu::KvCache;
using ops::cpu::Matrix;
using ops::gradient::GradientOps;
using ops::gradient::RowRange;
using ops::gradient::TextRows;
using ops::gradient::Variable;
using Slices = std::vector<ops::SequenceSlice<KvCache>>;

models::Problem problem_of(const models::Network& network) {
  return network.has_decoder() ? models::Problem::kSingleLabel : network.classifier->problem;
}

}  // namespace

// What a block made of a batch.
struct Distillation::Layer {
  Variable hidden;               // the states behind it
  std::vector<Variable> scores;  // of its attention, in the order of the pass
};

struct Distillation::Pass {
  std::vector<Layer> layers;  // of all stacks
  Variable logits;
};

namespace {

// Room for what a decoder keeps of each text that was read.
std::vector<std::unique_ptr<KvCache>> memories_of(const models::Network& network,
                                                  std::span<const TextRows> texts) {
  const models::NetworkConfig& config = network.config;
  std::vector<std::unique_ptr<KvCache>> memories;
  for (const TextRows& text : texts) {
    memories.push_back(std::make_unique<KvCache>(ops::KvType::kF32, config.layers, config.kv_heads,
                                                 config.head_dim, text.read.rows));
  }
  return memories;
}

// `texts` of a batch; those of a model with a decoder have memories.
Slices slices_of(std::span<const TextRows> texts,
                 std::span<const std::unique_ptr<KvCache>> memories,
                 std::span<const TextRows> memory_rows) {
  Slices slices;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const RowRange& own = texts[i].own;
    slices.push_back({nullptr, 0, own.row, own.rows});
    if (!memories.empty()) {
      slices.back().memory = memories[i].get();
      slices.back().memory_rows = memory_rows[i].read.rows;
    }
  }
  return slices;
}

}  // namespace

Distillation::Distillation(const models::Network& teacher, ops::cpu::CpuOps& teacher_ops,
                           const models::Network& student, ops::cpu::CpuOps& student_ops,
                           const LossWeights& weights, std::vector<std::int64_t> layers)
    : teacher_(teacher),
      student_(student),
      student_ops_(student_ops),
      weights_(weights),
      layers_(std::move(layers)),
      teacher_tape_(teacher_ops),
      student_tape_(student_ops) {
  core::require(student.has_decoder() || student.classifier.has_value(), core::ErrorKind::kUsage,
                "the model has no head that labels texts, and no decoder");
  if (layers_.empty()) {
    layers_.resize(models::all_blocks(student).size());
    std::iota(layers_.begin(), layers_.end(), 0);
  }
  if (weights_.needs_scores()) {
    teacher_tape_.keep_scores();
    student_tape_.keep_scores();
  }
}

Distillation::Pass Distillation::run(GradientOps& tape, const models::Network& network,
                                     const StudentBatch& texts) {
  Pass pass;
  const auto run_stack = [&](const models::Stack& stack, const models::Batch<GradientOps>& batch,
                             Variable& x) {
    for (std::size_t layer = 0; layer < stack.blocks.size(); ++layer) {
      const auto before = static_cast<std::ptrdiff_t>(tape.scores().size());
      models::move_through(tape, network.config, stack.norms, stack.blocks[layer],
                           static_cast<std::int64_t>(layer), batch, x);
      pass.layers.push_back({x, {tape.scores().begin() + before, tape.scores().end()}});
    }
  };
  const auto memories = memories_of(network, texts.memory_rows);
  if (network.has_encoder()) {
    const Slices read = slices_of(texts.read_rows, memories, texts.memory_rows);
    const models::Batch<GradientOps> source{texts.read.tokens(), texts.read.positions(), read,
                                            texts.read.types()};
    auto x = models::embed_for_encoder(tape, network, source);
    run_stack(network.encoder, source, x);
    const Variable states = models::encoder_states(tape, network, x);
    if (!network.has_decoder()) {
      pass.logits = models::run_head(tape, network.classifier->head,
                                     tape.gather(states, texts.read.firsts()));
      return pass;
    }
    models::remember(tape, network, source, states);
  }
  const Slices written = slices_of(texts.written_rows, memories, texts.memory_rows);
  const models::Batch<GradientOps> target{texts.written.tokens(), texts.written.positions(),
                                          written};
  auto y = models::embed(tape, network, target);
  run_stack(network.decoder, target, y);
  pass.logits = models::logits(tape, network, y);
  return pass;
}

LossTerms Distillation::step(std::span<const LabelledText* const> texts,
                             const ops::gradient::ParameterGradients& gradients,
                             const BatchShare& share) {
  const StudentBatch batch(student_, texts);
  Pass teacher;
  if (weights_.needs_teacher()) {
    teacher = run(teacher_tape_, teacher_, batch);
    teacher_tape_.forget();
  }
  const Pass student = run(student_tape_, student_, batch);
  student_tape_.set_parameters(&gradients);
  LossTerms terms = compare_answers(student, teacher, batch, share);
  terms.add(compare_layers(student, teacher, batch, share));
  student_tape_.backward();
  return terms;
}

template <typename Loss>
double Distillation::add(const Variable& at, Loss loss) {
  Matrix gradient = student_ops_.zeros(at.rows(), at.columns());
  const double value = loss(gradient);
  student_tape_.add_gradient(at, gradient);
  return value;
}

LossTerms Distillation::compare_answers(const Pass& student, const Pass& teacher,
                                        const StudentBatch& texts, const BatchShare& share) {
  LossTerms terms;
  const models::Problem problem = problem_of(student_);
  const Matrix& logits = student.logits.value();
  if (weights_.labels > 0) {
    terms.labels = share.answers * add(student.logits, [&](Matrix& gradient) {
                     return add_label_loss(problem, logits, texts.labels,
                                           weights_.labels * share.answers, gradient);
                   });
  }
  if (weights_.logits > 0) {
    terms.logits = share.answers * add(student.logits, [&](Matrix& gradient) {
                     return add_logit_loss(problem, logits, teacher.logits.value(),
                                           weights_.logits * share.answers, gradient);
                   });
  }
  return terms;
}

LossTerms Distillation::compare_layers(const Pass& student, const Pass& teacher,
                                       const StudentBatch& texts, const BatchShare& share) {
  LossTerms terms;
  if (teacher.layers.empty()) {
    return terms;
  }
  const auto blocks = models::all_blocks(student_);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Layer& own = student.layers[i];
    const Layer& other = teacher.layers[static_cast<std::size_t>(layers_[i])];
    const bool reads = i < student_.encoder.blocks.size();
    const double tokens = reads ? share.read : share.written;
    if (weights_.hidden > 0) {
      terms.hidden += tokens * add(own.hidden, [&](Matrix& gradient) {
                        return add_squared_difference(own.hidden.value(), other.hidden.value(),
                                                      weights_.hidden * tokens, gradient);
                      });
    }
    const auto compare_scores = [&](std::size_t at, const ops::AttentionSpec& spec,
                                    std::span<const TextRows> rows, double pairs) {
      const LayerScores scores = {spec, rows, own.scores[at].value(), other.scores[at].value()};
      add(own.scores[at], [&](Matrix& gradient) {
        if (weights_.attention > 0) {
          terms.attention +=
              tokens * add_attention_loss(scores, weights_.attention * tokens, gradient);
        }
        if (weights_.scores > 0) {
          terms.scores += pairs * add_score_loss(scores, weights_.scores * pairs, gradient);
        }
        return 0.0;
      });
    };
    if (!weights_.needs_scores()) {
      continue;
    }
    compare_scores(0, blocks[i]->attention.spec, reads ? texts.read_rows : texts.written_rows,
                   reads ? share.read_pairs : share.written_pairs);
    if (blocks[i]->cross) {
      compare_scores(1, blocks[i]->cross->spec, texts.memory_rows, share.memory_pairs);
    }
  }
  return terms;
}

}  // namespace nibble::tune
