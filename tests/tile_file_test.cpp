#include "engine/tile_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compress/pipeline/pipeline_for_tests.h"
#include "core/hash.h"
#include "core/json.h"
#include "engine/fixed_sequences.h"
#include "engine/runner.h"
#include "io/temporary_folder_for_tests.h"
#include "ops/cpu/packed/tile_layout.h"

// Layouts that were stored against layouts that are made, and files that must be refused.
namespace nibble::engine {
namespace {

namespace fs = std::filesystem;
using core::Json;
using ops::cpu::PackedLinear;

const fs::path kSource = NIBBLE_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class TileFileTest : public testing::Test {
 protected:
  // A model compressed by a recipe (a preset's name, or JSON) in a folder of its own.
  std::shared_ptr<models::Model> compress(const std::string& model, const std::string& recipe) {
    const fs::path target = folder_ / fmt::format("model-{}", ++models_);
    std::string name = recipe;
    if (recipe.starts_with("{")) {
      name = (folder_ / "recipe.json").string();
      write(name, recipe);
    }
    compress::quantize_model(*models::open_model(kSource / model), compress::find_recipe(name),
                             target, compress::small_job(2, 32, 2), false, core::silent_progress());
    return models::open_model(target);
  }

  fs::path pack(const models::Model& model) {
    const fs::path path = tile_file_in(model.path);
    write_tile_file(model, path, pool_, core::silent_progress());
    return path;
  }

  std::shared_ptr<models::Model> packed_llama() {
    auto model = compress("tests/families/llama", kSimple);
    pack(*model);
    return model;
  }

  static std::vector<float> logits(const std::shared_ptr<const models::Model>& model,
                                   const fs::path& tiles) {
    RunnerOptions options;
    options.cpu.threads = 2;
    options.tile_file = tiles;
    const auto runner = make_cpu_runner(model, options);
    const std::vector<std::int32_t> ids = {1, 17, 5, 40, 8, 22, 9, 31, 60, 3};
    std::vector<float> values;
    runner->score(ids, [&](std::int64_t, const LogitsView& rows) {
      values.insert(values.end(), rows.values.begin(), rows.values.end());
    });
    return values;
  }

  void refused(const models::Model& model, const std::string& part) {
    const fs::path path = tile_file_in(model.path);
    try {
      (void)TileFile::open(path, model, pool_);
      ADD_FAILURE() << "accepted: " << part;
    } catch (const core::Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.kind(), core::ErrorKind::kIntegrity) << message;
      EXPECT_NE(message.find(part), std::string::npos) << message;
      EXPECT_NE(message.find(path.string()), std::string::npos) << message;
      EXPECT_NE(message.find("nibble pack"), std::string::npos) << message;
    }
  }

  static constexpr const char* kSimple =
      R"({"scheme": "int4-asym-g16", "passes": ["rtn"], "output": "int8-sym-g32"})";

