#include "tune/tune_network.h"

#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "io/file_descriptor.h"
#include "tune/learning_rate.h"

namespace nibble::tune {
namespace {

// The mean loss of the windows that judge.
double judge(ModelTrainer& trainer, const WindowBatches& windows) {
  double sum = 0;
  std::int64_t count = 0;
  for (const auto& batch : windows.judges()) {
    sum += trainer.loss(batch, std::ssize(batch), false) * static_cast<double>(batch.size());
    count += std::ssize(batch);
  }
  return sum / static_cast<double>(count);
}

}  // namespace

std::map<std::string, formats::PackedWeight> tune_network(
    const models::Network& compressed, const models::Network& teacher, const WindowBatches& windows,
    const TuningOptions& options, TuningDevice& device, const std::filesystem::path& state,
    LossCurve& curve, core::ProgressSink& progress, ModelGain& gain) {
  const auto trainer = device.make_model_trainer(compressed, teacher, windows, options);
  const std::int64_t steps = windows.steps() * options.model.epochs;
  const LearningRate rate{options.model.learning_rate, Decay::kCosine, steps, steps / 20, 0.05};
  progress.begin("the whole model: e2e-oqp", steps);
  if (const auto more = trainer->load(state, steps)) {
    const std::string where = io::shown(state).str();
    curve.resume(core::get_integer(*more, "curve", where, trainer->steps(), LossCurve::kMostSteps));
    const auto before = core::find_number(*more, "before", where);
    core::require(before.has_value(), core::ErrorKind::kInvalidModel,
                  "{} does not say what the model was before", io::shown(state));
    gain.before = *before;
    progress.skip(trainer->steps());
  } else {
    gain.before = judge(*trainer, windows);
  }
  const auto save = [&] {
    curve.save();  // first: resume() drops lines behind the state, and cannot make up for missing
                   // ones
    trainer->save(state, {{"curve", curve.steps()}, {"before", gain.before}});
  };
  while (trainer->steps() < steps) {
    const std::int64_t step = trainer->steps();
    const std::int64_t epoch = step / windows.steps();
    const auto steps_of_epoch = windows.epoch(epoch, options.seed);
    const auto& own = steps_of_epoch[static_cast<std::size_t>(step % windows.steps())];
    double loss = 0;
    for (const auto& batch : windows.batches(own)) {
      loss += trainer->loss(batch, std::ssize(own), true);
    }
    const double norm = trainer->step(loss, rate.at(step));
    curve.add({"e2e-oqp", 0, epoch + 1, step + 1, loss, rate.at(step), norm});
    progress.update(step + 1, fmt::format("loss {:.5f}", loss));
    if ((step + 1) % options.checkpoint == 0 || step + 1 == steps) {
      save();
    }
  }
  progress.end();
  gain.after = judge(*trainer, windows);
  if (!(gain.after < gain.before)) {
    return {};
  }
  return trainer->result();
}

}  // namespace nibble::tune
