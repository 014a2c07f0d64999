#include <gtest/gtest.h>

#include "serve/api_error.h"
#include "serve/api_keys.h"
#include "serve/json_request.h"
#include "serve/openai_requests.h"
#include "serve/service_for_tests.h"
#include "serve/whole_answer.h"

// What a client may say, and what it is told when it may not.
namespace nibble::serve {
namespace {

using namespace std::string_literals;

// Row 26.
TEST(Requests, RefuseWhatIsNoJsonObject) {
  const std::string many(100'000, '[');
  for (const std::string& body : {""s,
                                  " "s,
                                  "null"s,
                                  "[]"s,
                                  "1"s,
                                  "\"a\""s,
                                  "{"s,
                                  "{}x"s,
                                  "{} {}"s,
                                  "{\"a\":1,}"s,
                                  "{\"a\":1e999}"s,
                                  "{\"a\":NaN}"s,
                                  "{\"a\":1,\"a\":2}"s,
                                  "{\"a\":{\"b\":1,\"b\":1}}"s,
                                  "{\"a\":\"\xff\"}"s,
                                  "{\"a\":\"\\ud800\"}"s,
                                  "{\"a\":\"\\udc00\"}"s,
                                  "{\"a\":\"\\ud800\\u0041\"}"s,
                                  "\xef\xbb\xbf{}"s,
                                  "{\"a\":\"\n\"}"s,
                                  "{\"a\":18446744073709551616}"s,
                                  "{\"a\":"s + many + "}",
                                  "{a:1}"s,
                                  "{'a':1}"s,
                                  "{\"a\":\"\0\"}"s}) {
    EXPECT_THROW(parse_request(body), ApiError) << body.substr(0, 60);
    try {
      parse_request(body);
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
    }
  }
  const OrderedJson json = parse_request("{\"b\":\"\\ud83d\\ude00\\u0000\",\"a\":[1,-2,0.5,null]}");
  EXPECT_EQ(json.begin().key(), "b") << "keys keep their order";
  EXPECT_EQ(json["b"], "\xf0\x9f\x98\x80\0"s);
}

TEST(Requests, ManyKeysTakeNoLongTime) {
  std::string body = "{";
  for (int i = 0; i < 300'000; ++i) {
    body += fmt::format("\"k{}\":{},", i, i);
  }
  body += "\"n\":2,\"prompt\":\"x\"}";
  EXPECT_EQ(read_completion(parse_request(body), {100, 100}).options.choices, 2);
}

constexpr RequestLimits kLimits{1000, 512};

void refused(const std::string& fields, const std::string& param, bool chat = false) {
  const std::string rest =
      chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]" : "\"prompt\":\"x\"";
  const bool has_rest = fields.find(chat ? "\"messages\"" : "\"prompt\"") != std::string::npos;
  const std::string body = "{" + fields + (has_rest ? "" : "," + rest) + "}";
  try {
    const OrderedJson json = parse_request(body);
    chat ? static_cast<void>(read_chat(json, kLimits))
         : static_cast<void>(read_completion(json, kLimits));
    ADD_FAILURE() << "accepted: " << body.substr(0, 200);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.type, "invalid_request_error");
    EXPECT_EQ(error.param, param) << body.substr(0, 200) << ": " << error.what();
  }
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    all += text;
  }
  return all;
}

// Row 27.
TEST(Requests, ValuesOutOfRangeAreNamed) {
  for (const char* value :
       {"0", "-1", "2147483648", "1.5", "\"5\"", "1e3", "true", "[1]", "9223372036854775808"}) {
    refused("\"max_tokens\":"s + value, "max_tokens");
    refused("\"max_completion_tokens\":"s + value, "max_completion_tokens", true);
  }
  for (const char* value : {"0", "-1", "17", "1000000", "2.0"}) {
    refused("\"n\":"s + value, "n");
  }
  for (const char* value : {"0", "17", "1.5", "true"}) {
    refused("\"best_of\":"s + value, "best_of");
  }
  refused("\"n\":3,\"best_of\":2", "best_of");
  refused("\"best_of\":2,\"stream\":true", "best_of");
  refused("\"best_of\":2,\"prompt\":[\"a\"" + repeated(R"(,"a")", 128) + "]", "best_of");
  for (const char* value : {"-1", "21", "true"}) {
    refused("\"prompt_logprobs\":"s + value, "prompt_logprobs");
    refused("\"prompt_logprobs\":"s + value, "prompt_logprobs", true);
  }
  refused("\"prompt_logprobs\":1,\"stream\":true", "prompt_logprobs");
  refused("\"echo\":true,\"logprobs\":1,\"stream\":true", "echo");
  for (const char* value : {"-1", "1e30", "\"hot\"", "-0.001", "101"}) {
    refused("\"temperature\":"s + value, "temperature");
  }
  for (const char* value : {"0", "2", "-0.5", "\"x\""}) {
    refused("\"top_p\":"s + value, "top_p");
  }
  refused("\"top_k\":-5", "top_k");
  refused("\"top_k\":1.5", "top_k");
  refused("\"min_p\":1", "min_p");
  refused("\"seed\":9223372036854775808", "seed");
  refused("\"seed\":0.5", "seed");
  refused("\"presence_penalty\":1e30", "presence_penalty");
  refused("\"presence_penalty\":-1e30", "presence_penalty");
  refused("\"frequency_penalty\":-2.1", "frequency_penalty");
  refused("\"repetition_penalty\":0", "repetition_penalty");
  refused("\"logit_bias\":{\"1000\":1}", "logit_bias");
  refused("\"logit_bias\":{\"-1\":1}", "logit_bias");
  refused("\"logit_bias\":{\"1x\":1}", "logit_bias");
  refused("\"logit_bias\":{\"99999999999999999999\":1}", "logit_bias");
  refused("\"logit_bias\":{\"1\":101}", "logit_bias");
  refused("\"logit_bias\":{\"1\":\"a\"}", "logit_bias");
  refused("\"logit_bias\":[]", "logit_bias");
  refused("\"stop\":\"\"", "stop");
  refused("\"stop\":[\"a\",\"\"]", "stop");
  refused("\"stop\":[1]", "stop");
  refused("\"stop\":{}", "stop");
  refused("\"stop\":\"" + std::string(1 << 20, 'a') + "\"", "stop");
  std::string stops = "\"stop\":[";
  std::string biases = "\"logit_bias\":{";
  for (int i = 0; i < 17; ++i) {
    stops += fmt::format("{}\"{}\"", i == 0 ? "" : ",", i);
  }
  for (int i = 0; i < 1025; ++i) {
    biases += fmt::format("{}\"{}\":0", i == 0 ? "" : ",", i);
  }
  refused(stops + "]", "stop");
  refused(biases + "}", "logit_bias");
  refused("\"stop_token_ids\":[1000]", "stop_token_ids");
  refused("\"stop_token_ids\":3", "stop_token_ids");
  refused("\"logprobs\":1000000", "logprobs");
  refused("\"logprobs\":-1", "logprobs");
  refused("\"logprobs\":true", "logprobs");
  refused("\"logprobs\":true,\"top_logprobs\":21", "top_logprobs", true);
  refused("\"top_logprobs\":2", "top_logprobs", true);
  refused("\"stream\":1", "stream");
  refused("\"stream_options\":{}", "stream_options");
  refused("\"stream\":true,\"stream_options\":{\"include_usage\":1}",
          "stream_options.include_usage");
  refused("\"model\":1", "model");
  refused("\"min_tokens\":513", "min_tokens");
}

// Rows 28, 30.
TEST(Requests, PromptsAndMessagesThatAreNoneAreNamed) {
  refused("\"prompt\":null", "prompt");
  refused("\"prompt\":5", "prompt");
  refused("\"prompt\":{}", "prompt");
  refused("\"prompt\":[1,\"a\"]", "prompt");
  refused("\"prompt\":[1,-1]", "prompt");
  refused("\"prompt\":[1000]", "prompt");
  refused("\"prompt\":[1099511627776]", "prompt");
  refused("\"prompt\":[1.5]", "prompt");
  refused("\"prompt\":[\"a\",5]", "prompt");
  refused("\"messages\":[]", "messages", true);
  refused("\"messages\":null", "messages", true);
  refused("\"messages\":\"hi\"", "messages", true);
  refused("\"messages\":[1]", "messages[0]", true);
  const auto message = [](const std::string& fields) { return "\"messages\":[{" + fields + "}]"; };
  refused(message("\"role\":\"king\",\"content\":\"x\""), "messages[0].role", true);
  refused(message("\"content\":\"x\""), "messages[0].role", true);
  refused(message("\"role\":\"user\""), "messages[0].content", true);
  refused(message("\"role\":\"user\",\"content\":null"), "messages[0].content", true);
  refused(message("\"role\":\"user\",\"content\":5"), "messages[0].content", true);
  refused(message("\"role\":\"user\",\"content\":[]"), "messages[0].content", true);
  refused(message("\"role\":\"user\",\"content\":[\"x\"]"), "messages[0].content", true);
  refused(message("\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]"),
          "messages[0].content", true);
  refused(message("\"role\":\"tool\",\"content\":\"x\""), "messages[0].tool_call_id", true);
  refused(message("\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[]"),
          "messages[0].tool_calls", true);
}

// Row 31: what is known and not built is refused, what is not known is ignored.
TEST(Requests, FieldsThatCannotBeServedAreNamed) {
  refused("\"suffix\":\"x\"", "suffix");
  refused("\"use_beam_search\":true", "use_beam_search");
  refused("\"functions\":[{\"name\":\"f\"}]", "functions", true);
  refused("\"modalities\":[\"audio\"]", "modalities", true);
  refused("\"response_format\":{\"type\":\"xml\"}", "response_format.type", true);
  refused("\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema", true);
  refused("\"guided_regex\":\"a\",\"grammar\":\"root ::= \\\"a\\\"\"", "grammar");
  const auto read = read_chat(
      parse_request("{\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\","
                    "\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}],\"tools\":[],"
                    "\"tool_choice\":\"auto\",\"store\":true,\"max_tokens\":5,\"seed\":-1,"
                    "\"max_completion_tokens\":7,\"top_k\":-1,\"no_such_field\":{\"a\":[1]}}"),
      kLimits);
  EXPECT_EQ(read.messages[0]["role"], "system");
  EXPECT_EQ(read.messages[0]["content"], "a\nb");
  EXPECT_EQ(read.options.max_tokens, 7);
  EXPECT_EQ(read.options.top_k, 0);
  EXPECT_EQ(read.options.seed, UINT64_MAX);
}

// Row 23.
TEST(ApiKeys, AreComparedAsAWhole) {
  const ApiKeys keys({"secret-key", "other"});
  const auto allowed = [&](const std::vector<std::string>& values) {
    HttpRequest request;
    for (const std::string& value : values) {
      request.headers.push_back({"AUTHORIZATION", value});
    }
    return keys.allow(request);
  };
  EXPECT_TRUE(allowed({"Bearer secret-key"}));
  EXPECT_TRUE(allowed({"bearer other"}));
  EXPECT_FALSE(allowed({}));
  EXPECT_FALSE(allowed({"Bearer secret-key", "Bearer secret-key"}));
  for (const char* wrong :
       {"Bearer secret-ke", "Bearer secret-keyx", "Bearer SECRET-KEY", "Bearer ", "Bearer",
        "secret-key", "Basic secret-key", "Bearer  secret-key", "Bearer secret-keysecret-key",
        "Bearer otherother"}) {
    EXPECT_FALSE(allowed({wrong})) << wrong;
  }
  EXPECT_FALSE(allowed({"Bearer " + std::string(8192, 'a')}));
  EXPECT_TRUE(ApiKeys({}).allow(HttpRequest{}));
  EXPECT_EQ(parse_keys("# keys\na\r\n\n b \n", "f"), (std::vector<std::string>{"a", " b"}));
  EXPECT_ANY_THROW(parse_keys("# none\n", "f"));
}

// RFC 4648, section 10.
TEST(Responses, Base64) {
  EXPECT_EQ(base64_of(""), "");
  EXPECT_EQ(base64_of("f"), "Zg==");
  EXPECT_EQ(base64_of("fo"), "Zm8=");
  EXPECT_EQ(base64_of("foo"), "Zm9v");
  EXPECT_EQ(base64_of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64_of("\xff\xef\xbe"), "/+++");
}

// The form that dashboards read: names are promised.
TEST(Metrics, NamesAndBuckets) {
  Metrics metrics("a\"b", 2000);
  metrics.first_token(0.003);
  metrics.phases(0.3, 1.0, 2.0);
  metrics.http_request("/health", "GET", 200);
  const std::string text = metrics.text({});
  for (const char* line :
       {"\nnibble:num_requests_waiting{model_name=\"a\\\"b\"} 0\n",
        "# TYPE nibble:time_to_first_token_seconds histogram\n",
        "nibble:time_to_first_token_seconds_bucket{model_name=\"a\\\"b\",le=\"0.001\"} 0\n",
        "nibble:time_to_first_token_seconds_bucket{model_name=\"a\\\"b\",le=\"0.005\"} 1\n",
        "nibble:time_to_first_token_seconds_bucket{model_name=\"a\\\"b\",le=\"2560\"} 1\n",
        "nibble:time_to_first_token_seconds_bucket{model_name=\"a\\\"b\",le=\"+Inf\"} 1\n",
        "nibble:time_to_first_token_seconds_count{model_name=\"a\\\"b\"} 1\n",
        "nibble:request_queue_time_seconds_bucket{model_name=\"a\\\"b\",le=\"0.3\"} 1\n",
        "nibble:request_prefill_time_seconds_sum{model_name=\"a\\\"b\"} 1\n",
        "nibble:request_decode_time_seconds_sum{model_name=\"a\\\"b\"} 2\n",
        "http_requests_total{handler=\"/health\",method=\"GET\",status=\"200\"} 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
  std::string names;
  for (std::size_t at = text.find("# TYPE "); at != std::string::npos;
       at = text.find("# TYPE ", at + 1)) {
    names += text.substr(at + 7, text.find(' ', at + 7) - at - 7) + "\n";
  }
  EXPECT_EQ(names,
            "nibble:num_requests_running\nnibble:num_requests_waiting\n"
            "nibble:kv_cache_usage_perc\nnibble:prompt_tokens_total\n"
            "nibble:generation_tokens_total\nnibble:num_preemptions_total\n"
            "nibble:prefix_cache_queries_total\nnibble:prefix_cache_hits_total\n"
            "nibble:spec_decode_num_draft_tokens_total\n"
            "nibble:spec_decode_num_accepted_tokens_total\n"
            "nibble:admission_rejections_total\nnibble:request_success_total\n"
            "nibble:time_to_first_token_seconds\nnibble:inter_token_latency_seconds\n"
            "nibble:e2e_request_latency_seconds\n"
            "nibble:request_queue_time_seconds\nnibble:request_prefill_time_seconds\n"
            "nibble:request_decode_time_seconds\nnibble:request_prompt_tokens\n"
            "nibble:request_generation_tokens\nnibble:request_params_max_tokens\n"
            "nibble:request_params_n\nhttp_requests_total\nprocess_resident_memory_bytes\n"
            "process_open_fds\nprocess_start_time_seconds\n");
}

}  // namespace
}  // namespace nibble::serve
