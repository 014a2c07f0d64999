#include "io/tensor_store.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "io/gguf.h"
#include "io/gguf_writer_for_tests.h"
#include "io/safetensors.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::io {
namespace {

namespace fs = std::filesystem;

using core::ErrorKind;
using core::Tensor;

using Names = std::vector<std::string>;

constexpr std::string_view kIndex = "model.safetensors.index.json";

Tensor tensor_of(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from<float>(values, {count});
}

void write_shard(const fs::path& path, const std::vector<std::pair<std::string, float>>& tensors) {
  std::vector<NamedTensor> named;
  for (const auto& [name, value] : tensors) {
    named.push_back({name, tensor_of({value})});
  }
  write_safetensors(path, named, {{"format", "pt"}});
}

void expect_invalid_index(const TemporaryFolder& folder, std::string_view index,
                          std::vector<std::string> parts) {
  folder.write(kIndex, index);
  parts.emplace_back(kIndex);
  expect_error(ErrorKind::kInvalidModel, parts, [&] { TensorStore::open(folder.path()); });
}

TEST(TensorStore, OpensAFolderWithOneFile) {
  const TemporaryFolder folder;
  write_shard(folder / "model.safetensors", {{"b", 1.0f}, {"a", 2.0f}});
  for (const fs::path& path : {folder.path(), folder / "model.safetensors"}) {
    const auto store = TensorStore::open(path);
    EXPECT_EQ(store->names(), (Names{"b", "a"}));
    EXPECT_TRUE(store->contains("a"));
    EXPECT_FALSE(store->contains("c"));
    EXPECT_EQ(store->load("a").data<float>()[0], 2.0f);
    EXPECT_EQ(store->shape("a"), core::Shape{1});
    EXPECT_EQ(store->type_name("a"), "F32");
    EXPECT_EQ(store->stored_bytes("a"), 4);
    EXPECT_EQ(store->total_bytes(), 8);
    EXPECT_EQ(store->metadata().at("format"), "pt");
    EXPECT_EQ(store->gguf(), nullptr);
    store->release("a");
    store->check_intact();
    expect_error(ErrorKind::kInvalidModel, {"model.safetensors", "no tensor 'c'"},
                 [&] { store->load("c"); });
  }
}

TEST(TensorStore, OpensShards) {
  const TemporaryFolder folder;
  write_shard(folder / "model-1.safetensors", {{"b", 1.0f}, {"a", 2.0f}});
  write_shard(folder / "model-2.safetensors", {{"c", 3.0f}});
  folder.write(kIndex, R"({"metadata": {"total_size": 12}, "weight_map": {
      "a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}})");
  const auto store = TensorStore::open(folder.path());
  EXPECT_EQ(store->names(), (Names{"b", "a", "c"}));
  EXPECT_EQ(store->load("a").data<float>()[0], 2.0f);
  EXPECT_EQ(store->load("c").data<float>()[0], 3.0f);
  EXPECT_EQ(store->total_bytes(), 12);
  expect_error(ErrorKind::kInvalidModel, {"2 files", "'d'"}, [&] { store->load("d"); });
  EXPECT_FALSE(store->contains("d"));
}

TEST(TensorStore, OpensGguf) {
  const TemporaryFolder folder;
  const auto store = TensorStore::open(folder.write("m.gguf", small_gguf()));
  EXPECT_EQ(store->names(), (Names{"plain", "q4_0", "q6_k"}));
  EXPECT_EQ(store->type_name("q6_k"), "Q6_K");
  EXPECT_EQ(store->shape("plain"), (core::Shape{3, 4}));
  EXPECT_EQ(store->load("q4_0").dtype(), core::DType::kF32);
  EXPECT_EQ(store->stored_bytes("q4_0"), 36);
  EXPECT_EQ(store->total_bytes(), 48 + 36 + 210);
  ASSERT_NE(store->gguf(), nullptr);
  EXPECT_EQ(store->gguf()->metadata().get_string("string"), "text");
  store->release("q4_0");
  store->check_intact();
  expect_error(ErrorKind::kInvalidModel, {"m.gguf", "'x'"}, [&] { store->load("x"); });
}

TEST(TensorStore, RefusesAPieceOfASplitGguf) {
  const TemporaryFolder folder;
  const GgufBytes file =
      GgufBytes().header(0, 1).string("split.count").u32(2).number<std::uint16_t>(3);
  expect_error(ErrorKind::kInvalidModel, {"m.gguf", "3 pieces", "join"},
               [&] { TensorStore::open(folder.write("m.gguf", file.bytes())); });
}

TEST(TensorStoreBadFiles, Shards) {
  const TemporaryFolder folder;
  const TemporaryFolder outside;
  write_shard(folder / "s.safetensors", {{"a", 1.0f}});
  write_shard(outside / "o.safetensors", {{"a", 1.0f}});
  const auto index_of = [](std::string_view shard) {
    return fmt::format(R"({{"weight_map": {{"a": "{}"}}}})", shard);
  };
  expect_invalid_index(folder, index_of("missing.safetensors"),
                       {"missing.safetensors", "No such file"});
  expect_invalid_index(folder,
                       index_of("../" + outside.path().filename().native() + "/o.safetensors"),
                       {"..", "not the name of a file"});
  expect_invalid_index(folder, index_of("../../etc/passwd"), {"../../etc/passwd"});
  expect_invalid_index(folder, index_of((outside / "o.safetensors").native()),
                       {"not the name of a file"});
  expect_invalid_index(folder, index_of("sub/s.safetensors"), {"not the name of a file"});
  expect_invalid_index(folder, index_of(".."), {"not the name of a file"});
  expect_invalid_index(folder, index_of(""), {"not the name of a file"});
  expect_invalid_index(folder, index_of("a\\u0000b"), {"a\\x00b"});
  fs::create_symlink(outside / "o.safetensors", folder / "link.safetensors");
  expect_invalid_index(folder, index_of("link.safetensors"), {"leaves the model's folder"});
  fs::create_symlink("loop.safetensors", folder / "loop.safetensors");
  expect_invalid_index(folder, index_of("loop.safetensors"), {"loop.safetensors"});
  folder.write(kIndex, R"({"weight_map": {"a": "s.safetensors", "b": "s.safetensors"}})");
  expect_error(ErrorKind::kInvalidModel, {std::string(kIndex), "'b'", "s.safetensors"},
               [&] { TensorStore::open(folder.path()); });
  folder.write("broken.safetensors", "12345678");
  folder.write(kIndex, index_of("broken.safetensors"));
  expect_error(ErrorKind::kInvalidModel, {"broken.safetensors"},
               [&] { TensorStore::open(folder.path()); });
  fs::create_directory(folder / "folder.safetensors");
  folder.write(kIndex, index_of("folder.safetensors"));
  expect_error(ErrorKind::kIo, {"folder.safetensors", "a folder"},
               [&] { TensorStore::open(folder.path()); });
}

TEST(TensorStoreBadFiles, Index) {
  const TemporaryFolder folder;
  for (const std::string_view index :
       {"", "{", "[]", "{}", "null", R"({"weight_map": 1})", R"({"weight_map": []})",
        R"({"weight_map": {}})", R"({"weight_map": {"a": 1}})",
        R"({"weight_map": {"a": "x", "a": "x"}})", "{\"weight_map\": {\"\xff\": \"x\"}}"}) {
    expect_invalid_index(folder, index, {});
  }
}

TEST(TensorStore, FollowsTheLinksOfAHubCache) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "model/blobs");
  fs::create_directories(folder / "model/snapshots/abc");
  fs::create_directories(folder / "other/blobs");
  write_shard(folder / "model/blobs/1234", {{"a", 1.0f}});
  write_shard(folder / "other/blobs/1234", {{"a", 2.0f}});
  const fs::path snapshot = folder / "model/snapshots/abc";
  fs::create_symlink("../../blobs/1234", snapshot / "s.safetensors");
  folder.write("model/snapshots/abc/model.safetensors.index.json",
               R"({"weight_map": {"a": "s.safetensors"}})");
  EXPECT_EQ(TensorStore::open(snapshot)->load("a").data<float>()[0], 1.0f);
  fs::remove(snapshot / "s.safetensors");
  fs::create_symlink("../../../other/blobs/1234", snapshot / "s.safetensors");
  expect_error(ErrorKind::kInvalidModel, {"leaves the model's folder"},
               [&] { TensorStore::open(snapshot); });
}

