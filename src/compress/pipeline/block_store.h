#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compress/block/compressed_block.h"
#include "compress/pipeline/checkpoint.h"
#include "compress/recipe/model_transform.h"

namespace nibble::compress {

/// Receives the compressed blocks in order, then the output layer when the recipe rounds it, and
/// gives those of an earlier run.
class BlockStore {
 public:
  virtual ~BlockStore() = default;
  /// Where the curvature of the job may be kept for a run that goes on with it; nullopt: nowhere.
  virtual std::optional<std::filesystem::path> curvature_file() const { return std::nullopt; }
  /// Comes first, when the recipe changes the ends of the model.
  virtual void put_ends(const ChangedEnds& ends) = 0;
  virtual std::optional<CompressedBlock> finished(std::int64_t block) = 0;
  virtual void put(std::int64_t block, const CompressedBlock& compressed) = 0;
  virtual bool finished_output() = 0;
  virtual void put_output(const formats::PackedWeight& weight) = 0;
};

/// Keeps everything in memory.
class MemoryStore final : public BlockStore {
 public:
  void put_ends(const ChangedEnds& ends) override { ends_ = ends; }
  std::optional<CompressedBlock> finished(std::int64_t) override { return std::nullopt; }
  void put(std::int64_t, const CompressedBlock& block) override { blocks_.push_back(block); }
  bool finished_output() override { return false; }
  void put_output(const formats::PackedWeight& weight) override { output_ = weight; }

  /// `original` as the recipe has made it.
  models::Network network(const models::Network& original) const;

 private:
  std::optional<ChangedEnds> ends_;
  std::vector<CompressedBlock> blocks_;
  std::optional<formats::PackedWeight> output_;
};

/// Hands everything to a checkpoint. `schemes` by layer prefix.
class FolderStore final : public BlockStore {
 public:
  FolderStore(CheckpointWriter& writer, const std::map<std::string, formats::Scheme>& schemes)
      : writer_(writer), schemes_(schemes) {}
  std::optional<std::filesystem::path> curvature_file() const override {
    return writer_.curvature_file();
  }
  void put_ends(const ChangedEnds& ends) override { writer_.set_ends(ends); }
  std::optional<CompressedBlock> finished(std::int64_t block) override {
    return writer_.finished_block(block, schemes_);
  }
  void put(std::int64_t block, const CompressedBlock& compressed) override {
    writer_.write_block(block, compressed);
  }
  bool finished_output() override { return writer_.finished_output(); }
  void put_output(const formats::PackedWeight& weight) override { writer_.write_output(weight); }

 private:
  CheckpointWriter& writer_;
  const std::map<std::string, formats::Scheme>& schemes_;
};

}  // namespace nibble::compress
