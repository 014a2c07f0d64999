#pragma once

/// Kinds of layers, apart from what they hold: code for devices reads them too.
namespace nibble::ops {

/// RMSNorm (arXiv 1910.07467) and LayerNorm (arXiv 1607.06450).
enum class NormKind { kRms, kLayer };

/// What stands between the two linear layers of an MLP or a head.
enum class MlpActivation {
  kSilu,      // x * sigmoid(x)
  kGelu,      // exact, with erf
  kGeluTanh,  // tanh approximation ("gelu_new", "gelu_pytorch_tanh")
  kRelu,
  kTanh,
};

}  // namespace nibble::ops
