#pragma once

#include <cstdint>
#include <vector>

#include "core/threads.h"
#include "tune/adamw_step.h"
#include "tune/parameter.h"

namespace nibble::tune {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;  // of parameters that decay
  double clip = 1.0;          // the norm of all gradients together is at most this; 0: any
};

/// Step number `steps`, from 1, for a parameter, where all gradients together have this norm.
AdamWStep step_of(const AdamWOptions& options, const Parameter& parameter, double learning_rate,
                  std::int64_t steps, double norm);

/// Adam with decoupled weight decay and bias correction (arXiv 1711.05101, algorithm 2; 1412.6980,
/// section 3). The same bits for any number of threads.
class AdamW {
 public:
  /// `parameters` must outlive this and keep their sizes.
  AdamW(const Parameters& parameters, const AdamWOptions& options, core::ThreadPool& pool);

  /// Moves all parameters by their gradients, clipped together, and empties these. Returns the norm
  /// that the gradients had.
  double step(double learning_rate);

  std::int64_t steps() const { return steps_; }

  /// For each parameter: means of its gradients and of their squares, as many as it has values.
  struct Moments {
    std::vector<float> first;
    std::vector<float> second;
  };
  const std::vector<Moments>& moments() const { return moments_; }

  /// Goes on from there. Throws kFailed for moments of other sizes.
  void restore(std::int64_t steps, std::vector<Moments> moments);

  /// Bytes for so many parameters: values, gradients and moments, of float32 each.
  static constexpr std::int64_t kBytesPerValue = 16;

 private:
  const Parameters& parameters_;
  AdamWOptions options_;
  core::ThreadPool& pool_;
  std::int64_t steps_ = 0;
  std::vector<Moments> moments_;
};

}  // namespace nibble::tune
