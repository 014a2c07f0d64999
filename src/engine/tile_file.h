#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "core/progress.h"
#include "core/threads.h"
#include "engine/runner.h"
#include "io/mapped_file.h"
#include "models/model.h"
#include "ops/cpu/packed/packed_linear.h"

/// The CPU's layout of a model's compressed layers as one file, to be mapped instead of made.
///
///   offset 0    8 bytes  "NIBTILES"
///          8    u32      ops::cpu::kTileLayoutVersion
///         12    u32      0
///         16    u64      d, bytes of the directory
///         24    u64      core::hash64 of the directory
///         32    d bytes  directory, JSON:
///                          "files":  [{"name","bytes","modified","sample","content"}, ...]
///                          "layers": [{"name","scheme","n","k","matrices":[{"offset","bytes",
///                                      "sums_offset","sums_bytes","zero","largest"}, ...]}, ...]
///
/// Numbers are little-endian; offsets count from the start of the file. "files" are the
/// fingerprints (io/fingerprint.h; hashes as 16 hex digits) of the weight files that the layouts
/// were made from. "layers" are all compressed layers in the order in which the model runs them; a
/// layer with a tail has two matrices. The first tiles begin at the first multiple of 2 MiB behind
/// the directory, all others and the sums (I32) at multiples of 4 KiB, in the order of the
/// directory and with nothing but zeros between them. The file ends where the last matrix ends.
namespace nibble::engine {

struct TileFileSummary {
  std::int64_t layers = 0;
  std::int64_t bytes = 0;  // of the file
};

/// Where `nibble pack` puts the file of a model: in its folder.
std::filesystem::path tile_file_in(const std::filesystem::path& model);

/// `options` with the layouts that lie in the folder of `model`, or with none.
RunnerOptions with_own_tiles(RunnerOptions options, const std::filesystem::path& model);

/// Makes the layouts one after another and writes the file atomically. Throws kUsage when no layer
/// is compressed, kIntegrity when the weights change meanwhile, kIo.
TileFileSummary write_tile_file(const models::Model& model, const std::filesystem::path& path,
                                core::ThreadPool& pool, core::ProgressSink& progress);

/// A mapped file of layouts that belongs to a model.
class TileFile {
 public:
  /// Everything that the directory says is compared with the model before it is used. Throws kIo
  /// when the file cannot be read, kIntegrity when it is malformed, cut off, of another version, or
  /// was made from other weights. What the tiles hold is not checked.
  static std::shared_ptr<const TileFile> open(const std::filesystem::path& path,
                                              const models::Model& model, core::ThreadPool& pool);

  /// The layout of a compressed layer of the model: a view, which keeps the mapping alive.
  ops::cpu::PackedLinear layout(const ops::Linear& layer) const;

  /// Throws kIo when the file has been truncated since it was opened.
  void check_intact() const { file_->check_intact(); }

 private:
  struct Bytes {
    ops::cpu::PackedBytes head;
    ops::cpu::PackedBytes tail;
  };

  explicit TileFile(std::shared_ptr<const io::MappedFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const io::MappedFile> file_;
  std::map<std::string, Bytes, std::less<>> layers_;
};

}  // namespace nibble::engine
