#include "engine/tile_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "core/hash.h"
#include "core/json.h"
#include "engine/tile_directory.h"
#include "io/atomic_file.h"
#include "io/byte_cursor.h"
#include "io/file_descriptor.h"
#include "models/tile_file_mark.h"
#include "ops/cpu/packed/tile_layout.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using core::Json;
using ops::cpu::PackedBytes;
using ops::cpu::PackedLinear;

static_assert(std::endian::native == std::endian::little, "tiles are stored as they are in memory");

std::int64_t first_tiles(std::int64_t directory_bytes) {
  return border(kTileFileHeader + directory_bytes, kFirstTiles);
}

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string header_of(const std::string& directory) {
  std::string header(models::kTileFileMagic);
  append(header, ops::cpu::kTileLayoutVersion);
  append(header, std::uint32_t{0});
  append(header, static_cast<std::uint64_t>(directory.size()));
  append(header, core::hash64(std::as_bytes(std::span(directory))));
  return header + directory;
}

void write_zeros_to(io::AtomicFile& file, std::int64_t offset) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  while (file.written() < offset) {
    const std::int64_t left = offset - file.written();
    file.write(std::span(kZeros).first(
        static_cast<std::size_t>(std::min<std::int64_t>(left, std::ssize(kZeros)))));
  }
}

void write_matrix(io::AtomicFile& file, std::int64_t base, const TileSlot& slot,
                  const PackedBytes& bytes) {
  write_zeros_to(file, base + slot.offset);
  file.write(bytes.tiles);
  if (slot.sums_bytes != 0) {
    write_zeros_to(file, base + slot.sums_offset);
    file.write(std::as_bytes(bytes.sums));
  }
}

// Ranges that only the tables of all rows tell.
void complete_ranges(TileDirectory& directory) {
  for (TiledLayer& layer : directory.layers) {
    for (std::size_t i = 0; i < layer.slots.size(); ++i) {
      if (!layer.slots[i].range) {
        layer.slots[i].range = ops::cpu::packed_range(matrix_of(*layer.layer, i));
      }
    }
  }
}

Json describe(const models::Model& model, const TileDirectory& directory, core::ThreadPool& pool) {
  Json files = Json::array();
  for (const auto& path : model.source->files()) {
    files.push_back(to_json(io::fingerprint(path, pool)));
  }
  Json layers = Json::array();
  for (const TiledLayer& layer : directory.layers) {
    layers.push_back(layer_to_json(layer));
  }
  return {{"files", std::move(files)}, {"layers", std::move(layers)}};
}

bool belongs_to(const models::Model& model, const Json& directory, core::ThreadPool& pool,
                std::string_view what) {
  const auto paths = model.source->files();
  const auto files = directory.find("files");
  if (files == directory.end() || !files->is_array() || files->size() != paths.size()) {
    return false;
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!io::has_fingerprint(paths[i], parse_fingerprint((*files)[i], what), pool)) {
      return false;
    }
  }
  return true;
}

// The bytes of the directory, whose header has been checked.
std::string_view read_directory(std::span<const std::byte> bytes, std::string_view what) {
  io::ByteCursor cursor(bytes, what);
  cursor.set_place("header");
  const auto magic = cursor.read<std::uint64_t>();
  cursor.require(std::memcmp(&magic, models::kTileFileMagic.data(), sizeof(magic)) == 0,
                 "this is no file of nibble pack");
  const auto version = cursor.read<std::uint32_t>();
  cursor.require(version == ops::cpu::kTileLayoutVersion,
                 "layouts of version {}, this program has version {}", version,
                 ops::cpu::kTileLayoutVersion);
  cursor.require(cursor.read<std::uint32_t>() == 0, "reserved bytes are set");
  const auto size = cursor.read<std::uint64_t>();
  const auto hash = cursor.read<std::uint64_t>();
  const std::int64_t length = cursor.checked_count(size, 1, "bytes of the directory");
  cursor.require(length <= kMaxDirectory, "a directory of {} bytes", length);
  const auto directory =
      bytes.subspan(static_cast<std::size_t>(kTileFileHeader), static_cast<std::size_t>(length));
  cursor.require(core::hash64(directory) == hash, "the directory is damaged");
  return {reinterpret_cast<const char*>(directory.data()), directory.size()};
}

PackedBytes bytes_of(std::span<const std::byte> file, std::int64_t base, const TileSlot& slot) {
  const auto at = [&](std::int64_t offset, std::int64_t length) {
    return length == 0 ? std::span<const std::byte>()
                       : file.subspan(static_cast<std::size_t>(base + offset),
                                      static_cast<std::size_t>(length));
  };
  const auto sums = at(slot.sums_offset, slot.sums_bytes);
  return {at(slot.offset, slot.bytes),
          {reinterpret_cast<const std::int32_t*>(sums.data()), sums.size() / sizeof(std::int32_t)},
          slot.range.value().zero,
          slot.range.value().largest};
}

}  // namespace

