#include "compress/calibration/cuda_block_runner.h"

#include <algorithm>
#include <numeric>

#include "compress/backend/cuda/cuda_context.h"
#include "compress/calibration/cuda/forward_ops.h"
#include "compress/calibration/cuda/statistics_kernels.h"
#include "models/forward.h"

namespace nibble::compress::cuda {
namespace {

using core::ErrorKind;
using device::cuda::Buffer;
using Matrix = ForwardOps::Matrix;

constexpr std::int64_t kPanel = 1024;  // rows of a Hessian that one product updates
constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));

// Windows that run together.
struct Group {
  std::size_t first = 0;  // window
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> positions;
  std::vector<ops::SequenceSlice<ForwardOps::Cache>> slices;
};

std::vector<Group> group_windows(const CalibrationWindows& windows) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const auto length = static_cast<std::int64_t>(windows[i].size());
    if (groups.empty() || std::ssize(groups.back().tokens) + length > kMeanTokens) {
      groups.emplace_back().first = i;
    }
    Group& group = groups.back();
    group.slices.push_back({nullptr, 0, std::ssize(group.tokens), length});
    group.tokens.insert(group.tokens.end(), windows[i].begin(), windows[i].end());
    group.positions.resize(group.tokens.size());
    std::iota(group.positions.end() - length, group.positions.end(), 0);
  }
  return groups;
}

// InputStatistics that add up on the GPU.
class DeviceStatistics {
 public:
  DeviceStatistics(CudaContext& context, StatisticsKind kind, std::int64_t k)
      : context_(context),
        kind_(kind),
        k_(k),
        largest_(zeros<float>(k)),
        magnitude_(zeros<double>(k)),
        squares_(zeros<double>(k)),
        not_finite_(zeros<int>(1)) {
    if (kind >= StatisticsKind::kHessian) {
      hessian_ = zeros<float>(k * k);
    }
    if (kind >= StatisticsKind::kCross) {
      cross_ = zeros<float>(k * k);
    }
  }

  // `weights`: [m] on the device, or null; see InputStatistics::add.
  void add(ForwardOps& ops, const Matrix& x, const float* weights) {
    rows_ += x.rows();
    add_columns(x.data(), x.rows(), k_,
                {largest_.as<float>(), magnitude_.as<double>(), squares_.as<double>()},
                not_finite_.as<int>(), context_.stream());
    if (kind_ >= StatisticsKind::kHessian) {
      add_products(ops, x, x, weights, true, hessian_.as<float>());
    }
  }

  void add_cross(ForwardOps& ops, const Matrix& original, const Matrix& x, const float* weights) {
    add_products(ops, original, x, weights, false, cross_.as<float>());
  }

  InputStatistics finish() const {
    core::require(context_.values_of<int>(not_finite_).front() == 0, ErrorKind::kFailed, "{}",
                  InputStatistics::kNotFinite);
    InputStatistics::Sums sums;
    sums.rows = rows_;
    sums.largest = context_.values_of<float>(largest_);
    sums.magnitude = context_.values_of<double>(magnitude_);
    sums.squares = context_.values_of<double>(squares_);
    sums.hessian = context_.values_of<float>(hessian_);
    sums.cross = context_.values_of<float>(cross_);
    return InputStatistics(kind_, k_, std::move(sums));
  }

 private:
  template <typename T>
  Buffer zeros(std::int64_t count) const {
    Buffer buffer = CudaContext::room<T>(count);
    context_.zero(buffer);
    return buffer;
  }

  // sum += (weights a)^T b, all of it or the lower triangle by panels.
  void add_products(ForwardOps& ops, const Matrix& a, const Matrix& b, const float* weights,
                    bool lower, float* sum) const {
    const std::int64_t m = a.rows();
    Matrix weighed;
    if (weights != nullptr) {
      weighed = ops.matrix(m, k_);
      weigh_rows(a.data(), weights, m, k_, weighed.data(), context_.stream());
    }
    const float* const left = weights != nullptr ? weighed.data() : a.data();
    for (std::int64_t begin = 0; m > 0 && begin < k_; begin += kPanel) {
      const std::int64_t end = std::min(k_, begin + kPanel);
      context_.blas().multiply(end - begin, lower ? end : k_, m, 1.0f, {left + begin, k_, true},
                               {b.data(), k_}, 1.0f, {sum + begin * k_, k_});
    }
  }

  CudaContext& context_;
  StatisticsKind kind_;
  std::int64_t k_;
  std::int64_t rows_ = 0;
  Buffer largest_;
  Buffer magnitude_;
  Buffer squares_;
  Buffer not_finite_;
  Buffer hessian_;
  Buffer cross_;
};

// Says what to do when the memory of the GPU does not suffice.
template <typename Work>
auto with_advice(const Work& work) {
  try {
    return work();
  } catch (const core::Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) {
      throw;
    }
    core::fail(ErrorKind::kOutOfMemory,
               "{}; take fewer --samples or a shorter --seq-len, or use --device cpu",
               error.what());
  }
}

