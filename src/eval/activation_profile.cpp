#include "eval/activation_profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "models/forward.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::eval {
namespace {

using core::ErrorKind;
using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::Matrix;

// Where a layer stands.
struct LayerPlace {
  std::size_t block = 0;
  int set = -1;
  std::int64_t k = 0;
};

LayerPlace place_of(const models::Network& network, const std::string& layer) {
  for (std::size_t b = 0; b < network.decoder.blocks.size(); ++b) {
    for (const ops::LinearSet* set : models::linear_sets(network.decoder.blocks[b])) {
      if (std::any_of(set->parts.begin(), set->parts.end(),
                      [&](const ops::Linear& part) { return part.name == layer; })) {
        return {b, set->id, set->k()};
      }
    }
  }
  core::fail(ErrorKind::kUsage, "the model has no layer '{}' in its blocks",
             core::printable(layer));
}

void add(ActivationProfile& profile, const Matrix& x) {
  profile.tokens += x.rows();
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    const float* row = x.row(i);
    for (std::size_t channel = 0; channel < profile.channel_maximum.size(); ++channel) {
      float& maximum = profile.channel_maximum[channel];
      maximum = std::max(maximum, std::abs(row[channel]));
      profile.histogram.add(row[channel]);
    }
  }
}

// The first `blocks` blocks on one window.
void run_blocks(CpuOps& ops, const models::Network& network, std::size_t blocks,
                std::span<const std::int32_t> window) {
  std::vector<std::int32_t> positions(window.size());
  std::iota(positions.begin(), positions.end(), 0);
  const ops::SequenceSlice<KvCache> alone{nullptr, 0, 0, static_cast<std::int64_t>(window.size())};
  const models::Batch<CpuOps> batch{window, positions, {&alone, 1}};
  Matrix x = models::embed(ops, network, batch);
  models::Pending<CpuOps> pending;
  for (std::size_t b = 0; b < blocks; ++b) {
    pending =
        models::run_block(ops, network.config, network.decoder.norms, network.decoder.blocks[b],
                          static_cast<std::int64_t>(b), batch, x, pending);
  }
}

}  // namespace

ActivationProfile profile_activations(const models::Model& model, const std::string& layer,
                                      std::span<const std::int32_t> tokens,
                                      const ActivationOptions& options,
                                      core::ProgressSink& progress) {
  const models::Network& network = model.network;
  const LayerPlace place = place_of(network, layer);
  const auto seq_len = static_cast<std::size_t>(options.seq_len);
  const std::size_t used =
      options.max_tokens > 0 ? std::min(tokens.size(), static_cast<std::size_t>(options.max_tokens))
                             : tokens.size();
  core::require(options.seq_len > 0 && used >= seq_len, ErrorKind::kUsage,
                "the text has {} tokens, fewer than one window of {}; give more text or a smaller "
                "--seq-len",
                used, options.seq_len);
  CpuOps ops({options.threads, ops::ActivationPrecision::kFloat});
  for (std::size_t b = 0; b <= place.block; ++b) {
    for (const ops::LinearSet* set : models::linear_sets(network.decoder.blocks[b])) {
      ops.prepare(*set);
    }
  }
  ActivationProfile profile;
  profile.channel_maximum.resize(static_cast<std::size_t>(place.k));
  ops.set_observer([&](const ops::LinearSet& set, const Matrix& x) {
    if (set.id == place.set) {
      add(profile, x);
    }
  });
  const std::size_t windows = used / seq_len;
  progress.begin("activations", static_cast<std::int64_t>(windows));
  for (std::size_t i = 0; i < windows; ++i) {
    run_blocks(ops, network, place.block + 1, tokens.subspan(i * seq_len, seq_len));
    progress.update(static_cast<std::int64_t>(i) + 1, "");
  }
  progress.end();
  return profile;
}

std::vector<std::int64_t> outlier_channels(const ActivationProfile& profile, float threshold) {
  std::vector<std::int64_t> channels;
  const auto maximum = [&](std::int64_t channel) {
    return profile.channel_maximum[static_cast<std::size_t>(channel)];
  };
  for (std::int64_t channel = 0; std::cmp_less(channel, profile.channel_maximum.size());
       ++channel) {
    if (maximum(channel) >= threshold) {
      channels.push_back(channel);
    }
  }
  std::stable_sort(channels.begin(), channels.end(),
                   [&](std::int64_t a, std::int64_t b) { return maximum(a) > maximum(b); });
  return channels;
}

}  // namespace nibble::eval
