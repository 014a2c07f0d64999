#include "compress/calibration/calibration.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "models/forward.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using ops::cpu::CpuOps;
using ops::cpu::KvCache;

constexpr std::int64_t kSampledLength = 512;  // tokens of a window that the model writes
constexpr std::int64_t kBatch = 16;           // windows written together

std::int64_t window_length(const models::Model& model, const CalibrationOptions& options) {
  core::require(options.seq_len >= 1 && options.samples >= 1, ErrorKind::kUsage,
                "calibration needs at least one sample of one token, got {} of {}", options.samples,
                options.seq_len);
  return std::min(options.seq_len, model.network.config.max_positions);
}

// One draw from softmax(logits).
std::int32_t draw(const float* logits, std::int64_t count, core::Random& random) {
  const float largest = *std::max_element(logits, logits + count);
  core::require(std::isfinite(largest), ErrorKind::kFailed,
                "the model computes NaN or infinite logits; its weights may be damaged");
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    total += std::exp(static_cast<double>(logits[i] - largest));
  }
  double rest = random.uniform() * total;
  for (std::int64_t i = 0; i < count; ++i) {
    rest -= std::exp(static_cast<double>(logits[i] - largest));
    if (rest < 0) {
      return static_cast<std::int32_t>(i);
    }
  }
  return static_cast<std::int32_t>(count - 1);
}

// Windows of equal length, written one token at a time by the whole batch.
class Writer {
 public:
  Writer(const models::Model& model, CpuOps& ops, std::int64_t windows, std::int64_t length,
         std::int32_t start)
      : model_(model), ops_(ops), length_(length) {
    const models::NetworkConfig& config = model.network.config;
    for (std::int64_t i = 0; i < windows; ++i) {
      caches_.push_back(std::make_unique<KvCache>(ops::KvType::kF32, config.layers, config.kv_heads,
                                                  config.head_dim, length));
      windows_.push_back({start});
    }
  }

  CalibrationWindows write(core::Random& random, core::ProgressSink& progress) {
    std::vector<std::int32_t> tokens(windows_.size());
    std::vector<std::int32_t> positions(windows_.size());
    std::vector<std::int32_t> rows(windows_.size());
    for (std::int64_t position = 0; position + 1 < length_; ++position) {
      std::vector<ops::SequenceSlice<KvCache>> slices;
      for (std::size_t i = 0; i < windows_.size(); ++i) {
        tokens[i] = windows_[i].back();
        positions[i] = static_cast<std::int32_t>(position);
        rows[i] = static_cast<std::int32_t>(i);
        slices.push_back({caches_[i].get(), position, static_cast<std::int64_t>(i), 1});
      }
      const models::Batch<CpuOps> batch{tokens, positions, slices};
      const auto logits = models::forward(ops_, model_.network, batch, rows);
      for (std::size_t i = 0; i < windows_.size(); ++i) {
        windows_[i].push_back(
            draw(logits.row(static_cast<std::int64_t>(i)), logits.columns(), random));
      }
      progress.update(position + 1, "");
    }
    return std::move(windows_);
  }

 private:
  const models::Model& model_;
  CpuOps& ops_;
  std::int64_t length_;
  std::vector<std::unique_ptr<KvCache>> caches_;
  CalibrationWindows windows_;
};

std::int32_t start_token(const models::Model& model) {
  const models::NetworkConfig& config = model.network.config;
  if (const auto bos = model.tokenizer->bos()) {
    return *bos;
  }
  if (!config.bos.empty()) {
    return config.bos.front();
  }
  return config.eos.empty() ? 0 : config.eos.front();
}

}  // namespace

CalibrationWindows read_calibration(const models::Model& model, const CalibrationOptions& options) {
  const std::int64_t length = window_length(model, options);
  std::vector<std::vector<std::int32_t>> texts;
  for (const CalibrationText& text : options.texts) {
    texts.push_back(model.tokenizer->encode(*text, {}));
  }
  CalibrationWindows windows;
  bool found = true;
  for (std::int64_t round = 0; found && static_cast<std::int64_t>(windows.size()) < options.samples;
       ++round) {
    found = false;
    for (const auto& tokens : texts) {
      const bool whole = (round + 1) * length <= static_cast<std::int64_t>(tokens.size());
      if (whole && static_cast<std::int64_t>(windows.size()) < options.samples) {
        windows.emplace_back(tokens.begin() + round * length,
                             tokens.begin() + (round + 1) * length);
        found = true;
      }
    }
  }
  core::require(
      !windows.empty(), ErrorKind::kUsage,
      "the calibration text has fewer than {} tokens; give more text or a smaller --seq-len",
      length);
  return windows;
}

CalibrationWindows sample_calibration(const models::Model& model, const CalibrationOptions& options,
                                      core::ProgressSink& progress) {
  const std::int64_t length = std::min(window_length(model, options), kSampledLength);
  const std::int64_t samples =
      std::clamp<std::int64_t>(kSampledTokens / length, 1, options.samples);
  CpuOps ops({options.threads, ops::ActivationPrecision::kFloat});
  core::Random random(options.seed);
  CalibrationWindows windows;
  for (std::int64_t begin = 0; begin < samples; begin += kBatch) {
    const std::int64_t count = std::min(kBatch, samples - begin);
    progress.begin(fmt::format("sample calibration text {}/{}", begin / kBatch + 1,
                               (samples + kBatch - 1) / kBatch),
                   length - 1);
    for (auto& window :
         Writer(model, ops, count, length, start_token(model)).write(random, progress)) {
      windows.push_back(std::move(window));
    }
    progress.end();
  }
  return windows;
}

}  // namespace nibble::compress
