#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "models/weight_source.h"

namespace nibble::models {

/// Tensors of another source under new names, in the order of these.
class RenamedSource final : public WeightSource {
 public:
  /// `names`: new and old.
  RenamedSource(std::shared_ptr<const WeightSource> from,
                std::vector<std::pair<std::string, std::string>> names)
      : from_(std::move(from)),
        ordered_(std::move(names)),
        old_(ordered_.begin(), ordered_.end()) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, old] : ordered_) {
      names.push_back(name);
    }
    return names;
  }
  bool contains(std::string_view name) const override { return old_.contains(name); }
  core::Tensor load(std::string_view name) const override { return from_->load(old(name)); }
  core::Tensor load_or_bytes(std::string_view name) const override {
    return from_->load_or_bytes(old(name));
  }
  void release_pages() const override { from_->release_pages(); }
  void release_pages(std::string_view name) const override {
    if (contains(name)) {
      from_->release_pages(old(name));
    }
  }
  void check_intact() const override { from_->check_intact(); }
  void check_unchanged() const override { from_->check_unchanged(); }
  std::vector<std::filesystem::path> files() const override { return from_->files(); }
  bool stores_conv1d() const override { return from_->stores_conv1d(); }
  std::shared_ptr<const ops::StoredRows> stored_rows(std::string_view name) const override {
    return contains(name) ? from_->stored_rows(old(name)) : nullptr;
  }

 private:
  const std::string& old(std::string_view name) const {
    const auto found = old_.find(name);
    core::require(found != old_.end(), core::ErrorKind::kInvalidModel, "there is no tensor {}",
                  core::printable(name));
    return found->second;
  }

  std::shared_ptr<const WeightSource> from_;
  std::vector<std::pair<std::string, std::string>> ordered_;
  std::map<std::string, std::string, std::less<>> old_;
};

}  // namespace nibble::models
