#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/runner.h"
#include "models/model.h"

namespace nibble::eval {

/// A step of a model: texts of random tokens, all at once.
class ModelStep {
 public:
  virtual ~ModelStep() = default;
  /// Logits of every token that a decoder reads or is given to write, states of every token of an
  /// encoder, row-major.
  virtual std::vector<float> outputs() = 0;
  /// The step as a user runs it: logits of each text's last token, labels, or states; of an
  /// encoder-decoder: texts are read, and as many tokens written, one after another.
  virtual void run() = 0;
};

/// `batch` texts of `seq` tokens, the same for models of one shape. Throws kUsage for texts that
/// are longer than the model was made for; as engine::make_runner.
std::unique_ptr<ModelStep> make_model_step(const std::shared_ptr<const models::Model>& model,
                                           std::int64_t batch, std::int64_t seq,
                                           const engine::RunnerOptions& runner);

/// The median time of run(), in microseconds.
double step_microseconds(ModelStep& step);

}  // namespace nibble::eval
