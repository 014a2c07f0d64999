#include "tune/qat/student_trainer.h"

#include "compress/recipe/layer_schemes.h"
#include "core/error.h"
#include "core/json.h"
#include "ops/gradient/rounded_input.h"
#include "tune/group_scales.h"
#include "tune/qat/distillation.h"
#include "tune/training_state.h"

namespace nibble::tune {
namespace {

class CpuStudentTrainer final : public StudentTrainer {
 public:
  explicit CpuStudentTrainer(const StudentTask& task)
      : student_(task.student),
        distillation_(task.teacher, task.teacher_ops, task.student.network(), task.student_ops,
                      task.loss, task.layers),
        optimizer_(task.student.parameters(), task.optimizer, task.student_ops.pool()) {}

  LossTerms pass_back(std::span<const LabelledText* const> texts,
                      const BatchShare& share) override {
    return distillation_.step(texts, student_.gradients(), share);
  }

  double step(double loss, double learning_rate) override {
    student_.share_gradients();
    require_finite(loss, student_.parameters(), steps() + 1);
    const double norm = optimizer_.step(learning_rate);
    student_.round();
    return norm;
  }
  std::int64_t steps() const override { return optimizer_.steps(); }

  void settle() override {}

  void save(const std::filesystem::path& state) override {
    save_training(state, student_.parameters(), optimizer_, core::Json::object());
  }
  bool load(const std::filesystem::path& state, std::int64_t most_steps) override {
    const bool stored =
        load_training(state, most_steps, student_.parameters(), optimizer_).has_value();
    if (stored) {
      student_.round();
    }
    return stored;
  }

  std::int64_t bytes_per_value() const override { return AdamW::kBytesPerValue; }

 private:
  Student& student_;
  Distillation distillation_;
  AdamW optimizer_;
};

}  // namespace

void require_trained_on_gpu(const models::Network& network, const compress::Recipe& recipe,
                            const Pruning& pruning, const LossWeights& loss) {
  core::require(network.has_decoder() && !network.has_encoder(), core::ErrorKind::kUsage,
                "on a GPU qat trains decoders; leave --device out");
  core::require(!loss.needs_scores(), core::ErrorKind::kUsage,
                "on a GPU the loss of qat has no attention and no scores: give --kd without them "
                "(labels=0.5,logits=1,hidden=1), or leave --device out");
  core::require(!pruning.any(), core::ErrorKind::kUsage,
                "on a GPU qat does not prune; leave --device out");
  for (const auto& [layer, scheme] : compress::layer_schemes(network, recipe)) {
    require_trainable(scheme);
    ops::gradient::require_rounded_on_gpu(layer, scheme.activation);
  }
}

std::unique_ptr<StudentTrainer> make_student_trainer(const StudentTask& task,
                                                     const device::Place& place,
                                                     ops::gradient::ProductPrecision precision) {
  if (place.on_gpu()) {
    return cuda::make_cuda_student_trainer(task, place.index, precision);
  }
  return std::make_unique<CpuStudentTrainer>(task);
}

}  // namespace nibble::tune
