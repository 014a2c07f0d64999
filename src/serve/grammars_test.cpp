#include "serve/service_for_tests.h"

// Grammars that cost too much are the client's fault: 400, and an error event once a stream began.
namespace nibble::serve {
namespace {

const std::string kAmbiguous =
    R"({"prompt":"a","max_tokens":400,"temperature":0,"guided_regex":"(.{1,200}){1,90}x")";

TEST_F(ServiceTest, AGrammarThatIsReadInTooManyWaysIsTheClientsFault) {
  start();
  is_error(post("/v1/completions", kAmbiguous + "}"), 400, "", "ways");
  const auto stream = post("/v1/completions", kAmbiguous + R"(,"stream":true})");
  EXPECT_EQ(stream.status, 200);
  EXPECT_NE(stream.body.find("invalid_request_error"), std::string::npos) << stream.body;
  EXPECT_NE(stream.body.find(" ways "), std::string::npos) << stream.body;
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","max_tokens":1})").status, 200);
}

TEST_F(ServiceTest, RepetitionsInRepetitionsWithinTheBudgetAreWritten) {
  start();
  const auto answer = complete(
      R"({"prompt":"a","max_tokens":30,"temperature":0,"guided_regex":"([a-z]{1,8} ){1,20}"})");
  EXPECT_FALSE(answer.at("choices")[0].at("text").get<std::string>().empty());
}

}  // namespace
}  // namespace nibble::serve
