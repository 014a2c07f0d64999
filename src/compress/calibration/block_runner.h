#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compress/backend/backend.h"
#include "compress/calibration/calibration_inputs.h"
#include "compress/calibration/output_curvature.h"
#include "compress/calibration/statistics.h"
#include "compress/calibration/window_store.h"
#include "models/network.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// What to measure at a block.
struct Observation {
  StatisticsKind kind = StatisticsKind::kNone;
  std::optional<int> set;                   // only the inputs of this set; else of all
  const models::Block* original = nullptr;  // kCross: the block before anything was rounded
  const std::map<int, SetCurvature>* curvature = nullptr;  // its token weights, where there are any
  bool magnitudes = false;  // count magnitudes of inputs too; on a CPU
};

/// Tokens that a mean needs; and those of the windows that run together on a GPU.
inline constexpr std::int64_t kMeanTokens = 4096;

/// The mean row of x [m, k], added up in double precision.
std::vector<float> mean_row(std::span<const float> x, std::int64_t m, std::int64_t k);

/// How much of the last states of a model is left where its blocks are compressed.
struct StateDamage {
  double cosine = 0;           // mean over all tokens
  double signal_to_noise = 0;  // dB: squares of the original's states over those of the differences
};

/// The calibration windows (packs of texts, where the model has an encoder) on their way through
/// the model, one block at a time, the encoder's blocks first. Activations are float32 but where a
/// scheme quantizes them: those of a compressed block are then quantized as they will be when the
/// model runs.
class BlockRunner {
 public:
  /// Called before a window runs through a block, with its number. `layer` counts the blocks of all
  /// stacks.
  using OnWindow = std::function<void(std::size_t window)>;

  virtual ~BlockRunner() = default;
  void set_on_window(OnWindow on_window) { on_window_ = std::move(on_window); }

  /// Whether the windows go through the original model too, beside the compressed one.
  virtual bool keeps_original() const = 0;

  /// Statistics of the inputs of the sets of `block`, by set id. The windows stay where they are.
  virtual std::map<int, InputStatistics> observe(std::int64_t layer, const models::Block& block,
                                                 const Observation& observation) = 0;

  /// Statistics of the inputs of the output layer, behind the final norm, when the windows have
  /// gone through all blocks. Of `observation` neither set nor original are read.
  virtual InputStatistics observe_output(const Observation& observation) = 0;

  /// The mean of what `norm`, or null: nothing, makes of the windows as they are: [hidden]. Of the
  /// first windows that have kMeanTokens tokens together, but at least one.
  virtual std::vector<float> mean_input(const ops::Norm* norm) = 0;

  /// The last states beside those of the original model, where both are kept, when the windows have
  /// gone through all blocks; nothing where this is not measured.
  virtual std::optional<StateDamage> damage() { return std::nullopt; }

  /// Moves the windows through `block`, and those of the original model, where they are kept,
  /// through `original`.
  virtual void advance(std::int64_t layer, const models::Block& block,
                       const models::Block& original) = 0;

 protected:
  OnWindow on_window_ = [](std::size_t) {};
};

/// On the backend's GPU, where it has one, else on the CPU; hidden states lie in the memory of what
/// they run on. `keeps_original`: the windows also go through the original model beside the
/// compressed one. `spill`: on a CPU they lie in a file in that folder. Throws kUsage for layers of
/// `schemes`, by layer prefix, and models that a GPU cannot calibrate, kOutOfMemory where the
/// windows do not fit.
std::unique_ptr<BlockRunner> make_block_runner(
    const Backend& backend, const models::Network& network, CalibrationInputs inputs,
    ops::cpu::CpuOps& ops, bool keeps_original, const std::optional<std::filesystem::path>& spill,
    const std::map<std::string, formats::Scheme>& schemes);

/// On the CPU's threads.
class CpuBlockRunner final : public BlockRunner {
 public:
  /// Embeds what the first stack reads. `keeps_original`: it also goes through the original model
  /// beside it. `spill`: hidden states lie in a file in that folder, else in memory.
  CpuBlockRunner(const models::Network& network, CalibrationInputs inputs, ops::cpu::CpuOps& ops,
                 bool keeps_original, const std::optional<std::filesystem::path>& spill);

  bool keeps_original() const override { return original_.has_value(); }
  std::map<int, InputStatistics> observe(std::int64_t layer, const models::Block& block,
                                         const Observation& observation) override;
  InputStatistics observe_output(const Observation& observation) override;
  std::vector<float> mean_input(const ops::Norm* norm) override;
  std::optional<StateDamage> damage() override;
  /// Behind the encoder's last block the decoder's inputs take their place beside its states.
  void advance(std::int64_t layer, const models::Block& block,
               const models::Block& original) override;

 private:
  // Hidden states of one model.
  struct Stream {
    WindowStore hidden;                 // one [tokens, hidden] for each pack of the stack
    std::optional<WindowStore> states;  // of the encoder, where the stack is a decoder behind one
  };

  bool in_encoder() const { return !inputs_.encoder.empty() && !behind_encoder_; }
  const models::Stack& stack() const { return in_encoder() ? network_.encoder : network_.decoder; }
  // What the stack reads.
  const std::vector<CalibrationPack>& packs() const {
    return in_encoder() ? inputs_.encoder : inputs_.decoder;
  }
  std::size_t tokens_of(std::size_t pack) const { return packs()[pack].tokens.size(); }
  Stream embed() const;
  void enter_decoder();
  // Moves x through the block, beside the encoder's states of the stream.
  void run(const models::Block& block, std::size_t pack, const Stream& stream, ops::cpu::Matrix& x);
  void move(const models::Block& block, std::size_t pack, Stream& stream);
  // The states behind the last block of all.
  ops::cpu::Matrix last_states(const Stream& stream, std::size_t pack);
  // The inputs of the block's sets, by set id, in the original model.
  std::map<int, ops::cpu::Matrix> original_inputs(std::size_t pack, const Observation& observation);

  const models::Network& network_;
  CalibrationInputs inputs_;
  ops::cpu::CpuOps& ops_;
  std::optional<std::filesystem::path> spill_;
  bool behind_encoder_ = false;  // the packs are in the decoder behind it
  Stream stream_;
  std::optional<Stream> original_;  // the same in the original model, when it is kept
};

}  // namespace nibble::compress
