#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/ordered_json.h"
#include "serve/json_text.h"
#include "serve/tool_requests.h"

/// The requests of OpenAI's API (and the fields that vLLM and llama.cpp added to it) as typed
/// values, checked against their ranges. Fields that are not known are ignored; those that are
/// known and cannot be served are refused by name with status 400.
namespace nibble::serve {

/// What requests are checked against.
struct RequestLimits {
  std::int32_t vocabulary = 0;
  std::int64_t context = 0;
};

inline constexpr int kMaxChoices = 16;  // and texts that they are chosen from
inline constexpr int kMaxLogProbabilities = 20;
inline constexpr std::size_t kMaxStops = 16;
inline constexpr std::size_t kMaxStopBytes = 1000;
inline constexpr std::size_t kMaxBiases = 1024;
inline constexpr std::size_t kMaxPrompts = 256;
inline constexpr std::size_t kMaxInputs = 2048;  // of embeddings

/// What the text must be.
struct Constraint {
  enum class Kind { kNone, kJsonObject, kJsonSchema, kRegex, kGrammar };
  Kind kind = Kind::kNone;
  std::string param;   // the field that asked for it
  std::string text;    // kRegex, kGrammar
  OrderedJson schema;  // kJsonSchema
};

/// What all requests for text have in common. Defaults are OpenAI's.
struct GenerationOptions {
  std::optional<std::int64_t> max_tokens;
  std::int64_t min_tokens = 0;
  int choices = 1;
  int texts = 1;  // that are written ("best_of"); the most probable ones are the choices
  double temperature = 1.0;
  double top_p = 1.0;
  double min_p = 0.0;
  std::int64_t top_k = 0;  // 0: all
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  std::optional<std::uint64_t> seed;  // else one that nobody knows
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_tokens;
  bool ignore_end_tokens = false;
  Constraint constraint;
  std::optional<int> log_probabilities;         // of how many tokens beside the chosen one
  std::optional<int> prompt_log_probabilities;  // the same for the prompt
  std::string cache_salt;
  bool stream = false;
  bool include_usage = false;
};

/// A text, or its tokens.
using Prompt = std::variant<std::string, std::vector<std::int32_t>>;

struct CompletionRequest {
  std::string model;
  std::vector<Prompt> prompts;
  bool echo = false;
  bool add_special = true;
  GenerationOptions options;
};

struct ChatRequest {
  std::string model;
  OrderedJson messages;         // objects with "role" and "content"; contents are strings
  OrderedJson template_values;  // chat_template_kwargs, or null
  bool add_generation_prompt = true;
  ToolOptions tools;
  GenerationOptions options;
};

struct EmbeddingsRequest {
  std::string model;
  std::vector<Prompt> inputs;
  bool base64 = false;
  std::optional<std::int64_t> dimensions;
};

struct TokenizeRequest {
  std::string text;
  std::optional<ChatRequest> chat;  // instead of the text
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
};

struct DetokenizeRequest {
  std::vector<std::int32_t> tokens;
  bool skip_special = false;
};

/// The field that asked for so many texts.
std::string field_of_texts(int texts, int choices);

CompletionRequest read_completion(const OrderedJson& json, const RequestLimits& limits);
ChatRequest read_chat(const OrderedJson& json, const RequestLimits& limits);
EmbeddingsRequest read_embeddings(const OrderedJson& json, const RequestLimits& limits);
/// The same without regard to fields about inputs that are too long.
EmbeddingsRequest read_embedding_fields(const OrderedJson& json, const RequestLimits& limits);
TokenizeRequest read_tokenize(const OrderedJson& json, const RequestLimits& limits);
DetokenizeRequest read_detokenize(const OrderedJson& json, const RequestLimits& limits);

}  // namespace nibble::serve
