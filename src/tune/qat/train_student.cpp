#include "tune/qat/train_student.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>

#include "compress/pipeline/checkpoint.h"
#include "compress/pipeline/model_card.h"
#include "compress/pipeline/quantize_job.h"
#include "core/byte_size.h"
#include "core/error.h"
#include "core/json.h"
#include "tune/activation_bytes.h"
#include "tune/learning_rate.h"
#include "tune/loss_curve.h"
#include "tune/qat/student_trainer.h"

namespace nibble::tune {
namespace {

using core::ErrorKind;
using core::Json;
using Clock = std::chrono::steady_clock;

constexpr const char* kStateFile = "training.safetensors";
constexpr const char* kStage = "qat";
constexpr std::int64_t kBytesPerLogit = 12;  // of a decoder: its value and its gradient, twice

void require_served(const models::Model& model, const std::vector<LabelledText>& texts,
                    const StudentOptions& options) {
  const models::Network& network = model.network;
  core::require(network.has_decoder() || network.classifier.has_value(), ErrorKind::kUsage,
                "{} is an encoder without a head that labels texts; students of such models are "
                "not trained here",
                io::shown(model.path));
  core::require(model.compression.schemes.empty(), ErrorKind::kUsage,
                "{} is already compressed ({}); start from the original model",
                io::shown(model.path), core::printable(model.compression.recipe));
  const compress::Recipe& recipe = options.recipe;
  const bool plain = recipe.steps.size() == 1 && recipe.steps.front().pass == "rtn" &&
                     !recipe.target && !recipe.output;
  core::require(plain, ErrorKind::kUsage,
                "recipe '{}': training chooses the weights, so the recipe has to round to nearest "
                "and do nothing else (w4a4, w4a8, w8a8, rtn-w4g128, ...)",
                core::printable(recipe.name));
  core::require(options.loss.needs_teacher() || options.loss.labels > 0, ErrorKind::kUsage,
                "every term of the loss has the weight 0: nothing is to be learned");
  core::require(!texts.empty(), ErrorKind::kUsage, "there is no text to learn from");
  if (options.place.on_gpu()) {
    require_trained_on_gpu(network, recipe, options.pruning, options.loss);
  }
}

Json job(const models::Model& model, const std::vector<LabelledText>& texts,
         const StudentOptions& options, const compress::Recipe& recipe) {
  Json json = compress::job_of(model, recipe, {});
  const LossWeights& loss = options.loss;
  const AdamWOptions& adam = options.optimizer;
  json["student"] = {
      {"texts", {texts.size(), fmt::format("{:016x}", hash_of(texts))}},
      {"pruning", options.pruning.any() ? name_of(options.pruning) : ""},
      {"layers", {options.layers.encoder, options.layers.decoder}},
      {"loss", {loss.labels, loss.logits, loss.hidden, loss.attention, loss.scores}},
      {"epochs", options.epochs},
      {"batch", {options.batch, options.accumulate}},
      {"learning_rate", {options.learning_rate, options.warmup}},
      {"optimizer", {adam.beta1, adam.beta2, adam.epsilon, adam.weight_decay, adam.clip}},
      {"seed", options.seed}};
  if (options.place.on_gpu()) {
    json["student"]["device"] = {"cuda", ops::gradient::to_string(options.precision)};
  }
  return json;
}

class Training {
 public:
  // `model` is what the student begins as, with these layers of the teacher's.
  Training(const models::Model& model, const models::Model& teacher,
           const std::vector<std::int64_t>& layers, const std::vector<LabelledText>& texts,
           const StudentOptions& options, const compress::Recipe& recipe, const JudgeStudent& judge,
           core::ProgressSink& progress)
      : model_(model),
        teacher_(teacher),
        texts_(texts),
        options_(options),
        recipe_(recipe),
        judge_(judge),
        progress_(progress),
        teacher_ops_({options.threads, ops::ActivationPrecision::kFloat}),
        student_ops_({options.threads, ops::ActivationPrecision::kFloat}),
        student_(model.network, recipe, options.pruning, student_ops_),
        trainer_(make_student_trainer({teacher.network, student_, layers, options.loss,
                                       options.optimizer, teacher_ops_, student_ops_},
                                      options.place, options.precision)),
        curve_(options.csv) {
    const auto count = static_cast<std::int64_t>(texts.size());
    const std::int64_t texts_of_step = options.batch * options.accumulate;
    steps_per_epoch_ = (count + texts_of_step - 1) / texts_of_step;
    steps_ = steps_per_epoch_ * options.epochs;
    rate_ = {options.learning_rate, Decay::kLinear, steps_,
             static_cast<std::int64_t>(std::ceil(options.warmup * static_cast<double>(steps_)))};
  }