  const io::TemporaryFolder folder_;
  core::ThreadPool pool_{2};
  int models_ = 0;
};

void expect_equal_bytes(const PackedLinear& made, const PackedLinear& stored,
                        const std::string& name) {
  const auto a = made.stored();
  const auto b = stored.stored();
  ASSERT_EQ(a.tiles.size(), b.tiles.size()) << name;
  EXPECT_EQ(std::memcmp(a.tiles.data(), b.tiles.data(), a.tiles.size()), 0) << name;
  EXPECT_TRUE(std::equal(a.sums.begin(), a.sums.end(), b.sums.begin(), b.sums.end())) << name;
  EXPECT_EQ(made.needs(), stored.needs()) << name;
  EXPECT_EQ(made.bytes(), stored.bytes()) << name;
  EXPECT_TRUE(std::equal(std::begin(made.tiled().table), std::end(made.tiled().table),
                         std::begin(stored.tiled().table)))
      << name;
  EXPECT_EQ(made.tiled().largest, stored.tiled().largest) << name;
  EXPECT_EQ(made.tiled().zero, stored.tiled().zero) << name;
  ASSERT_EQ(made.tail() == nullptr, stored.tail() == nullptr) << name;
  if (made.tail() != nullptr) {
    expect_equal_bytes(*made.tail(), *stored.tail(), name + " (tail)");
  }
}

TEST_F(TileFileTest, HoldsWhatPackingGives) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"tests/families/llama", kSimple},
      {"tests/families/llama",
       R"({"scheme": "int3-sym-g32", "passes": ["rtn"],
           "layers": [{"match": "*.o_proj", "scheme": "f16"},
                      {"match": "*.down_proj", "scheme": "int8-sym-row-a8o"},
                      {"match": "*.up_proj", "scheme": "int8-sym-row-a8-asym"}]})"},
      {"tests/families/llama", R"({"scheme": "lut4-row-g16", "passes": ["any4", "rtn"]})"},
      {"tests/families/llama", R"({"scheme": "lut3-matrix-g32", "passes": ["any4", "rtn"]})"},
      {"tests/families/llama", R"({"scheme": "lut3-row-g32", "passes": ["any4", "rtn"]})"},
      {"tests/families/llama", R"({"scheme": "lut2-row-g16", "passes": ["any4", "rtn"]})"},
      {"tests/families/llama",
       R"({"scheme": "int2-asym-g32", "passes": ["rtn"],
           "layers": [{"match": "*.up_proj", "scheme": "int3-asym-row-a8-asym"}]})"},
      {"tests/families/llama", "nf4g32"},
      {"tests/families/llama", "atom-w4a4"},
      {"tests/families/llama", "rtn-w4g16-h16"},
      {"tests/families/mixtral", "rtn-w4g16"},
      {"tests/families/gpt2", "w8a8"},
      {"models/demo", "mxfp4"},
      {"models/demo", "nvfp4"},
  };
  for (const auto& [name, recipe] : cases) {
    SCOPED_TRACE(std::string(name) + " " + recipe);
    const auto model = compress(name, recipe);
    const fs::path path = pack(*model);
    const auto tiles = TileFile::open(path, *model, pool_);
    std::int64_t layers = 0;
    for (const models::Block& block : model->network.decoder.blocks) {
      for (const ops::LinearSet* set : models::linear_sets(block)) {
        for (const ops::Linear& layer : set->parts) {
          if (!formats::is_dense(layer.weight.scheme)) {
            expect_equal_bytes(PackedLinear::pack(layer.weight, pool_), tiles->layout(layer),
                               layer.name);
            ++layers;
          }
        }
      }
    }
    EXPECT_GT(layers, 0);
    EXPECT_EQ(logits(model, path), logits(model, ""));
  }
}

TEST_F(TileFileTest, IsTheSameBytesWhenItIsMadeAgain) {
  const auto model = packed_llama();
  const std::string once = read(tile_file_in(model->path));
  core::ThreadPool one(1);
  write_tile_file(*model, folder_ / "again", one, core::silent_progress());
  EXPECT_EQ(read(folder_ / "again"), once);
}

TEST_F(TileFileTest, CountsAsMemoryLikeLayoutsThatAreMade) {
  const auto model = packed_llama();
  RunnerOptions options;
  const auto made = make_cpu_runner(model, options)->peak_bytes();
  options.tile_file = tile_file_in(model->path);
  EXPECT_EQ(make_cpu_runner(model, options)->peak_bytes(), made);
}

// KiB of a mapped file that are in memory and KiB that are mapped, as the system counts them.
std::pair<std::int64_t, std::int64_t> resident_and_mapped(const fs::path& path) {
  std::ifstream file("/proc/self/smaps");
  std::pair<std::int64_t, std::int64_t> sums;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t kib = 0;
    words >> key >> kib;
    if (!key.ends_with(":")) {
      inside = line.ends_with(path.filename().string());
    } else if (inside && key == "Rss:") {
      sums.first += kib;
    } else if (inside && key == "Size:") {
      sums.second += kib;
    }
  }
  return sums;
}

TEST_F(TileFileTest, GivesThePagesOfTheModelBack) {
  const auto model = compress("models/demo", "rtn-w4g32");
  const fs::path path = pack(*model);
  for (const fs::path& tiles : {fs::path(), path}) {
    RunnerOptions options;
    options.tile_file = tiles;
    const auto runner = make_cpu_runner(model, options);
    const auto [resident, mapped] = resident_and_mapped(model->source->files().back());
    if (mapped == 0) {
      GTEST_SKIP() << "the system does not tell";
    }
    EXPECT_LT(resident, mapped / 2) << tiles;
  }
}

