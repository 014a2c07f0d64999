#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/temporary_folder_for_tests.h"
#include "hub/cache.h"
#include "hub/digest.h"
#include "hub/file_choice.h"
#include "hub/http.h"
#include "hub/repository.h"

namespace nibble::hub {
namespace {

namespace fs = std::filesystem;
using core::Error;
using Names = std::vector<std::string>;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
constexpr const char* kBlob = "89abcdef0123456789abcdef0123456789abcdef";

TEST(Repository, ReadsNamesAndRevisions) {
  EXPECT_EQ(parse_repository("org/name").revision, "main");
  EXPECT_EQ(parse_repository("org/name@refs/pr/1").revision, "refs/pr/1");
  EXPECT_EQ(parse_repository("org/my.model_2-b").folder(), "models--org--my.model_2-b");
  EXPECT_EQ(parse_repository("gpt2").folder(), "models--gpt2");
}

TEST(Repository, RefusesWhatLeadsElsewhere) {
  for (const char* text :
       {"", "/", "a/", "/b", "a/b/c", "../b", "a/..", "a/b@", "a/b@../x", "a/b@/x", "a/b@x//y",
        "a/b@.x", "a/b@x/.y", "a b/c", "a/b--c", "a/b@x y"}) {
    EXPECT_THROW(parse_repository(text), Error) << text;
  }
}

TEST(FileChoice, RefusesNamesThatLeaveTheFolder) {
  EXPECT_TRUE(is_safe_name("1_Pooling/config.json"));
  EXPECT_TRUE(is_safe_name("a..b"));
  for (const char* name : {"", "..", "a/../b", "/a", "a//b", "a/", "./a", "a\\b", "a\nb"}) {
    EXPECT_FALSE(is_safe_name(name)) << name;
  }
}

TEST(FileChoice, TakesWhatIsRead) {
  const Names all = {".gitattributes",
                     "README.md",
                     "LICENSE",
                     "config.json",
                     "model.safetensors",
                     "model.fp16.safetensors",
                     "pytorch_model.bin",
                     "pytorch_model.bin.index.json",
                     "onnx/config.json",
                     "onnx/model.safetensors",
                     "tokenizer.json",
                     "vocab.txt",
                     "1_Pooling/config.json",
                     "tf_model.h5",
                     "chat_template.jinja"};
  const Names expected = {
      "LICENSE",   "config.json",           "model.safetensors",  "tokenizer.json",
      "vocab.txt", "1_Pooling/config.json", "chat_template.jinja"};
  EXPECT_EQ(needed_files(all, "o/n"), expected);
}

TEST(FileChoice, TakesShardsWithTheirIndex) {
  const Names all = {"config.json", "consolidated.safetensors", "model-00001-of-00002.safetensors",
                     "model-00002-of-00002.safetensors", "model.safetensors.index.json"};
  EXPECT_EQ(needed_files(all, "o/n"),
            (Names{"config.json", "model-00001-of-00002.safetensors",
                   "model-00002-of-00002.safetensors", "model.safetensors.index.json"}));
  EXPECT_EQ(needed_files({"adapter_config.json", "adapter_model.safetensors"}, "o/n").size(), 2U);
}

std::string refusal(const Names& all) {
  try {
    needed_files(all, "o/n");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(FileChoice, SaysWhatIsThereInstead) {
  EXPECT_NE(refusal({"config.json", "pytorch_model.bin"}).find("pickles"), std::string::npos);
  EXPECT_NE(refusal({"x-Q4_0.gguf"}).find("--file x-Q4_0.gguf"), std::string::npos);
  EXPECT_NE(refusal({"README.md"}).find("no safetensors"), std::string::npos);
}

std::string digest_of(std::string_view expected, std::string_view text) {
  Digest digest(expected, static_cast<std::int64_t>(text.size()));
  digest.add("wrong");
  digest.reset();
  digest.add(text.substr(0, 2));
  digest.add(text.substr(2));
  return digest.finish();
}

// The values of sha256sum and of git hash-object.
TEST(Digest, IsThatOfTheHub) {
  const std::string sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
  const std::string of_git = "ce013625030ba8dba906f756967f9e9ca394464a";
  EXPECT_EQ(digest_of(sha256, "hello\n"), sha256);
  EXPECT_EQ(digest_of(of_git, "hello\n"), of_git);
  EXPECT_THROW(Digest("abc", 1), Error);
  EXPECT_FALSE(Digest::is_checksum(std::string(40, 'A')));
}

TEST(Http, EscapesAddresses) {
  EXPECT_EQ(url_escaped("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(url_escaped("a b/c+d.json", true), "a%20b/c%2Bd.json");
}

class Cache : public ::testing::Test {
 protected:
  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  const core::TemporaryFolder temporary_;
  const fs::path cache_ = temporary_.path() / "hub";
  const Repository repository_ = parse_repository("org/name");
  const CachedModel model_{cache_, repository_};
};

TEST_F(Cache, LinksAreRelative) {
  write(model_.blob(kBlob), "{}");
  model_.link(kCommit, "config.json", kBlob);
  model_.link(kCommit, "1_Pooling/config.json", kBlob);
  const fs::path snapshot = model_.snapshot(kCommit);
  EXPECT_EQ(fs::read_symlink(snapshot / "config.json"), fs::path("../../blobs") / kBlob);
  EXPECT_EQ(fs::read_symlink(snapshot / "1_Pooling/config.json"),
            fs::path("../../../blobs") / kBlob);
  EXPECT_TRUE(model_.has(kCommit, "1_Pooling/config.json"));
}

// Two that pull the same model link its files again and again.
TEST_F(Cache, ALinkIsThereWhileItIsMadeAgain) {
  write(model_.blob(kBlob), "{}");
  model_.link(kCommit, "config.json", kBlob);
  std::atomic<bool> ended = false;
  std::thread other([&] {
    for (int i = 0; i < 2000; ++i) {
      model_.link(kCommit, "config.json", kBlob);
    }
    ended = true;
  });
  int missed = 0;
  while (!ended) {
    missed += model_.has(kCommit, "config.json") ? 0 : 1;
  }
  other.join();
  EXPECT_EQ(missed, 0);
  const fs::directory_iterator files(model_.snapshot(kCommit));
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "something else stays";
}

TEST_F(Cache, AModelIsFoundWhenAllOfItIsThere) {
  const fs::path snapshot = model_.snapshot(kCommit);
  EXPECT_FALSE(find_snapshot(cache_, repository_));
  model_.write_ref(kCommit);
  write(snapshot / "config.json", "{}");
  EXPECT_FALSE(find_snapshot(cache_, repository_));
  write(snapshot / "model.safetensors.index.json",
        R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})");
  write(snapshot / "model-1.safetensors", "x");
  EXPECT_FALSE(find_snapshot(cache_, repository_));
  write(snapshot / "model-2.safetensors", "x");
  EXPECT_FALSE(find_snapshot(cache_, repository_));
  write(snapshot / "vocab.txt", "x");
  EXPECT_EQ(find_snapshot(cache_, repository_), snapshot);
  EXPECT_EQ(find_snapshot(cache_, parse_repository(std::string("org/name@") + kCommit)), snapshot);
  EXPECT_FALSE(find_snapshot(cache_, parse_repository("org/name@other")));
}

TEST_F(Cache, ASnapshotTellsItsRepository) {
  EXPECT_EQ(repository_of(model_.snapshot(kCommit)), "org/name");
  EXPECT_EQ(repository_of(model_.snapshot(kCommit) / ""), "org/name");
  EXPECT_FALSE(repository_of(cache_));
  EXPECT_FALSE(repository_of("models/demo"));
}

}  // namespace
}  // namespace nibble::hub