  const Student& student() const { return student_; }

  void run(const std::filesystem::path& state) {
    state_ = state;
    curve_.start();
    const bool stored = trainer_->load(state, steps_);
    const std::int64_t first = trainer_->steps();
    if (stored) {
      curve_.resume(first);
    }
    tell_size();
    if (first == 0) {
      tell_worth("before training");
    }
    progress_.begin("train", steps_);
    progress_.skip(first);
    for (std::int64_t step = first; step < steps_; ++step) {
      if (step == first || step % steps_per_epoch_ == 0) {
        order_ = order_of_epoch(texts_.size(), options_.seed, step / steps_per_epoch_);
      }
      take(step);
      const std::int64_t done = step + 1;
      if (done % options_.checkpoint == 0 || done == steps_) {
        curve_.save();  // first, as in tune_network()
        trainer_->save(state_);
      }
      if (done % steps_per_epoch_ == 0) {
        tell_worth(fmt::format("epoch {}", done / steps_per_epoch_));
      }
    }
    progress_.end();
    trainer_->settle();
  }

  models::CompressionInfo compression() const {
    models::CompressionInfo info;
    info.recipe = recipe_.name;
    info.schemes = student_.schemes();
    info.keeps_inputs = true;
    return info;
  }

 private:
  std::vector<std::vector<const LabelledText*>> batches(std::int64_t step) const {
    const auto size = static_cast<std::size_t>(options_.batch);
    const std::size_t all = size * static_cast<std::size_t>(options_.accumulate);
    const std::size_t first = static_cast<std::size_t>(step % steps_per_epoch_) * all;
    std::vector<std::vector<const LabelledText*>> batches;
    for (std::size_t i = first; i < std::min(first + all, order_.size()); ++i) {
      if ((i - first) % size == 0) {
        batches.emplace_back();
      }
      batches.back().push_back(&texts_[order_[i]]);
    }
    return batches;
  }

  LossTerms pass_back(std::int64_t step) {
    const auto batches = this->batches(step);
    const auto shares = shares_of(batches);
    LossTerms terms;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      terms.add(trainer_->pass_back(batches[i], shares[i]));
    }
    return terms;
  }

  void take(std::int64_t step) {
    const auto start = Clock::now();
    const LossTerms terms = pass_back(step);
    const double loss = terms.total(options_.loss);
    const double rate = rate_.at(step);
    const double norm = trainer_->step(loss, rate);
    curve_.add({kStage, 0, step / steps_per_epoch_ + 1, step + 1, loss, rate, norm});
    const std::chrono::duration<double> seconds = Clock::now() - start;
    progress_.update(
        step + 1,
        fmt::format("loss {:.4f}: labels {:.4f} logits {:.4f} hidden {:.4f} attention {:.4f} "
                    "scores {:.4f}; {:.2f} s",
                    loss, terms.labels, terms.logits, terms.hidden, terms.attention, terms.scores,
                    seconds.count()));
  }

  // Tokens of the batch that the longest texts would make: those that are read, or written.
  std::int64_t most_tokens(std::vector<std::int32_t> LabelledText::*tokens) const {
    std::vector<std::int64_t> lengths;
    for (const LabelledText& text : texts_) {
      lengths.push_back(std::ssize(text.*tokens));
    }
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    lengths.resize(std::min(lengths.size(), static_cast<std::size_t>(options_.batch)));
    return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  }

