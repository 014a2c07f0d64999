#include "io/text_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

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