class CudaBlockRunner final : public BlockRunner {
 public:
  CudaBlockRunner(CudaContext& context, const models::Network& network,
                  const CalibrationWindows& windows, ops::cpu::CpuOps& cpu, bool keeps_original)
      : context_(context),
        network_(network),
        groups_(group_windows(windows)),
        ops_(context, cpu),
        keeps_original_(keeps_original) {
    for (const Group& group : groups_) {
      Matrix x = models::embed(ops_, network_, batch_of(group));
      hidden_.push_back(kept(x));
      if (keeps_original_) {
        original_.push_back(kept(x));
      }
    }
    ops_.release();
  }

  bool keeps_original() const override { return keeps_original_; }

  std::map<int, InputStatistics> observe(std::int64_t layer, const models::Block& block,
                                         const Observation& observation) override {
    return with_advice([&] { return observed(layer, block, observation); });
  }

  InputStatistics observe_output(const Observation& observation) override {
    return with_advice([&] {
      const int id = network_.output.id;
      DeviceStatistics statistics(context_, observation.kind, network_.output.k());
      std::size_t token = 0;
      for (std::size_t i = 0; i < groups_.size(); ++i) {
        on_window_(groups_[i].first);
        const Buffer weights = token_weights(observation, id, token, groups_[i]);
        const Matrix x = models::final_states(ops_, network_, loaded(hidden_[i]));
        statistics.add(ops_, x, weights.as<float>());
        if (observation.kind >= StatisticsKind::kCross) {
          statistics.add_cross(ops_, models::final_states(ops_, network_, loaded(original_[i])), x,
                               weights.as<float>());
        }
        token += groups_[i].tokens.size();
      }
      ops_.release();
      return statistics.finish();
    });
  }

  std::vector<float> mean_input(const ops::Norm* norm) override {
    return with_advice([&] {
      Matrix x = loaded(hidden_.front());
      if (norm != nullptr) {
        x = ops_.norm_matrix(x, *norm);
      }
      std::vector<float> rows(static_cast<std::size_t>(x.rows() * x.columns()));
      context_.download(x.data(), std::span(rows));
      ops_.release();
      return mean_row(rows, x.rows(), x.columns());
    });
  }

  void advance(std::int64_t layer, const models::Block& block,
               const models::Block& original) override {
    with_advice([&] {
      move(layer, block, hidden_);
      if (keeps_original_) {
        move(layer, original, original_);
      }
    });
  }

 private:
  // Hidden states that stay, apart from the pool of what comes and goes.
  struct Kept {
    Buffer values;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
  };

  static models::Batch<ForwardOps> batch_of(const Group& group) {
    return {group.tokens, group.positions, group.slices};
  }

  Kept kept(const Matrix& x) const {
    Kept result{CudaContext::room<float>(x.rows() * x.columns()), x.rows(), x.columns()};
    copy(x.data(), result.values.as<float>(), x.rows() * x.columns());
    return result;
  }

  Matrix loaded(const Kept& from) {
    Matrix x = ops_.matrix(from.rows, from.columns);
    copy(from.values.as<float>(), x.data(), x.rows() * x.columns());
    return x;
  }