  // Of a step, where all texts are as long as the longest.
  std::int64_t most_activations(const models::Network& network) const {
    const std::int64_t written = most_tokens(&LabelledText::written);
    return activation_bytes(network.encoder, most_tokens(&LabelledText::tokens)) +
           activation_bytes(network.decoder, written) +
           kBytesPerLogit * written * network.config.vocabulary;
  }

  void tell_size() {
    const std::int64_t count = count_of(student_.parameters());
    std::int64_t activations = most_activations(student_.network());
    if (options_.loss.needs_teacher()) {
      activations += most_activations(teacher_.network);
    }
    progress_.message(fmt::format(
        "{} parameters, {} texts, {} steps of {} texts; memory{}: about {:.0f} MB for parameters "
        "and optimizer, at most about {:.0f} MB for the activations of a step",
        count, texts_.size(), steps_, options_.batch * options_.accumulate,
        options_.place.on_gpu() ? " of the GPU" : "",
        static_cast<double>(count * trainer_->bytes_per_value()) / 1e6,
        static_cast<double>(activations) / 1e6));
  }

  void tell_worth(const std::string& when) {
    if (!judge_) {
      return;
    }
    trainer_->settle();
    auto model = std::make_shared<models::Model>(model_);
    model->network = student_.network();
    model->compression = compression();
    progress_.message(fmt::format("{}: {}", when, judge_(std::move(model))));
  }

  const models::Model& model_;
  const models::Model& teacher_;
  const std::vector<LabelledText>& texts_;
  const StudentOptions& options_;
  const compress::Recipe& recipe_;
  const JudgeStudent& judge_;
  core::ProgressSink& progress_;
  ops::cpu::CpuOps teacher_ops_;
  ops::cpu::CpuOps student_ops_;
  Student student_;
  std::unique_ptr<StudentTrainer> trainer_;
  LossCurve curve_;
  LearningRate rate_;
  std::int64_t steps_per_epoch_ = 0;
  std::int64_t steps_ = 0;
  std::filesystem::path state_;
  std::vector<std::size_t> order_;  // of the epoch
};

compress::CardFacts card_of(const models::Model& model, const models::Model& student,
                            const std::vector<LabelledText>& texts, const StudentOptions& options,
                            const compress::Recipe& recipe) {
  compress::CardFacts facts;
  facts.recipe = recipe.name;
  facts.scheme = formats::to_string(recipe.scheme);
  facts.rows = {
      {"trained",
       fmt::format("while it ran so: {} texts, {} epochs", texts.size(), options.epochs)},
  };
  if (options.layers.any()) {
    facts.rows.emplace_back(
        "layers", fmt::format("{} (was {})", layers_of(student.network), layers_of(model.network)));
  }
  return facts;
}

}  // namespace

void train_student(const models::Model& model, const std::vector<LabelledText>& texts,
                   const StudentOptions& options, const std::filesystem::path& target, bool resume,
                   const JudgeStudent& judge, core::ProgressSink& progress) {
  require_served(model, texts, options);
  compress::Recipe recipe = options.recipe;
  std::string prefix = "qat-";
  std::vector<std::int64_t> layers;
  models::Model start = model;
  if (options.layers.any()) {
    const KeptLayers kept = every_other_layer(model.network, options.layers);
    layers = among_all_blocks(kept, model.network);
    start = with_layers(model, kept);
    prefix += fmt::format("layers{}-", layers_of(start.network));
  }
  if (options.pruning.any()) {
    prefix += name_of(options.pruning) + "-";
  }
  recipe.name = prefix + recipe.name;
  compress::CheckpointWriter writer(start, target, job(model, texts, options, recipe), std::nullopt,
                                    resume);
  const std::filesystem::path state = writer.folder() / kStateFile;
  Training training(start, model, layers, texts, options, recipe, judge, progress);
  training.run(state);
  const auto blocks = training.student().compressed();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    writer.write_block(static_cast<std::int64_t>(i), blocks[i]);
  }
  writer.complete(training.compression());
  writer.write_file(compress::kModelCardFile,
                    compress::model_card(model, *models::open_model(writer.folder()),
                                         card_of(model, start, texts, options, recipe)));
  std::filesystem::remove(state);  // only now: until here nothing of an interrupted job is lost
  writer.commit();
}

}  // namespace nibble::tune
