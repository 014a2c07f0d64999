#include "io/atomic_file.h"

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/temporary_folder_for_tests.h"
#include "io/text_file.h"

namespace nibble::io {
namespace {

namespace fs = std::filesystem;

using core::ErrorKind;

using Names = std::vector<std::string>;

std::string content(const fs::path& path) {
  return read_text_file(path, 1 << 20);
}

// Files cannot grow beyond `bytes` while this lives: what a full disk looks like, without one.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

// Runs `work` in a child process that is killed as if by kill -9 when it is done.
template <typename Work>
void run_and_kill(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "out.bin");
  file.write("one ");
  file.write("two");
  EXPECT_EQ(file.written(), 7);
  EXPECT_FALSE(fs::exists(folder / "out.bin"));
  file.commit();
  EXPECT_EQ(content(folder / "out.bin"), "one two");
  EXPECT_EQ(folder.entries(), Names{"out.bin"});
}

TEST(AtomicFile, LeavesTheTargetAloneWhenNotCommitted) {
  const TemporaryFolder folder;
  folder.write("out.bin", "before");
  { AtomicFile(folder / "out.bin").write("after"); }
  EXPECT_EQ(content(folder / "out.bin"), "before");
  EXPECT_EQ(folder.entries(), Names{"out.bin"});
  write_file_atomically(folder / "out.bin", "after");
  EXPECT_EQ(content(folder / "out.bin"), "after");
}

TEST(AtomicFile, HasThePermissionsOfAnOrdinaryFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "x");
  folder.write("b", "x");
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::status(folder / "b").permissions());
}

TEST(AtomicFile, KeepsTheModeOfWhatItReplaces) {
  const TemporaryFolder folder;
  for (const unsigned mode : {0600u, 0640u, 0666u}) {
    const fs::path path = folder.write("private", "before");
    fs::permissions(path, static_cast<fs::perms>(mode));
    write_file_atomically(path, "after");
    EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(mode));
    EXPECT_EQ(content(path), "after");
  }
}

TEST(AtomicFile, NeverShowsMoreThanWhatItReplaces) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("private", "before");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  AtomicFile file(path);
  file.write("secret");
  for (const std::string& name : folder.entries()) {
    EXPECT_EQ(fs::status(folder / name).permissions() & fs::perms::others_all, fs::perms::none)
        << name;
  }
}

TEST(AtomicFile, FollowsLinks) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "elsewhere");
  folder.write("elsewhere/real", "before");
  fs::create_symlink("elsewhere/second", folder / "first");
  fs::create_symlink("real", folder / "elsewhere/second");
  write_file_atomically(folder / "first", "after");
  EXPECT_TRUE(fs::is_symlink(folder / "first"));
  EXPECT_TRUE(fs::is_symlink(folder / "elsewhere/second"));
  EXPECT_EQ(content(folder / "elsewhere/real"), "after");

  fs::create_symlink(folder / "elsewhere/missing", folder / "to nothing");
  write_file_atomically(folder / "to nothing", "made");
  EXPECT_TRUE(fs::is_symlink(folder / "to nothing"));
  EXPECT_EQ(content(folder / "elsewhere/missing"), "made");

  fs::create_symlink("circle", folder / "circle");
  expect_error(ErrorKind::kIo, {"circle", "symbolic links"},
               [&] { AtomicFile(folder / "circle"); });
  EXPECT_EQ(folder.entries().size(), 4u) << "no temporaries are left";
}

TEST(AtomicFile, WritesIntoPipesAndDevices) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const FileDescriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  write_file_atomically(pipe, "through");
  char text[16] = {};
  EXPECT_EQ(::read(reader.get(), text, sizeof(text)), 7);
  EXPECT_STREQ(text, "through");
  EXPECT_TRUE(fs::is_fifo(pipe));
  { AtomicFile(pipe).write("given up"); }  // nothing to remove
  EXPECT_TRUE(fs::is_fifo(pipe));

  // A terminal of our own: what goes wrong here harms no device of the machine.
  const FileDescriptor terminal(::posix_openpt(O_RDWR | O_NOCTTY));
  ASSERT_EQ(::grantpt(terminal.get()), 0);
  ASSERT_EQ(::unlockpt(terminal.get()), 0);
  const fs::path device = ::ptsname(terminal.get());
  fs::create_symlink(device, folder / "link");
  const FileDescriptor open_end(::open(device.c_str(), O_RDWR | O_NOCTTY));
  write_file_atomically(folder / "link", "shown");
  EXPECT_EQ(::read(terminal.get(), text, sizeof(text)), 5);
  EXPECT_EQ(std::string_view(text, 5), "shown");
  EXPECT_TRUE(fs::is_character_file(device));
}

