#include "engine/text_batches.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/json.h"
#include "io/json_file.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using text::ModelInput;

ModelInput make_input(const text::Tokenizer& tokenizer, const InputText& text,
                      const InputOptions& options, const std::string& where) {
  const std::int64_t most = options.truncate ? options.most_tokens : 0;
  ModelInput input =
      text::encode_for_model(tokenizer, text.first, text.second, {.most_tokens = most});
  const auto tokens = static_cast<std::int64_t>(input.ids.size());
  core::require(tokens > 0, ErrorKind::kFailed, "{}: the text has no token", where);
  core::require(tokens <= options.most_tokens, ErrorKind::kFailed,
                "{}: {} tokens are more than the {} that the model takes", where, tokens,
                options.most_tokens);
  return input;
}

// The files in which sentence-transformers looks for its length, in its order.
constexpr std::array<std::string_view, 7> kSentenceFiles = {
    "sentence_bert_config.json",       "sentence_roberta_config.json",
    "sentence_distilbert_config.json", "sentence_camembert_config.json",
    "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json"};

// What sentence-transformers cuts texts to, where the folder says so.
std::optional<std::int64_t> sentence_length(const models::Model& model) {
  const auto* const found = std::find_if(
      kSentenceFiles.begin(), kSentenceFiles.end(),
      [&](std::string_view name) { return std::filesystem::exists(model.path / name); });
  if (found == kSentenceFiles.end()) {
    return std::nullopt;
  }
  return core::find_integer(io::load_json_file(model.path / *found), "max_seq_length", *found, 1,
                            INT32_MAX);
}

// Inputs that are computed together.
class Batch {
 public:
  Batch(const InputOptions& options, const RunBatch& run) : options_(options), run_(run) {}

  bool has_room(const ModelInput& input) const {
    return inputs_.empty() || tokens_ + size(input) <= options_.batch_tokens;
  }

  void add(ModelInput input) {
    tokens_ += size(input);
    inputs_.push_back(std::move(input));
  }

  void run() {
    std::vector<EncoderText> texts;
    for (const ModelInput& input : inputs_) {
      texts.push_back({input.ids, {}});
      if (options_.token_types) {
        texts.back().types = input.types;
      }
    }
    run_(first_, inputs_, texts);
    first_ += inputs_.size();
    inputs_.clear();
    tokens_ = 0;
  }

 private:
  static std::int64_t size(const ModelInput& input) {
    return static_cast<std::int64_t>(input.ids.size());
  }

  const InputOptions& options_;
  const RunBatch& run_;
  std::size_t first_ = 0;
  std::int64_t tokens_ = 0;
  std::vector<ModelInput> inputs_;
};

}  // namespace

bool is_encoder(const models::Model& model) {
  return model.network.has_encoder() && !model.network.has_decoder();
}

bool complete_pooling(models::Network& network) {
  const bool missing = !network.pooling;
  if (missing) {
    network.pooling = {models::PoolingMode::kMean, false};
  }
  return missing;
}

InputOptions input_options(const models::Model& model, const Encoder& encoder) {
  const std::int64_t positions = encoder.max_tokens();
  InputOptions options;
  const auto said = sentence_length(model);
  options.most_tokens =
      std::min(positions, said ? *said : text::longest_input(*model.tokenizer).value_or(positions));
  const core::Tensor& types = model.network.embeddings.types;
  options.token_types = !types.empty() && types.dim(0) > 1;
  return options;
}

std::int64_t for_each_batch(const text::Tokenizer& tokenizer, std::span<const InputText> texts,
                            const InputOptions& options,
                            const std::function<std::string(std::size_t)>& where,
                            const RunBatch& run) {
  std::int64_t truncated = 0;
  Batch batch(options, run);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ModelInput input = make_input(tokenizer, texts[i], options, where(i));
    truncated += input.truncated ? 1 : 0;
    if (!batch.has_room(input)) {
      batch.run();
    }
    batch.add(std::move(input));
  }
  if (!texts.empty()) {
    batch.run();
  }
  return truncated;
}

}  // namespace nibble::engine