std::filesystem::path tile_file_in(const std::filesystem::path& model) {
  return model / models::kTileFileName;
}

RunnerOptions with_own_tiles(RunnerOptions options, const std::filesystem::path& model) {
  const std::filesystem::path file = tile_file_in(model);
  std::error_code error;  // a link that leads nowhere is there, and opening it says so
  const bool there =
      std::filesystem::symlink_status(file, error).type() != std::filesystem::file_type::not_found;
  options.tile_file = there && !error ? file : std::filesystem::path();
  return options;
}

TileFileSummary write_tile_file(const models::Model& model, const std::filesystem::path& path,
                                core::ThreadPool& pool, core::ProgressSink& progress) {
  TileDirectory directory = plan_directory(model.network);
  core::require(!directory.layers.empty(), ErrorKind::kUsage,
                "{} has no layers that are packed, so there is nothing to pack: those are integers "
                "and books, "
                "but not block-sparse rows, which are brought into order when they are loaded",
                io::shown(model.path));
  complete_ranges(directory);
  const auto total = std::ssize(directory.layers);
  progress.begin("pack", total);
  const std::string text = describe(model, directory, pool).dump();
  core::require(std::ssize(text) <= kMaxDirectory, ErrorKind::kFailed,
                "{}: a directory of {} bytes is too large", io::shown(path), text.size());
  const std::int64_t base = first_tiles(std::ssize(text));
  io::AtomicFile file(path);
  file.write(header_of(text));
  for (std::int64_t i = 0; i < total; ++i) {
    const TiledLayer& layer = directory.layers[static_cast<std::size_t>(i)];
    const models::LayerHold hold(model, *layer.layer);
    const PackedLinear packed = PackedLinear::pack(layer.layer->weight, pool);
    write_matrix(file, base, layer.slots.front(), packed.stored());
    if (packed.tail() != nullptr) {
      write_matrix(file, base, layer.slots.back(), packed.tail()->stored());
    }
    progress.update(i + 1, layer.layer->name);
  }
  model.source->check_unchanged();  // since it was opened: what was packed is what was hashed
  const TileFileSummary summary{total, file.written()};
  file.commit();
  progress.end();
  return summary;
}

std::shared_ptr<const TileFile> TileFile::open(const std::filesystem::path& path,
                                               const models::Model& model, core::ThreadPool& pool) {
  std::shared_ptr<TileFile> tiles(new TileFile(io::MappedFile::open(path)));
  const auto bytes = tiles->file_->bytes();
  const std::string what = io::shown(path);
  core::require(models::is_tile_file(path), ErrorKind::kIntegrity,
                "{} is no file of nibble pack; give one that 'nibble pack {} -o FILE' made", what,
                io::shown(model.path));
  TileDirectory directory = plan_directory(model.network);
  core::require(
      !directory.layers.empty(), ErrorKind::kUsage,
      "{} has no layers that are packed, so it has no use for {}: leave it out, or delete it",
      io::shown(model.path), what);
  std::int64_t base = 0;
  try {
    const std::string_view text = read_directory(bytes, what);
    base = first_tiles(std::ssize(text));
    const Json json = core::parse_json(text, what);
    core::require(json.is_object() && complete_directory(directory, json, what) &&
                      belongs_to(model, json, pool, what),
                  ErrorKind::kIntegrity, "{}: made from other weights than those of {}", what,
                  io::shown(model.path));
    model.source->check_unchanged();
    core::require(std::ssize(bytes) == base + directory.end, ErrorKind::kIntegrity,
                  "{}: {} bytes, expected {}; it is cut off or damaged", what, bytes.size(),
                  base + directory.end);
  } catch (const core::Error& error) {
    if (error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kOutOfMemory) {
      throw;
    }
    core::fail(ErrorKind::kIntegrity, "{}; run 'nibble pack {} -o {}' again or delete {}",
               error.what(), io::shown(model.path), what, what);
  }
  for (const TiledLayer& layer : directory.layers) {
    Bytes& stored = tiles->layers_[layer.layer->name];
    stored.head = bytes_of(bytes, base, layer.slots.front());
    stored.tail = layer.slots.size() == 1 ? PackedBytes() : bytes_of(bytes, base, layer.slots[1]);
  }
  tiles->file_->advise(io::Access::kHugePages);
  tiles->file_->advise(io::Access::kWillNeed);
  return tiles;
}

PackedLinear TileFile::layout(const ops::Linear& layer) const {
  const auto at = layers_.find(layer.name);
  core::require(at != layers_.end(), ErrorKind::kIntegrity, "{}: no layouts of layer '{}'",
                io::shown(file_->path()), core::printable(layer.name));
  return PackedLinear::view(layer.weight, at->second.head, at->second.tail, file_);
}

}  // namespace nibble::engine
