#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/releasable_memory.h"
#include "formats/packed_weight.h"
#include "models/weight_source.h"

namespace nibble::models {

/// The memory of layers that were made of another tool's tensors. It is given back while nobody
/// reads a layer, which is then made again when it is wanted: a runner that has made its layout of
/// a layer needs the layer no more.
class ForeignLayers {
 public:
  explicit ForeignLayers(std::shared_ptr<const WeightSource> source) : source_(std::move(source)) {}

  /// The same weight, in memory that this object knows.
  formats::PackedWeight keep(const std::string& name, formats::PackedWeight weight);

  /// Between hold() and let_go() the layer can be read; before the first hold() too. Nothing
  /// happens for names that were not kept. hold() throws as WeightSource::foreign_layer(), and
  /// kIntegrity when the layer is no more what it was.
  void hold(const std::string& name);
  void let_go(const std::string& name);

  /// Of the layers that are there.
  std::int64_t bytes() const;

 private:
  struct Kept {
    std::weak_ptr<core::ReleasableMemory> memory;  // of its large parts; gone with it
    formats::PackedWeight shape;                   // without its parts
    int readers = 0;
    bool there = true;
  };

  void make_again(const std::string& name, const Kept& kept, core::ReleasableMemory& memory) const;

  std::shared_ptr<const WeightSource> source_;
  mutable std::mutex mutex_;
  std::map<std::string, Kept> layers_;
};

}  // namespace nibble::models