TEST(AtomicFile, WritingIntoAPipeThatNobodyReadsFails) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  FileDescriptor reader(::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
  AtomicFile file(folder / "pipe");
  reader.reset();
  const auto handler = ::signal(SIGPIPE, SIG_IGN);
  expect_error(ErrorKind::kIo, {"cannot write", "Broken pipe"}, [&] { file.write("x"); });
  ::signal(SIGPIPE, handler);
}

TEST(AtomicFile, RefusesDevicesThatHoldFiles) {
  const TemporaryFolder folder;
  const fs::path disk = folder / "disk";
  constexpr dev_t kNoSuchDisk = 0;
  if (::mknod(disk.c_str(), S_IFBLK | 0600, kNoSuchDisk) != 0) {
    GTEST_SKIP() << "only root may make a block device";
  }
  expect_error(ErrorKind::kIo, {"disk", "a device that holds files"},
               [&] { AtomicFile file(disk); });
  EXPECT_TRUE(fs::is_block_file(disk));
}

TEST(AtomicFile, AFullDiskIsAnErrorAndLeavesNothing) {
  const TemporaryFolder folder;
  folder.write("out.bin", "before");
  const FileSizeLimit limit(1000);
  expect_error(ErrorKind::kIo, {"cannot write", "out.bin", "File too large"},
               [&] { write_file_atomically(folder / "out.bin", std::string(5000, 'x')); });
  EXPECT_EQ(content(folder / "out.bin"), "before");
  EXPECT_EQ(folder.entries(), Names{"out.bin"});
}

TEST(AtomicFile, RefusesTargetsThatCannotBeWritten) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::kIo, {"out.bin", "No such file"},
               [&] { AtomicFile(folder / "missing/out.bin"); });
  fs::create_directory(folder / "taken");
  expect_error(ErrorKind::kIo, {"taken", "Is a directory"},
               [&] { write_file_atomically(folder / "taken", "x"); });
  expect_error(ErrorKind::kIo, {"not the name of a file"}, [&] { AtomicFile(folder / ""); });
  EXPECT_EQ(folder.entries(), Names{"taken"});
}

TEST(AtomicFile, AKilledWriterLeavesTheTargetAndIsCleanedUpAfter) {
  const TemporaryFolder folder;
  folder.write("out.bin", "before");
  run_and_kill([&] {
    auto* file = new AtomicFile(folder / "out.bin");
    file->write("half of it");
  });
  EXPECT_EQ(content(folder / "out.bin"), "before");
  EXPECT_EQ(folder.entries().size(), 2u);
  folder.write(".out.bin.notes.partial", "not ours");
  write_file_atomically(folder / "out.bin", "after");
  Names names = folder.entries();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (Names{".out.bin.notes.partial", "out.bin"}));
}

TEST(AtomicFile, TwoWritersDoNotDisturbEachOther) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "out.bin");
  first.write("first");
  AtomicFile second(folder / "out.bin");
  second.write("second");
  first.commit();
  EXPECT_EQ(content(folder / "out.bin"), "first");
  second.commit();
  EXPECT_EQ(content(folder / "out.bin"), "second");
}

TEST(AtomicFile, LongNamesFit) {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  write_file_atomically(folder / name, "x");
  EXPECT_EQ(content(folder / name), "x");
}