TEST(TensorStore, RefusesPickles) {
  for (const std::string_view name : {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin",
                                      "model.pt", "consolidated.00.pth", "model.ckpt"}) {
    const TemporaryFolder folder;
    const fs::path file = folder.write(name, "PK\x03\x04");
    folder.write("training_args.bin", "x");
    folder.write("config.json", "{}");
    for (const fs::path& path : {folder.path(), file}) {
      expect_error(ErrorKind::kInvalidModel,
                   {std::string(name), "runs code", "safetensors.torch", "python3 -c"},
                   [&] { TensorStore::open(path); });
    }
  }
}

TEST(TensorStore, RefusesWhatIsNoModel) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::kIo, {folder.path(), "model.safetensors"},
               [&] { TensorStore::open(folder.path()); });
  folder.write("training_args.bin", "x");
  expect_error(ErrorKind::kIo, {folder.path(), "model.safetensors"},
               [&] { TensorStore::open(folder.path()); });
  expect_error(ErrorKind::kIo, {"missing", "No such file"},
               [&] { TensorStore::open(folder / "missing"); });
  expect_error(ErrorKind::kIo, {"missing.gguf"},
               [&] { TensorStore::open(folder / "missing.gguf"); });
  expect_error(ErrorKind::kInvalidModel, {"notes.txt", "neither"},
               [&] { TensorStore::open(folder.write("notes.txt", "x")); });
  ASSERT_EQ(::mkfifo((folder / "pipe.gguf").c_str(), 0600), 0);
  expect_error(ErrorKind::kIo, {"a pipe"}, [&] { TensorStore::open(folder / "pipe.gguf"); });
  expect_error(ErrorKind::kIo, {"a device"}, [] { TensorStore::open("/dev/zero"); });
}

TEST(TensorStore, OpensARealModel) {
  const fs::path path = NIBBLE_SOURCE_DIR "/../shared/models/demo-7m";
  if (!fs::exists(path)) {
    GTEST_SKIP() << path << " is missing";
  }
  const auto store = TensorStore::open(path);
  std::int64_t bytes = 0;
  for (const std::string& name : store->names()) {
    const Tensor tensor = store->load(name);
    EXPECT_EQ(tensor.bytes(), store->stored_bytes(name)) << name;
    bytes += tensor.bytes();
  }
  EXPECT_EQ(bytes, store->total_bytes());
  EXPECT_GT(bytes, 13000000);
}

}  // namespace
}  // namespace nibble::io
