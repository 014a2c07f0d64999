#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/exchange/exchange.h"
#include "models/weight_source.h"

namespace nibble::models {

/// Tensors of a folder that another tool compressed, under its own names, and its compressed layers
/// as Nibble holds them. Those are made when they are asked for, and lie in memory of their own.
class ForeignSource final : public WeightSource {
 public:
  /// `zero_points`: whether these take the places of real minima where they are near.
  ForeignSource(std::shared_ptr<const WeightSource> stored,
                std::shared_ptr<const formats::exchange::Reader> reader, bool zero_points)
      : stored_(std::move(stored)), reader_(std::move(reader)), zero_points_(zero_points) {}

  std::vector<std::string> names() const override { return stored_->names(); }
  bool contains(std::string_view name) const override { return stored_->contains(name); }
  core::Tensor load(std::string_view name) const override { return stored_->load(name); }
  void release_pages() const override { stored_->release_pages(); }
  void release_pages(std::string_view name) const override { stored_->release_pages(name); }
  void check_intact() const override { stored_->check_intact(); }
  void check_unchanged() const override { stored_->check_unchanged(); }
  std::vector<std::filesystem::path> files() const override { return stored_->files(); }

  std::optional<ForeignLayer> foreign_layer(const std::string& prefix, std::int64_t n,
                                            std::int64_t k) const override;

 private:
  std::shared_ptr<const WeightSource> stored_;
  std::shared_ptr<const formats::exchange::Reader> reader_;
  bool zero_points_;
};

}  // namespace nibble::models
