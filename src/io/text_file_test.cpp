#include "io/text_file.h"

#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/json.h"
#include "io/file_descriptor.h"
#include "io/json_file.h"
#include "io/temporary_folder_for_tests.h"

namespace nibble::io {
namespace {

using core::ErrorKind;

TEST(TextFile, GivesTheWholeFile) {
  const TemporaryFolder folder;
  for (const std::size_t size : {0u, 1u, 4095u, 4096u, 4097u, 3000000u}) {
    const std::string text(size, 'a');
    EXPECT_EQ(read_text_file(folder.write("t", text), 3000000), text);
  }
  EXPECT_FALSE(read_text_file("/proc/self/status", 1 << 20).empty());  // its size is said to be 0
}

TEST(TextFile, RefusesWithAReason) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::kIo, {"cannot open", "missing.txt", "No such file"},
               [&] { read_text_file(folder / "missing.txt", 10); });
  expect_error(ErrorKind::kIo, {"a folder"}, [&] { read_text_file(folder.path(), 10); });
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error(ErrorKind::kIo, {"a pipe"}, [&] { read_text_file(folder / "pipe", 10); });
  expect_error(ErrorKind::kIo, {"/dev/zero"}, [] { read_text_file("/dev/zero", 10); });
  expect_error(ErrorKind::kIo, {"t", "11 bytes", "10"},
               [&] { read_text_file(folder.write("t", "12345678901"), 10); });
  expect_error(ErrorKind::kIo, {"/proc/self/status"},
               [] { read_text_file("/proc/self/status", 10); });
}

// Writes into a pipe from a thread, as a shell's <(...) does.
class PipeWriter {
 public:
  PipeWriter(const std::filesystem::path& path, std::string text)
      : thread_([path, text = std::move(text)] { std::ofstream(path, std::ios::binary) << text; }) {
  }
  ~PipeWriter() { thread_.join(); }
  PipeWriter(const PipeWriter&) = delete;
  PipeWriter& operator=(const PipeWriter&) = delete;

 private:
  std::thread thread_;
};

TEST(NamedText, IsReadFromFilesAndPipes) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_named_text(folder.write("t", "some text"), 9), "some text");
  EXPECT_FALSE(read_named_text("/proc/self/status", 1 << 20).empty());
  const auto pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::size_t size : {0u, 5u, 65536u, 3000000u}) {  // a pipe holds 65536
    const std::string text(size, 'b');
    const PipeWriter writer(pipe, text);
    EXPECT_EQ(read_named_text(pipe, 3000000), text);
  }
}

TEST(NamedText, IsReadFromStandardInput) {
  const TemporaryFolder folder;
  const FileDescriptor kept(::dup(STDIN_FILENO));
  const FileDescriptor file(::open(folder.write("t", "typed").c_str(), O_RDONLY));
  ::dup2(file.get(), STDIN_FILENO);
  EXPECT_EQ(read_named_text(kStandardInput, 100), "typed");
  EXPECT_EQ(read_named_text(kStandardInput, 100), "") << "there is no more";
  const FileDescriptor null(::open("/dev/null", O_RDONLY));
  ::dup2(null.get(), STDIN_FILENO);
  EXPECT_EQ(read_named_text(kStandardInput, 100), "");
  ::close(STDIN_FILENO);
  expect_error(ErrorKind::kIo, {"standard input"}, [] { read_named_text(kStandardInput, 100); });
  ::dup2(kept.get(), STDIN_FILENO);
}

TEST(NamedText, RefusesWithAReason) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::kIo, {"cannot open", "missing.txt", "No such file"},
               [&] { read_named_text(folder / "missing.txt", 10); });
  expect_error(ErrorKind::kIo, {"neither a file nor a pipe"},
               [&] { read_named_text(folder.path(), 10); });
  expect_error(ErrorKind::kIo, {"/dev/zero"}, [] { read_named_text("/dev/zero", 10); });
  const auto pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const PipeWriter writer(pipe, std::string(11, 'c'));
  expect_error(ErrorKind::kIo, {"pipe", "11 bytes", "10"}, [&] { read_named_text(pipe, 10); });
}

TEST(TextFile, APathIsShownOnOneLine) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::kIo, {"a\\x0ab"}, [&] { read_text_file(folder / "a\nb", 10); });
}

TEST(JsonFile, ParsesAndNamesTheFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(load_json_file(folder.write("a.json", R"({"x": [1, 2]})"))["x"][1], 2);
  expect_error(ErrorKind::kInvalidModel, {"b.json"},
               [&] { load_json_file(folder.write("b.json", "{")); });
  expect_error(ErrorKind::kInvalidModel, {"c.json", "twice"},
               [&] { load_json_file(folder.write("c.json", R"({"x": 1, "x": 2})")); });
  expect_error(ErrorKind::kInvalidModel, {"deep.json"},
               [&] { load_json_file(folder.write("deep.json", std::string(1000000, '['))); });
  expect_error(ErrorKind::kIo, {"d.json", "No such file"},
               [&] { load_json_file(folder / "d.json"); });
  expect_error(ErrorKind::kIo, {"large.json"},
               [&] { load_json_file(folder.write("large.json", "[1, 2, 3]"), 4); });
}

}  // namespace
}  // namespace nibble::io
