#pragma once

#include <memory>

#include "io/tensor_store.h"
#include "models/weight_source.h"

namespace nibble::models {

/// Tensors of a Hugging Face folder, under their own names.
class FolderSource final : public WeightSource {
 public:
  explicit FolderSource(std::shared_ptr<const io::TensorStore> store) : store_(std::move(store)) {}
  std::vector<std::string> names() const override { return store_->names(); }
  bool contains(std::string_view name) const override { return store_->contains(name); }
  core::Tensor load(std::string_view name) const override { return store_->load(name); }
  core::Tensor load_or_bytes(std::string_view name) const override {
    return store_->load_or_bytes(name);
  }
  void release_pages() const override {
    for (const std::string& name : store_->names()) {
      store_->release(name);
    }
  }
  void release_pages(std::string_view name) const override {
    if (store_->contains(name)) {
      store_->release(name);
    }
  }
  void check_intact() const override { store_->check_intact(); }
  void check_unchanged() const override { store_->check_unchanged(); }
  std::vector<std::filesystem::path> files() const override { return store_->files(); }

 private:
  std::shared_ptr<const io::TensorStore> store_;
};

}  // namespace nibble::models