TEST_F(TileFileTest, KnowsOtherWeights) {
  const auto model = packed_llama();
  const auto other = compress(
      "tests/families/llama",
      R"({"scheme": "int4-asym-g16", "passes": ["search", "rtn"], "output": "int8-sym-g32"})");
  fs::copy_file(tile_file_in(model->path), tile_file_in(other->path));
  refused(*other, "other weights");
  const auto coarser = compress("tests/families/llama", "rtn-w4g32");
  fs::copy_file(tile_file_in(model->path), tile_file_in(coarser->path));
  refused(*coarser, "other weights");
}

TEST_F(TileFileTest, KnowsItsModelAfterACopyButNotAfterAChange) {
  const auto model = packed_llama();
  const fs::path copy = folder_ / "copy";
  fs::copy(model->path, copy, fs::copy_options::recursive);
  const fs::path weights = model->source->files().front().filename();
  const auto later = fs::last_write_time(copy / weights) + std::chrono::hours(1);
  fs::last_write_time(copy / weights, later);
  EXPECT_EQ(logits(models::open_model(copy), tile_file_in(copy)), logits(model, ""));
  std::string bytes = read(copy / weights);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write(copy / weights, bytes);
  refused(*models::open_model(copy), "other weights");
}

// Weights that change between the opening of the model and the end of packing.
TEST_F(TileFileTest, IsNotMadeOfWeightsThatChange) {
  const auto model = packed_llama();
  const fs::path weights = model->source->files().front();
  const fs::path output = folder_ / "late.nibble";
  const auto fails = [&] {
    EXPECT_THROW(write_tile_file(*model, output, pool_, core::silent_progress()), core::Error);
    EXPECT_FALSE(fs::exists(output));
  };
  const auto time = fs::last_write_time(weights);
  fs::last_write_time(weights, time + std::chrono::seconds(1));  // written to
  fails();
  fs::last_write_time(weights, time);
  fs::copy_file(weights, folder_ / "other");
  fs::last_write_time(folder_ / "other", time);
  fs::rename(folder_ / "other", weights);  // replaced
  fails();
  EXPECT_THROW((void)TileFile::open(tile_file_in(model->path), *model, pool_), core::Error);
}

TEST_F(TileFileTest, RefusesEveryDamagedByteOfItsHeader) {
  const auto model = packed_llama();
  const fs::path path = tile_file_in(model->path);
  const std::string bytes = read(path);
  std::uint64_t directory = 0;
  std::memcpy(&directory, bytes.data() + 16, sizeof(directory));
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  for (std::size_t at = 0; at < 32 + directory; ++at) {
    for (const int flip : {1, 128}) {
      file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(bytes[at] ^ flip)).flush();
      EXPECT_THROW((void)TileFile::open(path, *model, pool_), core::Error) << at;
    }
    file.seekp(static_cast<std::streamoff>(at)).put(bytes[at]).flush();
  }
  EXPECT_NO_THROW((void)TileFile::open(path, *model, pool_));
}

TEST_F(TileFileTest, RefusesFilesOfAnotherLength) {
  const auto model = packed_llama();
  const fs::path path = tile_file_in(model->path);
  const std::string bytes = read(path);
  const std::size_t tiles = 2u << 20;
  std::vector<std::size_t> lengths = {0, 1, 7, 8, 31, 32, 33, 1000, tiles - 1, tiles, tiles + 1};
  for (std::size_t length = 100; length < bytes.size(); length += bytes.size() / 50) {
    lengths.push_back(length);
  }
  lengths.push_back(bytes.size() - 1);
  for (const std::size_t length : lengths) {
    write(path, bytes.substr(0, length));
    EXPECT_THROW((void)TileFile::open(path, *model, pool_), core::Error) << length;
  }
  write(path, bytes + '\0');
  refused(*model, "expected");
  write(path, bytes);
  EXPECT_NO_THROW((void)TileFile::open(path, *model, pool_));
}

