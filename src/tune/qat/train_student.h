#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "compress/recipe/recipe.h"
#include "core/progress.h"
#include "device/place.h"
#include "models/model.h"
#include "ops/gradient/product_precision.h"
#include "tune/adamw.h"
#include "tune/qat/fewer_layers.h"
#include "tune/qat/labelled_texts.h"
#include "tune/qat/pruning.h"
#include "tune/qat/student_loss.h"

namespace nibble::tune {

/// How a student is trained.
struct StudentOptions {
  compress::Recipe recipe;  // round to nearest
  Pruning pruning;
  LayerCounts layers;  // of the student: every_other_layer()
  LossWeights loss;
  std::int64_t epochs = 1;
  std::int64_t batch = 32;      // texts that are read at a time
  std::int64_t accumulate = 1;  // batches of a step
  double learning_rate = 1e-4;
  double warmup = 0.1;  // share of all steps; behind them the rate falls in even steps to 0
  AdamWOptions optimizer;
  std::uint64_t seed = 0;
  std::int64_t checkpoint = 200;  // steps between two checkpoints
  std::optional<std::filesystem::path> csv;
  int threads = 0;
  device::Place place;
  ops::gradient::ProductPrecision precision =
      ops::gradient::ProductPrecision::kBfloat16;  // on a GPU
};

/// The student as it is now, as a model that runs: what it is worth on data that it has not learned
/// from, as a line for the user.
using JudgeStudent = std::function<std::string(std::shared_ptr<const models::Model>)>;

/// quantize with training: trains a student of `model` (student.h), which is its teacher, of as
/// many layers or fewer (fewer_layers.h), and writes it as a compressed model folder. A step of
/// several batches is that of one batch of all their texts, up to rounding, in the memory of the
/// small ones. An interrupted call goes on from its last checkpoint with `resume`, and ends with
/// the same bits as one that was not interrupted. `judge` is called before the first step and
/// behind each epoch; it may be empty. Throws kUsage for models, recipes and options that this does
/// not serve, kIntegrity where another job lies in `target`, kFailed, naming the step and the
/// parameter, where the loss or a gradient is not finite.
void train_student(const models::Model& model, const std::vector<LabelledText>& texts,
                   const StudentOptions& options, const std::filesystem::path& target, bool resume,
                   const JudgeStudent& judge, core::ProgressSink& progress);

}  // namespace nibble::tune
