#include <cstring>
#include <span>

#include <fmt/format.h>

#include "core/error.h"
#include "core/json.h"
#include "core/ordered_json.h"
#include "io/gguf_parser.h"
#include "io/gguf_writer_for_tests.h"
#include "io/safetensors_header.h"
#include "scaling/scaling_case.h"
#include "text/tokenizer.h"

namespace nibble::scaling {
namespace {

constexpr std::size_t kMost = std::size_t{1} << 21;
constexpr std::size_t kMostTokens = std::size_t{1} << 17;  // maps stay in the caches of a core

std::string safetensors(std::string_view header) {
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof(length));
  return file.append(header);
}

std::string joined(std::size_t bytes, std::string_view open, std::string_view close,
                   std::string (*member)(std::size_t index)) {
  std::string text(open);
  for (std::size_t i = 0; text.size() < bytes; ++i) {
    text += (i == 0 ? "" : ",") + member(i);
  }
  return text.append(close);
}

std::string empty_tensor(const std::string& name) {
  return fmt::format(R"("{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", name);
}

// Of one hash, each as a member of an object.
std::string colliding(std::size_t bytes, std::string_view open, std::string_view close,
                      std::string (*member)(const std::string& name)) {
  std::string text(open);
  for (const std::string& name : texts_of_one_hash(bytes / 80)) {
    text += (text.size() == open.size() ? "" : ",") + member(name);
  }
  return text.append(close);
}

std::string long_shape(std::size_t bytes, std::string_view extent) {
  return safetensors(fmt::format(R"({{"a":{{"dtype":"F32","shape":[{}1],"data_offsets":[0,4]}}}})",
                                 repeated(extent, bytes)) +
                     std::string()) +
         std::string(4, '\0');
}

using MakeFile = std::string (*)(std::size_t bytes);

void add_safetensors(Cases& cases, const char* name, MakeFile make) {
  cases.push_back({fmt::format("safetensors header: {}", name),
                   [make](std::size_t size) {
                     return [file = make(size)] {
                       (void)io::parse_safetensors_header(std::as_bytes(std::span(file)), "probe");
                     };
                   },
                   kMost});
}

void add_gguf(Cases& cases, const char* name, MakeFile make) {
  cases.push_back({fmt::format("GGUF header: {}", name),
                   [make](std::size_t size) {
                     return [file = make(size)] {
                       (void)io::parse_gguf(std::as_bytes(std::span(file)), "probe");
                     };
                   },
                   kMost});
}

void add_json(Cases& cases, const char* name, MakeFile make) {
  cases.push_back({fmt::format("JSON file: {}", name),
                   [make](std::size_t size) {
                     return [text = make(size)] {
                       (void)core::parse_json(text, "probe");
                       (void)core::parse_ordered_json(text, "probe");
                     };
                   },
                   kMost});
}

std::string gguf_keys(std::size_t bytes) {
  const std::size_t keys = bytes / 24;
  io::GgufBytes file;
  file.header(0, keys);
  for (std::size_t i = 0; i < keys; ++i) {
    file.key_u32(fmt::format("key.{}", i), 1);
  }
  return file.pad().bytes();
}

std::string gguf_tensors(std::size_t bytes) {
  const std::size_t tensors = bytes / 48;
  io::GgufBytes file;
  file.header(tensors, 0);
  for (std::size_t i = 0; i < tensors; ++i) {
    file.tensor(fmt::format("t{}", i), {8}, 0, 32 * i);
  }
  file.pad();
  file.data(32 * tensors);
  return file.bytes();
}

std::string gguf_strings(std::size_t bytes) {
  io::GgufBytes file;
  file.header(0, 1).string("strings").u32(9).u32(8).u64(bytes / 9);
  for (std::size_t i = 0; i < bytes / 9; ++i) {
    file.string("a");
  }
  return file.pad().bytes();
}

void add_tokenizer_file(Cases& cases, const char* name, MakeFile make) {
  cases.push_back({fmt::format("tokenizer.json: {}", name),
                   [make](std::size_t size) {
                     return [text = make(size)] {
                       (void)text::Tokenizer::from_json(text, "", "probe");
                     };
                   },
                   kMostTokens});
}

std::string word_level(std::string_view vocabulary, std::string_view added,
                       std::string_view frame) {
  return fmt::format(R"({{"version":"1.0","added_tokens":[{}],"post_processor":{},"model":)"
                     R"({{"type":"WordLevel","unk_token":"a0","vocab":{{{}}}}}}})",
                     added, frame, vocabulary);
}

std::string tokens(std::size_t bytes) {
  return joined(bytes, "", "", [](std::size_t i) { return fmt::format(R"("a{}":{})", i, i); });
}

std::string colliding_tokens(std::size_t bytes) {
  std::string vocabulary = R"("a0":0)";
  std::size_t id = 0;
  for (const std::string& name : texts_of_one_hash(bytes / 24)) {
    vocabulary += fmt::format(R"(,"{}":{})", name, ++id);
  }
  return word_level(vocabulary, "", "null");
}

std::string added_tokens(std::size_t bytes) {
  return joined(bytes, "", "", [](std::size_t i) {
    return fmt::format(
        R"({{"id":{},"content":"<{}>","single_word":false,"lstrip":false,"rstrip":false,)"
        R"("normalized":true,"special":true}})",
        i + 1, i);
  });
}

std::string framed(std::size_t bytes) {
  const std::string ids = repeated("0,", bytes / 2) + "0";
  return word_level(
      R"("a0":0)", added_tokens(bytes / 2),
      fmt::format(R"({{"type":"TemplateProcessing","single":[{{"SpecialToken":{{"id":"x"}}}},)"
                  R"({{"Sequence":{{"id":"A"}}}}],"special_tokens":{{"x":{{"ids":[{}]}}}}}})",
                  ids));
}

}  // namespace

void add_file_cases(Cases& cases) {
  add_safetensors(cases, "tensors", [](std::size_t n) {
    return safetensors(
        joined(n, "{", "}", [](std::size_t i) { return empty_tensor(fmt::format("t{}", i)); }));
  });
  add_safetensors(cases, "metadata", [](std::size_t n) {
    return safetensors(joined(n, R"({"__metadata__":{)", "}}",
                              [](std::size_t i) { return fmt::format(R"("k{}":"v")", i); }));
  });
  add_safetensors(cases, "a shape of ones", [](std::size_t n) { return long_shape(n, "1,"); });
  add_safetensors(cases, "a shape of noughts", [](std::size_t n) { return long_shape(n, "0,"); });
  add_safetensors(cases, "a long name", [](std::size_t n) {
    return safetensors("{" + empty_tensor(std::string(n, 'n')) + "}");
  });
  add_safetensors(cases, "spaces",
                  [](std::size_t n) { return safetensors("{" + repeated(" ", n) + "}"); });
  add_safetensors(cases, "brackets",
                  [](std::size_t n) { return safetensors("{\"a\":" + repeated("[", n)); });
  add_gguf(cases, "keys", gguf_keys);
  add_gguf(cases, "tensors", gguf_tensors);
  add_gguf(cases, "strings", gguf_strings);
  add_gguf(cases, "a long string", [](std::size_t n) {
    return io::GgufBytes().header(0, 1).key_string("k", std::string(n, 'v')).pad().bytes();
  });
  add_json(cases, "keys", [](std::size_t n) {
    return joined(n, "{", "}", [](std::size_t i) { return fmt::format(R"("k{}":1)", i); });
  });
  add_json(cases, "keys of one hash", [](std::size_t n) {
    return colliding(n, "{", "}", [](const std::string& name) { return "\"" + name + "\":1"; });
  });
  add_json(cases, "numbers", [](std::size_t n) { return "[" + repeated("-1.5e-300,", n) + "1]"; });
  add_json(cases, "a long number", [](std::size_t n) { return "[1." + repeated("3", n) + "]"; });
  add_json(cases, "escapes",
           [](std::size_t n) { return "[\"" + repeated("\\ud83d\\ude00", n) + "\"]"; });
  add_tokenizer_file(cases, "tokens",
                     [](std::size_t n) { return word_level(tokens(n), "", "null"); });
  add_tokenizer_file(cases, "tokens of one hash", colliding_tokens);
  add_tokenizer_file(cases, "added tokens", [](std::size_t n) {
    return word_level(R"("a0":0)", added_tokens(n), "null");
  });
  add_tokenizer_file(cases, "a long frame", framed);
}

}  // namespace nibble::scaling
