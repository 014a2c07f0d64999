#include "eval/tasks/task_files.h"

#include <fstream>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/temporary_folder_for_tests.h"

namespace nibble::eval {
namespace {

namespace fs = std::filesystem;

const fs::path kOwn = NIBBLE_SOURCE_DIR "/tests/data/tasks";

void expect_part(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

class TaskFiles : public ::testing::Test {
 protected:
  // The message with which a file of these bytes is refused.
  std::string refusal(std::string_view task_name, const std::string& bytes) {
    const Task& task = find_task(task_name);
    const fs::path file = folder_ / "data";
    std::ofstream(file, std::ios::binary) << bytes;
    try {
      read_task_items(file, task, 0);
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel) << error.what();
      return error.what();
    }
    return "taken";
  }

  const core::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

std::vector<TaskItem> own_items(std::string_view name) {
  const Task& task = find_task(name);
  return read_task_items(find_task_parts(kOwn, task).front().file, task, 0);
}

TEST_F(TaskFiles, PromptsOfEachTask) {
  const auto expect = [](std::string_view name, std::size_t item, std::size_t choice,
                         std::string_view context, std::string_view continuation) {
    const LikelihoodRequest request = own_items(name).at(item).requests.at(choice);
    EXPECT_EQ(request.context, context) << name;
    EXPECT_EQ(request.continuation, continuation) << name;
  };
  expect("arc_easy", 1, 1,
         "Question: Which of these is a liquid in a warm room?\nAnswer:", " a stone");
  expect("piqa", 3, 0, "Question: sharpen a pencil\nAnswer:", " turn it in a sharpener");
  expect("hellaswag", 0, 2, "Making tea: A woman fills a kettle with water. She", " is a kettle.");
  expect(
      "hellaswag", 1, 0,
      "Mending a net: Two men sit on the quay. They hold a long net between them. One of the men",
      " flies over the net.");
  expect("hellaswag", 2, 1, "Sweeping: The floor is full of leaves.",
         " A girl takes a broom and begins to sweep.");
  expect("openbookqa", 1, 1, "Where does a river end?", " in the sea");
  expect("copa", 0, 1, "The lamp went out because", "  the window was clean.");
  expect("copa", 1, 0, "The boy spilled the milk therefore", "  he found a coin.");
  expect("boolq", 1, 1,
         "The bridge was closed in winter because the wind was too strong for carts.\n"
         "Question: was the bridge open in winter?\nAnswer:",
         " yes");
  expect("winogrande", 2, 1, "The hammer broke the glass, so we replaced the glass", " .");
  expect("lambada_openai", 3, 0, "It was the first time that he had been in the", " house");
  expect("blimp", 2, 1, "", " This lamps burn.");
}

TEST_F(TaskFiles, LengthsAreCharactersWithoutDelimiter) {
  EXPECT_EQ(own_items("copa")[0].choice_lengths[0], 20);
  EXPECT_EQ(own_items("piqa")[2].choice_lengths[0], 34) << "the dash is one character";
}

TEST_F(TaskFiles, LimitCountsItems) {
  const Task& piqa = find_task("piqa");
  EXPECT_EQ(read_task_items(kOwn / "piqa.jsonl", piqa, 2).size(), 2u);
  EXPECT_EQ(read_task_items(kOwn / "piqa.jsonl", piqa, 100).size(), 4u);
}

TEST_F(TaskFiles, AFolderHasAPartForEachFile) {
  const auto parts = find_task_parts(kOwn, find_task("blimp"));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].name, "blimp_agreement");
  EXPECT_EQ(parts[1].name, "blimp_order");
}

TEST_F(TaskFiles, LinesMayEndInCarriageReturns) {
  const Task& task = find_task("lambada_openai");
  std::ofstream(folder_ / "crlf") << "{\"context\":\"a\",\"continuation\":\"b\"}\r\n";
  EXPECT_EQ(read_task_items(folder_ / "crlf", task, 0)[0].requests[0].continuation, " b");
}

TEST_F(TaskFiles, MalformedLinesAreNamed) {
  const std::string good = R"({"query":"a","choices":["b","c"],"gold":1})"
                           "\n";
  const auto expect = [&](const std::string& line, const std::string& part) {
    const std::string message = refusal("piqa", good + line);
    expect_part(message, "data, line 2: ");
    expect_part(message, part);
  };
  expect("{\"query\":", "not valid JSON");
  expect("\n", "not valid JSON");
  expect("[1]", "expected a JSON object");
  expect(R"({"choices":["b","c"],"gold":1})", "query");
  expect(R"({"query":"","choices":["b","c"],"gold":1})", "'query' is empty");
  expect(R"({"query":"a","gold":1})", "expected a list of texts in 'choices'");
  expect(R"({"query":"a","choices":["b"],"gold":0})", "'choices' holds 1 texts");
  expect(R"({"query":"a","choices":["b",7],"gold":0})", "not a text");
  expect(R"({"query":"a","choices":["b",""],"gold":0})", "not a text");
  expect(R"({"query":"a","choices":["b","c"],"gold":2})", "gold");
  expect(R"({"query":"a","choices":["b","c"],"gold":-1})", "gold");
  expect(R"({"query":"a","choices":["b","c"],"gold":"1"})", "gold");
  expect(R"({"query":"a","choices":["b","c"]})", "gold");
  expect("{\"query\":\"\xff\",\"choices\":[\"b\",\"c\"],\"gold\":0}", "not valid JSON");
  expect_part(refusal("piqa", ""), "holds no item");
}

TEST_F(TaskFiles, MalformedItemsOfSixLinesAreNamed) {
  expect_part(refusal("hellaswag", "A. b\n1\nc\nd\ne\n"), "line 6: the file ends");
  expect_part(refusal("hellaswag", "A. b\n4\nc\nd\ne\nf\n"), "line 2: expected the number");
  expect_part(refusal("hellaswag", "A. b\nx1\nc\nd\ne\nf\n"), "not 'x1'");
  expect_part(refusal("hellaswag", "A. b\n1\nc\n\ne\nf\n"), "line 4: an empty line");
  expect_part(refusal("hellaswag", "A. b\n1\nc\n\xc3\ne\nf\n"), "line 4: not valid UTF-8");
  expect_part(refusal("hellaswag", "\n1\nc\nd\ne\nf\n"), "line 1: expected the context");
}

TEST_F(TaskFiles, MissingFilesAndUnknownTasks) {
  try {
    find_task_parts(folder_, find_task("piqa"));
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kIo);
    expect_part(error.what(), "piqa.jsonl' does not exist");
  }
  fs::create_directories(folder_ / "blimp");
  EXPECT_THROW(find_task_parts(folder_, find_task("blimp")), core::Error);
  try {
    find_task("mmlu");
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    expect_part(error.what(), "'mmlu' is not known (tasks are arc_easy, ");
  }
}

}  // namespace
}  // namespace nibble::eval
