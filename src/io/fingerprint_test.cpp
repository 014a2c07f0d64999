#include "io/fingerprint.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::io {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string long_text() {
  std::string text(5'000'000, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>('a' + i * i % 23);
  }
  return text;
}

class FingerprintTest : public testing::Test {
 protected:
  void SetUp() override { write(path_, text_); }
  bool same(const Fingerprint& expected) { return has_fingerprint(path_, expected, pool_); }

  // Writes other content under the time of the old.
  void forge(const std::string& text) {
    const auto time = fs::last_write_time(path_);
    write(path_, text);
    fs::last_write_time(path_, time);
  }

  const TemporaryFolder folder_;
  const fs::path path_ = folder_ / "weights";
  const std::string text_ = long_text();
  core::ThreadPool pool_{2};
};

TEST_F(FingerprintTest, KnowsTheFileAgain) {
  const Fingerprint print = fingerprint(path_, pool_);
  EXPECT_EQ(print.name, "weights");
  EXPECT_EQ(print.bytes, 5'000'000);
  EXPECT_TRUE(same(print));
  core::ThreadPool one(1);
  EXPECT_EQ(fingerprint(path_, one).content, print.content);
}

TEST_F(FingerprintTest, ReadsAllWhenTheTimeIsAnother) {
  const Fingerprint print = fingerprint(path_, pool_);
  const auto later = fs::last_write_time(path_) + std::chrono::hours(1);
  fs::last_write_time(path_, later);
  EXPECT_TRUE(same(print));
  for (const std::size_t at : {0u, 4096u, 1048576u, 2345678u, 4999999u}) {
    std::string other = text_;
    other[at] ^= 1;
    write(path_, other);
    fs::last_write_time(path_, later);
    EXPECT_FALSE(same(print)) << at;
  }
}

TEST_F(FingerprintTest, SeesOtherContentUnderTheSameTime) {
  const Fingerprint print = fingerprint(path_, pool_);
  std::string other = text_;
  for (std::size_t at = 0; at < other.size(); at += 30'000) {
    other[at] ^= 1;
  }
  forge(other);
  EXPECT_FALSE(same(print));
  forge(text_ + " ");
  EXPECT_FALSE(same(print));
  forge(text_);
  EXPECT_TRUE(same(print));
}

TEST_F(FingerprintTest, OfAnEmptyFileAndAnotherName) {
  forge("");
  EXPECT_TRUE(same(fingerprint(path_, pool_)));
  Fingerprint print = fingerprint(path_, pool_);
  print.name = "other";
  EXPECT_FALSE(same(print));
  EXPECT_THROW((void)fingerprint(folder_ / "missing", pool_), core::Error);
}

}  // namespace
}  // namespace nibble::io
