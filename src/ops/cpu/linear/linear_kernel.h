#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "ops/cpu/linear/linear_input.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/sparse/sparse_units.h"
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

/// A layer in the form that its kernel reads.
struct PreparedLayer {
  const LinearKernel* kernel = nullptr;
  std::optional<PackedLinear> layout;         // by LinearKernel::prepare
  std::optional<formats::PackedWeight> copy;  // by LinearKernel::copy
  std::optional<SparseUnits> units;           // by LinearKernel::pack_rows
  InputNeeds needs;                           // with one of them: how it wants its input

  /// Otherwise the kernel reads the weight as it is stored.
  bool has_own_form() const { return layout || copy || units; }
  std::int64_t bytes() const {
    return (layout ? layout->bytes() : 0) + (copy ? formats::stored_bytes(*copy) : 0) +
           (units ? units->bytes() : 0);
  }
};

/// Layers that stand side by side, of one kernel and with equal needs: one of them, or several that
/// have layouts or copies. They write y [m, n_0 + n_1 + ...], rows ldy apart.
struct LinearCall {
  LinearInput& x;
  std::span<const Linear> parts;
  std::span<const PreparedLayer> layers;
  float* y = nullptr;
  std::int64_t ldy = 0;
};

/// A kernel of linear layers. None of them takes an epilogue: bias, residual and gates are
/// operators of their own, which read the result from the caches.
struct LinearKernel {
  std::string name;
  std::function<Refusal(const LayerProblem&)> refusal;
  /// Makes the layout that it reads; null: it reads weights as they are stored. All kernels that
  /// have one share it.
  PackedLinear (*prepare)(const formats::PackedWeight& weight, core::ThreadPool& pool) = nullptr;
  /// Makes another weight of the stored one, which it reads; null: it does not.
  formats::PackedWeight (*copy)(const formats::PackedWeight& weight) = nullptr;
  /// With copy or pack_rows: how it wants its input.
  InputNeeds (*needs)(const formats::PackedWeight& weight) = nullptr;
  /// How it takes the problem's tokens, in words.
  std::function<std::string(const LayerProblem&)> schedule;
  std::function<void(const LinearCall&, LinearWorkspace&)> run;
  /// Makes the units that it reads, of block-sparse rows; null: it reads none.
  SparseUnits (*pack_rows)(const formats::PackedWeight& weight, core::ThreadPool& pool) = nullptr;
};

}  // namespace nibble::ops::cpu