// Directories whose hash is right but which say something else.
TEST_F(TileFileTest, RefusesDirectoriesThatDoNotFit) {
  const auto model = packed_llama();
  const fs::path path = tile_file_in(model->path);
  const std::string bytes = read(path);
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data() + 16, sizeof(size));
  const Json good = Json::parse(bytes.substr(32, size));
  const auto tamper = [&](const std::function<void(Json&)>& change) {
    Json json = good;
    change(json);
    const std::string text = json.dump();
    const std::uint64_t length = text.size();
    const std::uint64_t hash = core::hash64(std::as_bytes(std::span(text)));
    std::string file = bytes.substr(0, 32) + text;
    std::memcpy(file.data() + 16, &length, sizeof(length));
    std::memcpy(file.data() + 24, &hash, sizeof(hash));
    file.resize(2u << 20);
    write(path, file + bytes.substr(2u << 20));
  };
  tamper([](Json&) {});
  EXPECT_NO_THROW((void)TileFile::open(path, *model, pool_));
  const Json wrong[] = {-1,    0,   1,       4096,          1LL << 40,      INT64_MAX,
                        1e300, "x", nullptr, Json::array(), Json::object(), true};
  for (const char* key : {"offset", "bytes", "sums_offset", "sums_bytes", "zero", "largest"}) {
    for (const Json& value : wrong) {
      if (value != good["layers"][0]["matrices"][0][key]) {
        tamper([&](Json& json) { json["layers"][0]["matrices"][0][key] = value; });
        refused(*model, "");
        EXPECT_THROW(logits(model, path), core::Error) << key << " " << value;
      }
    }
  }
  for (const char* key : {"name", "scheme", "n", "k", "matrices"}) {
    for (const Json& value : wrong) {
      tamper([&](Json& json) { json["layers"][1][key] = value; });
      refused(*model, "");
    }
  }
  for (const char* key : {"name", "bytes", "sample", "content"}) {
    for (const Json& value : wrong) {
      tamper([&](Json& json) {
        json["files"][0][key] = value;
        json["files"][0]["modified"] = 5;
      });
      refused(*model, "");
    }
  }
  for (const char* key : {"files", "layers"}) {
    for (const Json& value : wrong) {
      tamper([&](Json& json) { json[key] = value; });
      refused(*model, "");
    }
  }
  tamper([](Json& json) { json["layers"].erase(0); });
  refused(*model, "other weights");
  tamper([](Json& json) { json["layers"].push_back(json["layers"][0]); });
  refused(*model, "other weights");
  tamper([](Json& json) { std::swap(json["layers"][0], json["layers"][1]); });
  refused(*model, "other weights");
  tamper([](Json& json) { json = Json::array({1, 2}); });
  refused(*model, "");
}

TEST_F(TileFileTest, RefusesAnotherVersionByName) {
  const auto model = packed_llama();
  const fs::path path = tile_file_in(model->path);
  std::string bytes = read(path);
  bytes[8] = static_cast<char>(bytes[8] + 1);
  write(path, bytes);
  refused(*model, fmt::format("version {}", ops::cpu::kTileLayoutVersion));
  write(path, "GGUF and more");
  refused(*model, "no file of nibble pack");
}

TEST_F(TileFileTest, LosingBytesWhileItRunsIsAnError) {
  io::install_truncation_guard();
  const auto model = packed_llama();
  RunnerOptions options;
  options.tile_file = tile_file_in(model->path);
  const auto runner = make_cpu_runner(model, options);
  const std::vector<std::int32_t> ids = {1, 2, 3};
  FixedSequences sequences(*runner, 1, 10);
  const Slice slice = sequences.next(0, ids);
  EXPECT_NO_THROW((void)runner->forward({&slice, 1}));
  fs::resize_file(options.tile_file, 2u << 20);
  EXPECT_THROW((void)runner->forward({&slice, 1}), core::Error);

  const auto dense = compress("tests/families/llama", "f16");
  const auto without_tiles = make_cpu_runner(dense, {});
  FixedSequences others(*without_tiles, 1, 10);
  const Slice other = others.next(0, ids);
  EXPECT_NO_THROW((void)without_tiles->forward({&other, 1}));
  fs::resize_file(dense->source->files().front(), 4096);
  EXPECT_THROW((void)without_tiles->forward({&other, 1}), core::Error);
}

TEST_F(TileFileTest, NeedsCompressedLayers) {
  const auto model = models::open_model(kSource / "tests/families/llama");
  try {
    write_tile_file(*model, folder_ / "x", pool_, core::silent_progress());
    ADD_FAILURE();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("nothing to pack"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(folder_ / "x"));
}

TEST_F(TileFileTest, IsNoModel) {
  const auto model = packed_llama();
  try {
    (void)models::open_model(tile_file_in(model->path));
    ADD_FAILURE();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("--packed"), std::string::npos);
  }
}

}  // namespace
}  // namespace nibble::engine
