#include "io/mapped_file.h"

#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/temporary_folder_for_tests.h"

namespace nibble::io {
namespace {

using core::ErrorKind;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, HoldsTheBytesOfTheFile) {
  const TemporaryFolder folder;
  const auto file = MappedFile::open(folder.write("a.bin", "some bytes"));
  EXPECT_EQ(text_of(*file), "some bytes");
  EXPECT_EQ(file->path(), folder / "a.bin");
  for (const Access access : {Access::kNormal, Access::kSequential, Access::kRandom,
                              Access::kWillNeed, Access::kDontNeed}) {
    file->advise(access);
    file->advise(access, 3, 1000);
    file->advise(access, -1, 5);
    file->advise(access, 1000, 5);
  }
  EXPECT_EQ(text_of(*file), "some bytes");
  file->check_intact();
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TemporaryFolder folder;
  const auto file = MappedFile::open(folder.write("empty", ""));
  EXPECT_TRUE(file->bytes().empty());
  file->advise(Access::kSequential);
  file->check_intact();
}

TEST(MappedFile, StaysReadableWhenTheFileIsReplaced) {
  const TemporaryFolder folder;
  const auto file = MappedFile::open(folder.write("a", "first"));
  std::filesystem::rename(folder.write("b", "second"), folder / "a");
  EXPECT_EQ(text_of(*file), "first");
  file->check_intact();
  expect_error(ErrorKind::kIntegrity, {folder / "a", "changed"}, [&] { file->check_unchanged(); });
}

TEST(MappedFile, KnowsThatItWasWrittenTo) {
  const TemporaryFolder folder;
  const auto file = MappedFile::open(folder.write("a", "first"));
  file->check_unchanged();
  folder.write("a", "first and more");
  expect_error(ErrorKind::kIntegrity, {folder / "a", "changed"}, [&] { file->check_unchanged(); });
}

TEST(MappedFile, RefusesWhatIsNotAFile) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::kIo, {"cannot open", "missing", "No such file"},
               [&] { MappedFile::open(folder / "missing"); });
  expect_error(ErrorKind::kIo, {folder.path(), "a folder"},
               [&] { MappedFile::open(folder.path()); });
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error(ErrorKind::kIo, {"pipe", "a pipe"}, [&] { MappedFile::open(folder / "pipe"); });
  expect_error(ErrorKind::kIo, {"/dev/zero", "a device"}, [] { MappedFile::open("/dev/zero"); });
  expect_error(ErrorKind::kIo, {"zero byte"}, [] { MappedFile::open(std::string("a\0b", 3)); });
  std::filesystem::create_symlink("loop", folder / "loop");
  expect_error(ErrorKind::kIo, {"loop"}, [&] { MappedFile::open(folder / "loop"); });
}

TEST(MappedFile, RefusesAFileWithoutPermission) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may read everything";
  }
  const TemporaryFolder folder;
  const auto path = folder.write("secret", "x");
  ::chmod(path.c_str(), 0);
  expect_error(ErrorKind::kIo, {"secret", "Permission denied"}, [&] { MappedFile::open(path); });
}

class TruncationTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kPages = 8;

  const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.write("big", std::string(kPages* page_, 'x'));
};

TEST_F(TruncationTest, LostBytesReadAsZerosAndAreReported) {
  install_truncation_guard();
  const auto file = MappedFile::open(path_);
  const auto other = MappedFile::open(folder_.write("other", "untouched"));
  std::filesystem::resize_file(path_, page_ + 10);
  const volatile auto* bytes = reinterpret_cast<const volatile char*>(file->bytes().data());
  EXPECT_EQ(bytes[5], 'x');
  EXPECT_EQ(bytes[page_ + 5], 'x');
  EXPECT_EQ(bytes[3 * page_ + 7], 0);
  EXPECT_EQ(bytes[7 * page_], 0);
  EXPECT_EQ(bytes[5], 'x');
  expect_error(ErrorKind::kIo, {path_, "lost bytes"}, [&] { file->check_intact(); });
  other->check_intact();
}

TEST_F(TruncationTest, ATruncationIsReportedBeforeAnythingIsRead) {
  const auto file = MappedFile::open(path_);
  std::filesystem::resize_file(path_, 1);
  expect_error(ErrorKind::kIo, {path_, "lost bytes"}, [&] { file->check_intact(); });
}

TEST_F(TruncationTest, DamageIsRememberedWhenTheFileGrowsAgain) {
  install_truncation_guard();
  const auto file = MappedFile::open(path_);
  std::filesystem::resize_file(path_, 0);
  const volatile auto* bytes = reinterpret_cast<const volatile char*>(file->bytes().data());
  EXPECT_EQ(bytes[0], 0);
  std::filesystem::resize_file(path_, kPages * page_);
  expect_error(ErrorKind::kIo, {path_, "lost bytes"}, [&] { file->check_intact(); });
}

TEST_F(TruncationTest, AClosedMappingIsForgotten) {
  install_truncation_guard();
  for (int i = 0; i < 100; ++i) {
    const auto damaged = MappedFile::open(path_);
    std::filesystem::resize_file(path_, 0);
    const volatile auto* bytes = reinterpret_cast<const volatile char*>(damaged->bytes().data());
    EXPECT_EQ(bytes[0], 0);
    std::filesystem::resize_file(path_, kPages * page_);
    MappedFile::open(path_)->check_intact();
  }
}

// The signal that ends a process which does what `fault` does, 0 when it ends by itself.
template <typename Fault>
int signal_of(Fault fault) {
  const pid_t child = ::fork();
  if (child == 0) {
    install_truncation_guard();
    fault();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_F(TruncationTest, OtherBusErrorsStillEndTheProcess) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer handles the signal in its own way";
#endif
  EXPECT_EQ(signal_of([] { ::raise(SIGBUS); }), SIGBUS);
  EXPECT_EQ(signal_of([&] {
              const int fd = ::open(path_.c_str(), O_RDWR);
              void* foreign = ::mmap(nullptr, kPages * page_, PROT_READ, MAP_SHARED, fd, 0);
              ::ftruncate(fd, 0);
              static_cast<void>(*static_cast<volatile char*>(foreign));
            }),
            SIGBUS);
}

}  // namespace
}  // namespace nibble::io
