#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ops/cpu/linear/linear_input.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/sparse/sparse_streams.h"
#include "ops/cpu_options.h"
#include "ops/layers.h"
#include "ops/linear_kernel.h"
#include "ops/linear_problem.h"

namespace nibble::ops::cpu {

/// A layer on a CPU.
struct LayerProblem {
  LinearProblem linear;
  ActivationPrecision activations = ActivationPrecision::kInt8;
  bool prepared = true;            // layouts are made of compressed weights
  const Variant* named = nullptr;  // by NIBBLE_ISA; null: the fastest that runs here
};

/// Whether the layer's inputs become codes of 16 bits, two rows of digits each.
inline bool takes_wide_codes(ActivationPrecision activations, const formats::Scheme& scheme) {
  return activations == ActivationPrecision::kInt16 && scheme.activation.is_float() &&
         (has_layout(scheme) || (formats::is_block_sparse(scheme) && formats::has_codes(scheme)));
}

struct LinearKernel;

/// What a kernel reads in the place of a stored weight: tiles, another weight, or streams of
/// block-sparse rows; nothing where it reads the weight as it is stored.
using LayerForm = std::variant<std::monostate, PackedLinear, formats::PackedWeight, SparseStreams>;

/// A layer in the form that its kernel reads.
struct PreparedLayer {
  LayerForm form;
  InputNeeds needs;  // with a form: how it wants its input
  const LinearKernel* kernel = nullptr;

  bool has_own_form() const { return form.index() != 0; }
  std::int64_t bytes() const;
};

/// A layer whose form is a PackedLinear.
PreparedLayer prepared_tiles(PackedLinear tiles);

/// The forms of layers that all have a T.
template <class T>
std::vector<const T*> forms_of(std::span<const PreparedLayer> layers) {
  std::vector<const T*> forms;
  for (const PreparedLayer& layer : layers) {
    forms.push_back(&std::get<T>(layer.form));
  }
  return forms;
}

/// Layers that stand side by side, of one kernel and with equal needs: one of them, or several that
/// have forms of their own. They write y [m, n_0 + n_1 + ...], rows ldy apart.
struct LinearCall {
  LinearInput& x;
  std::span<const Linear> parts;
  std::span<const PreparedLayer> layers;
  float* y = nullptr;
  std::int64_t ldy = 0;
};

/// A kernel of linear layers. None of them takes an epilogue: residual and gates are operators of
/// their own, which read the result from the caches.
struct LinearKernel {
  std::string name;
  std::function<Refusal(const LayerProblem&)> refusal;
  /// Makes the form that it reads; null: it reads weights as they are stored.
  PreparedLayer (*prepare)(const formats::PackedWeight& weight, core::ThreadPool& pool) = nullptr;
  /// How it takes the problem's tokens, in words.
  std::function<std::string(const LayerProblem&)> schedule;
  std::function<void(const LinearCall&, LinearWorkspace&)> run;
  /// Whether the form is a PackedLinear, which all kernels that have one share, and files hold.
  bool reads_tiles = false;
  /// Whether it reads its input as the integers that PreparedLayer::needs asks for, and in no other
  /// form.
  bool reads_codes = false;
  /// Whether run() adds the biases of the parts; else the caller does.
  bool adds_bias = false;
};

}  // namespace nibble::ops::cpu