  void copy(const float* from, float* to, std::int64_t count) const {
    device::cuda::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count * kFloat),
                                        cudaMemcpyDeviceToDevice, context_.stream()),
                        "cudaMemcpyAsync on the device");
  }

  // Of a group's tokens, `first` being its first among all; empty when all count alike.
  Buffer token_weights(const Observation& observation, int set, std::size_t first,
                       const Group& group) const {
    if (observation.curvature == nullptr || !observation.curvature->contains(set)) {
      return {};
    }
    const std::span all(observation.curvature->at(set).token_weights);
    return context_.copy_of(std::span<const float>(all.subspan(first, group.tokens.size())));
  }

  // Moves x through the block.
  void run(std::int64_t layer, const models::Block& block, const Group& group, Matrix& x) {
    models::move_through(ops_, network_.config, network_.decoder.norms, block, layer,
                         batch_of(group), x);
  }

  void move(std::int64_t layer, const models::Block& block, std::vector<Kept>& states) {
    ops_.load(block);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      on_window_(groups_[i].first);
      Matrix x = loaded(states[i]);
      run(layer, block, groups_[i], x);
      copy(x.data(), states[i].values.as<float>(), x.rows() * x.columns());
    }
    context_.wait();
    ops_.release();
  }

  std::map<int, InputStatistics> observed(std::int64_t layer, const models::Block& block,
                                          const Observation& observation) {
    std::map<int, DeviceStatistics> sums;
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      if (!observation.set || set->id == *observation.set) {
        sums.try_emplace(set->id, context_, observation.kind, set->k());
      }
    }
    const bool compares = observation.kind >= StatisticsKind::kCross;
    ops_.load(block);
    std::optional<ForwardOps> original_ops;  // with the layers of the original
    if (compares) {
      original_ops.emplace(context_, ops_.cpu());
      original_ops->load(*observation.original);
    }
    std::size_t token = 0;  // of all windows, where this group begins
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Group& group = groups_[i];
      on_window_(group.first);
      std::map<int, Matrix> originals;
      if (compares) {
        originals = original_inputs(*original_ops, layer, i, observation);
      }
      ops_.set_observer([&](const ops::LinearSet& set, const Matrix& input) {
        const auto found = sums.find(set.id);
        if (found == sums.end()) {
          return;
        }
        const Buffer weights = token_weights(observation, set.id, token, group);
        found->second.add(ops_, input, weights.as<float>());
        if (compares) {
          found->second.add_cross(ops_, originals.at(set.id), input, weights.as<float>());
        }
      });
      Matrix x = loaded(hidden_[i]);
      run(layer, block, group, x);
      ops_.set_observer(nullptr);
      token += group.tokens.size();
    }
    context_.wait();
    ops_.release();
    std::map<int, InputStatistics> statistics;
    while (!sums.empty()) {
      const auto first = sums.begin();
      statistics.emplace(first->first, first->second.finish());
      sums.erase(first);
    }
    return statistics;
  }

  // The inputs of the block's sets, by set id, in the original model.
  std::map<int, Matrix> original_inputs(ForwardOps& ops, std::int64_t layer, std::size_t group,
                                        const Observation& observation) {
    std::map<int, Matrix> inputs;
    ops.set_observer([&](const ops::LinearSet& set, const Matrix& input) {
      if (!observation.set || set.id == *observation.set) {
        inputs.insert_or_assign(set.id, ops.copy(input));
      }
    });
    Matrix x = loaded(original_[group]);
    models::run_block(ops, network_.config, network_.decoder.norms, *observation.original, layer,
                      batch_of(groups_[group]), x, {});
    ops.set_observer(nullptr);
    return inputs;
  }

  CudaContext& context_;
  const models::Network& network_;
  std::vector<Group> groups_;
  ForwardOps ops_;
  bool keeps_original_;
  std::vector<Kept> hidden_;    // one for each group, [tokens, hidden]
  std::vector<Kept> original_;  // the same in the original model, when it is kept
};

std::int64_t most_tokens(const CalibrationWindows& windows) {
  std::int64_t most = 0;
  for (const Group& group : group_windows(windows)) {
    most = std::max(most, std::ssize(group.tokens));
  }
  return most;
}

// Bytes that a block takes on the GPU at the most, without hidden states: its weights in float32,
// activations of the windows that run together, Hessians and one of them being factored.
std::int64_t block_gpu_memory(const models::Network& network, const CalibrationWindows& windows,
                              bool keeps_original) {
  const std::int64_t tokens = most_tokens(windows);
  const std::int64_t streams = keeps_original ? 2 : 1;
  constexpr std::int64_t kFactor = 28;  // two float32 and two float64 copies, and one to spare
  std::int64_t most = 0;
  for (const models::Block& block : network.decoder.blocks) {
    std::int64_t weights = 0;
    std::int64_t values = 2 * network.config.hidden;
    std::int64_t hessians = 0;
    std::int64_t widest = 0;
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      weights += set->n() * set->k();
      values += set->n() + set->k();
      hessians += set->k() * set->k();
      widest = std::max(widest, set->k());
    }
    const std::int64_t forward = kFloat * streams * (weights + tokens * values + hessians);
    most = std::max({most, forward, kFactor * widest * widest});
  }
  return most;
}

}  // namespace

std::unique_ptr<BlockRunner> make_cuda_block_runner(CudaContext& context,
                                                    const models::Network& network,
                                                    const CalibrationWindows& windows,
                                                    ops::cpu::CpuOps& cpu, bool keeps_original) {
  const std::int64_t block = block_gpu_memory(network, windows, keeps_original);
  const std::int64_t streams = keeps_original ? 2 : 1;
  std::int64_t tokens = 0;
  for (const auto& window : windows) {
    tokens += std::ssize(window);
  }
  const std::int64_t states = kFloat * streams * tokens * network.config.hidden;
  const std::int64_t free = context.free_bytes();
  const std::int64_t fitting = states == 0 ? 0 : (free - block) / (states / std::ssize(windows));
  const auto gigabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  core::require(block + states <= free, ErrorKind::kOutOfMemory,
                "the GPU has {:.1f} GB free, and about {:.1f} GB are needed, {:.1f} GB of them for "
                "the hidden "
                "states of {} windows; {}use --device cpu",
                gigabytes(free), gigabytes(block + states), gigabytes(states), windows.size(),
                core::lazily([&] {
                  return fitting > 0 ? fmt::format("take --samples {}, or ", fitting) : "";
                }));
  return std::make_unique<CudaBlockRunner>(context, network, windows, cpu, keeps_original);
}

}  // namespace nibble::compress::cuda
