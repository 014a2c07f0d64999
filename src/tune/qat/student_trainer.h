#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "device/place.h"
#include "models/network.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/gradient/product_precision.h"
#include "tune/adamw.h"
#include "tune/qat/student.h"
#include "tune/qat/student_loss.h"

namespace nibble::tune {

/// Trains a student on a device.
class StudentTrainer {
 public:
  virtual ~StudentTrainer() = default;

  /// The loss of a batch, times its share: of all batches of a step, the sum is the loss of the
  /// step. Its gradient is added up.
  virtual LossTerms pass_back(std::span<const LabelledText* const> texts,
                              const BatchShare& share) = 0;

  /// Moves the parameters by their gradients, and rounds anew. Returns the norm of the gradients.
  /// Throws as require_finite().
  virtual double step(double loss, double learning_rate) = 0;
  virtual std::int64_t steps() const = 0;

  /// Makes the student that of the parameters as they are now; until then it may be older.
  virtual void settle() = 0;

  virtual void save(const std::filesystem::path& state) = 0;
  /// Whether there was a state, which training goes on from. Throws as load_training().
  virtual bool load(const std::filesystem::path& state, std::int64_t most_steps) = 0;

  /// Of the device: for each number that is trained.
  virtual std::int64_t bytes_per_value() const = 0;
};

/// What a student learns from. All outlive its trainer.
struct StudentTask {
  const models::Network& teacher;
  Student& student;
  std::vector<std::int64_t> layers;  // Distillation's
  LossWeights loss;
  AdamWOptions optimizer;
  ops::cpu::CpuOps& teacher_ops;
  ops::cpu::CpuOps& student_ops;
};

/// Throws kUsage, naming the reason, for what is trained on a CPU alone: all but decoders without
/// pruning and without the terms of attention, in the schemes of require_trainable(), whose
/// activations stay floats or become integers.
void require_trained_on_gpu(const models::Network& network, const compress::Recipe& recipe,
                            const Pruning& pruning, const LossWeights& loss);

/// Throws kUsage where there is no such GPU.
std::unique_ptr<StudentTrainer> make_student_trainer(const StudentTask& task,
                                                     const device::Place& place,
                                                     ops::gradient::ProductPrecision precision);

namespace cuda {

/// The same on a GPU, of what require_trained_on_gpu() lets pass.
std::unique_ptr<StudentTrainer> make_cuda_student_trainer(
    const StudentTask& task, int gpu, ops::gradient::ProductPrecision precision);

}  // namespace cuda

}  // namespace nibble::tune
