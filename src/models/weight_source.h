#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "formats/exchange/exchange.h"
#include "formats/scheme.h"
#include "models/exchange/imports.h"
#include "models/network.h"
#include "ops/stored_rows.h"

namespace nibble::models {

/// A layer that another tool compressed, and the tensors that hold it.
struct ForeignLayer {
  formats::exchange::ReadLayer read;
  std::vector<std::string> tensors;
};

/// A model's tensors under the names that Hugging Face gives them, wherever they are stored.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::vector<std::string> names() const = 0;
  virtual bool contains(std::string_view name) const = 0;
  virtual core::Tensor load(std::string_view name) const = 0;
  /// As io::TensorStore::load_or_bytes().
  virtual core::Tensor load_or_bytes(std::string_view name) const { return load(name); }
  /// Gives the pages of mapped files back to the system, for jobs that walk through a model larger
  /// than memory. Tensors stay valid: their pages are read again.
  virtual void release_pages() const {}
  /// The same for one tensor; nothing happens when there is none of that name.
  virtual void release_pages(std::string_view) const {}
  /// Throws kIo when a file has been truncated since it was opened: what was read may be wrong.
  virtual void check_intact() const = 0;
  /// Throws kIntegrity when a file has been written to or replaced since it was opened.
  virtual void check_unchanged() const = 0;
  /// The files that hold the tensors, in a fixed order.
  virtual std::vector<std::filesystem::path> files() const = 0;
  /// GPT-2's linear layers are stored [in, out] in its own checkpoints and [out, in] elsewhere.
  virtual bool stores_conv1d() const { return true; }
  /// The layer [n, k] of that name where another tool compressed it. Throws kInvalidModel when it
  /// is malformed.
  virtual std::optional<ForeignLayer> foreign_layer(const std::string& /*prefix*/,
                                                    std::int64_t /*n*/, std::int64_t /*k*/) const {
    return std::nullopt;
  }
  /// The rows of a table that is stored in a form which need not be decoded as a whole; else null.
  virtual std::shared_ptr<const ops::StoredRows> stored_rows(std::string_view /*name*/) const {
    return nullptr;
  }
};

class ForeignLayers;

/// The tensor of AttentionSpec::key_centre, beside the layers that make the keys
/// ("model.layers.0.self_attn.key_centre").
std::string key_centre_name(const ops::LinearSet& qkv);

/// Turns named tensors into layers, checks every shape, and keeps track of what was used.
/// `schemes` gives the scheme of each compressed layer by its prefix.
class WeightLoader {
 public:
  /// Layers that another tool compressed are kept in `foreign`, where there is one.
  WeightLoader(const WeightSource& source, const std::map<std::string, formats::Scheme>& schemes,
               ForeignLayers* foreign = nullptr)
      : source_(source), schemes_(schemes), foreign_(foreign) {}

  /// "<prefix>.weight" [n, k] or its compressed parts, and "<prefix>.bias" [n]: which must be there
  /// when `bias` is true and must not when it is false.
  ops::Linear linear(const std::string& prefix, std::int64_t n, std::int64_t k, bool bias);
  /// The same for GPT-2's Conv1D, stored [k, n].
  ops::Linear conv1d(const std::string& prefix, std::int64_t n, std::int64_t k);
  ops::Norm norm(const std::string& prefix, ops::NormKind kind, std::int64_t width, float eps,
                 float stored_less = 0.0f);
  std::vector<float> vector(const std::string& name, std::int64_t size);
  core::Tensor matrix(const std::string& name, std::int64_t rows, std::int64_t columns);
  /// The same as matrix(), whose rows stay as they are stored where the source can look them up.
  TokenTable table(const std::string& name, std::int64_t rows, std::int64_t columns);
  /// AttentionSpec::key_centre, of `size` elements where the checkpoint has one, else empty.
  std::vector<float> key_centre(const ops::LinearSet& qkv, std::int64_t size);
  /// A set with the next free id.
  ops::LinearSet set(std::vector<ops::Linear> parts);

  bool contains(std::string_view name) const { return source_.contains(name); }

  /// Fails when a tensor was never asked for: a sign of a feature that the family does not know.
  /// Names that contain one of `harmless` do not count, nor do those that begin with one of
  /// `left_out`, which become a remark.
  void require_all_used(const std::string& family, const std::vector<std::string_view>& harmless,
                        const std::vector<std::string_view>& left_out);

  /// What the user should know of tensors that were left out, a sentence each.
  const std::vector<std::string>& remarks() const { return remarks_; }

  /// The layers that another tool compressed.
  const Imports& imports() const { return imports_; }

  /// Fails when a scheme was given for a layer that does not exist.
  void require_schemes_used() const;

 private:
  core::Tensor take(const std::string& name);  // marks the name as used
  bool compressed(const std::string& prefix, std::int64_t n, std::int64_t k, ops::Linear& layer);
  bool foreign(const std::string& prefix, std::int64_t n, std::int64_t k, ops::Linear& layer);

  const WeightSource& source_;
  const std::map<std::string, formats::Scheme>& schemes_;
  ForeignLayers* foreign_;
  std::set<std::string, std::less<>> used_;
  std::set<std::string, std::less<>> compressed_;  // prefixes of layers read by their scheme
  Imports imports_;
  std::vector<std::string> remarks_;
  int next_id_ = 0;
};

}  // namespace nibble::models