TEST(AtomicFolder, AppearsOnlyWhenCommitted) {
  const TemporaryFolder folder;
  auto out = AtomicFolder::create(folder / "model");
  EXPECT_FALSE(out.resumed());
  EXPECT_EQ(out.path(), folder / ".model.partial");
  write_file_atomically(out.path() / "b", "2");
  write_file_atomically(out.path() / "a", "1");
  fs::create_directory(out.path() / "sub");
  write_file_atomically(out.path() / "sub" / "c", "3");
  EXPECT_EQ(out.files(), (Names{"a", "b"}));
  EXPECT_FALSE(fs::exists(folder / "model"));
  out.commit();
  EXPECT_EQ(content(folder / "model/a"), "1");
  EXPECT_EQ(content(folder / "model/sub/c"), "3");
  EXPECT_EQ(folder.entries(), Names{"model"});
}

TEST(AtomicFolder, GoesOnWhereAKilledJobStopped) {
  const TemporaryFolder folder;
  run_and_kill([&] {
    auto out = AtomicFolder::create(folder / "model");
    write_file_atomically(out.path() / "block.0", "done");
    auto* half = new AtomicFile(out.path() / "block.1");
    half->write("ha");
  });
  EXPECT_FALSE(fs::exists(folder / "model"));
  auto out = AtomicFolder::open_or_create(folder / "model");
  EXPECT_TRUE(out.resumed());
  EXPECT_EQ(out.files(), Names{"block.0"});
  write_file_atomically(out.path() / "block.1", "done");
  out.commit();
  EXPECT_EQ(content(folder / "model/block.1"), "done");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "model"), fs::directory_iterator()), 2);
}

TEST(AtomicFolder, CreateForgetsWhatAKilledJobLeft) {
  const TemporaryFolder folder;
  run_and_kill([&] {
    auto out = AtomicFolder::create(folder / "model");
    write_file_atomically(out.path() / "block.0", "done");
  });
  auto out = AtomicFolder::create(folder / "model");
  EXPECT_FALSE(out.resumed());
  EXPECT_TRUE(out.files().empty());
  out.discard();
  EXPECT_TRUE(folder.entries().empty());
}

TEST(AtomicFolder, StaysForAResumeUnlessDiscarded) {
  const TemporaryFolder folder;
  {
    const auto out = AtomicFolder::open_or_create(folder / "model");
    EXPECT_FALSE(out.resumed());
    write_file_atomically(out.path() / "a", "1");
  }
  auto out = AtomicFolder::open_or_create(folder / "model/");  // the same folder
  EXPECT_TRUE(out.resumed());
  EXPECT_EQ(out.files(), Names{"a"});
  out.discard();
  EXPECT_TRUE(folder.entries().empty());
}

TEST(AtomicFolder, RefusesAnExistingTarget) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "model");
  expect_error(ErrorKind::kIo, {"model", "exists already"},
               [&] { AtomicFolder::create(folder / "model"); });
  folder.write("file", "x");
  expect_error(ErrorKind::kIo, {"file", "exists already"},
               [&] { AtomicFolder::open_or_create(folder / "file"); });
  EXPECT_EQ(folder.entries().size(), 2u);
  expect_error(ErrorKind::kIo, {"not the name of a folder"}, [] { AtomicFolder::create(".."); });
  expect_error(ErrorKind::kIo, {"model", "No such file"},
               [&] { AtomicFolder::create(folder / "missing/model"); });
}

TEST(AtomicFolder, RefusesATargetThatAppearsMeanwhile) {
  const TemporaryFolder folder;
  auto out = AtomicFolder::create(folder / "model");
  write_file_atomically(out.path() / "a", "1");
  fs::create_directory(folder / "model");
  expect_error(ErrorKind::kIo, {"model", "appeared meanwhile"}, [&] { out.commit(); });
  EXPECT_TRUE(fs::is_empty(folder / "model"));
  EXPECT_EQ(out.files(), Names{"a"});
}

TEST(AtomicFolder, KeepsASecondWriterOut) {
  const TemporaryFolder folder;
  const auto out = AtomicFolder::create(folder / "model");
  expect_error(ErrorKind::kIo, {"model", "another process"},
               [&] { AtomicFolder::create(folder / "model"); });
  expect_error(ErrorKind::kIo, {"model", "another process"},
               [&] { AtomicFolder::open_or_create(folder / "model"); });
}

}  // namespace
}  // namespace nibble::io
