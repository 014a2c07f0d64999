#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compress/block/compressed_block.h"
#include "compress/recipe/model_transform.h"
#include "core/json_type.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "models/model.h"

namespace nibble::compress {

/// Writes a compressed model as a Hugging Face folder: one shard for what is not compressed, one
/// for each block, one for the output layer when it is compressed, an index, config.json with
/// "quantization_config", and every small file of the source folder (tokenizer, generation config,
/// licence) but its README.md, which tells of another model. Everything lies in a hidden folder
/// beside `target` until commit(); a job that was killed goes on from there.
class CheckpointWriter {
 public:
  /// `job` describes the work in full (source, recipe, calibration); resuming another job in the
  /// same place is refused (kIntegrity). `output` is the scheme of the output layer, when it is
  /// compressed. Throws kUsage when `target` exists, or when an unfinished
  /// job is there and `resume` is false.
  CheckpointWriter(const models::Model& model, const std::filesystem::path& target,
                   const core::Json& job, const std::optional<formats::Scheme>& output,
                   bool resume);

  /// Removes the hidden folder again when no block was finished: there is nothing to go on with.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Where everything lies until commit().
  const std::filesystem::path& folder() const { return folder_.path(); }

  /// Where the curvature lies until then, for a job that is killed (calibration/curvature_file.h).
  std::filesystem::path curvature_file() const;

  /// What commit() writes in place of the model's embedding, positions, final norm and output.
  void set_ends(const ChangedEnds& ends) { ends_ = ends; }

  /// A block that an earlier run has finished.
  std::optional<CompressedBlock> finished_block(
      std::int64_t block, const std::map<std::string, formats::Scheme>& schemes) const;

  /// Writes the shard of a block.
  void write_block(std::int64_t block, const CompressedBlock& compressed);

  /// Whether an earlier run has finished the output layer. Throws kInvalidModel when what it left
  /// is damaged.
  bool finished_output() const;

  /// Writes the shard of the output layer, which the model no longer shares with the embedding.
  void write_output(const formats::PackedWeight& weight);

  /// Writes what is not compressed, the index, config.json with `info`, and the small files: what
  /// is in folder() is a whole model then.
  void complete(const models::CompressionInfo& info);

  /// Writes another file beside them.
  void write_file(std::string_view name, std::string_view text);

  /// Makes the folder visible under its name.
  void commit();

 private:
  std::string shard_name(std::int64_t shard) const;
  std::int64_t output_shard() const { return shards_ - 1; }
  std::vector<io::NamedTensor> end_tensors() const;
  void write_rest(const std::map<std::string, formats::Scheme>& schemes);
  void write_index() const;
  void write_config(const models::CompressionInfo& info) const;

  const models::Model& model_;
  io::AtomicFolder folder_;
  std::optional<formats::Scheme> output_;
  std::int64_t shards_;
  std::optional<ChangedEnds> ends_;
  bool committed_ = false;
};

}  // namespace nibble::compress
