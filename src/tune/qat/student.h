#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compress/block/compressed_block.h"
#include "compress/recipe/recipe.h"
#include "models/network.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/gradient/parameter_gradients.h"
#include "tune/parameter.h"
#include "tune/qat/pruning.h"

namespace nibble::tune {

/// A model whose float numbers are trained while it runs with them as a recipe rounds them:
/// weights, biases and norms of all blocks, and those of the head that labels texts. Embeddings
/// stay, and what stands behind a decoder. The network's layers are packed weights, rounded to
/// nearest anew for each step, and computed by the kernels that will run them: what is trained is
/// the compressed model itself, and the gradient at its weights passes straight through the
/// rounding to the float ones (arXiv 2301.12017, section 3). Layers that the recipe leaves alone
/// are trained in the type that they are stored in. Does not move.
class Student {
 public:
  /// `ops` computes in float (ActivationPrecision::kFloat) and outlives this; it holds the layouts
  /// of the student's layers and of no other model's. Pruned are weights that a scheme rounds. By
  /// movement, their scores are parameters too.
  Student(const models::Network& original, const compress::Recipe& recipe, const Pruning& pruning,
          ops::cpu::CpuOps& ops);
  Student(const Student&) = delete;
  Student& operator=(const Student&) = delete;

  const models::Network& network() const { return network_; }
  Parameters& parameters() { return parameters_; }
  /// Where backward passes through the network leave what optimizers read.
  const ops::gradient::ParameterGradients& gradients() const { return gradients_; }
  /// A weight that is trained, and how its layer stores it.
  struct Weight {
    Parameter* parameter = nullptr;
    ops::Linear* layer = nullptr;
    formats::Scheme scheme;
    bool prunes = false;
    Parameter* scores = nullptr;  // by movement
  };
  std::span<const Weight> weights() const { return weights_; }
  /// A bias, or the weight or bias of a norm.
  struct Vector {
    Parameter* parameter;
    std::vector<float>* values;
  };
  std::span<const Vector> vectors() const { return vectors_; }
  bool prunes() const { return pruning_.any(); }

  /// The schemes of the layers that are compressed, by prefix.
  const std::map<std::string, formats::Scheme>& schemes() const { return schemes_; }

  /// Makes the network of the parameters as they are now.
  void round();

  /// Between backward passes and the optimizer's step, where pruning is by movement: the gradient
  /// of a score is that of its weight times the weight, and weights that are pruned do not move.
  void share_gradients();

  /// The network as what a checkpoint stores of it, a value for each block. The last one also has
  /// the head.
  std::vector<compress::CompressedBlock> compressed() const;

 private:
  void add(ops::LinearSet& set, bool prunes);
  void add_scores(Weight& weight);
  void prune_rows(const Weight& weight, std::span<float> values) const;
  void add(ops::Norm& norm);
  void add_vector(const std::string& name, std::vector<float>& values);
  std::vector<ops::LinearSet*> head_sets();

  ops::cpu::CpuOps& ops_;
  Pruning pruning_;
  models::Network network_;
  std::map<std::string, formats::Scheme> schemes_;
  Parameters parameters_;
  ops::gradient::ParameterGradients gradients_;
  std::vector<Weight> weights_;
  std::vector<Vector> vectors_;
  std::vector<ops::LinearSet*> sets_;
};

}  // namespace nibble::tune
