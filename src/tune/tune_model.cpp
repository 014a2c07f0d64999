#include "tune/tune_model.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/ranges.h>

#include "compress/block/compressed_block.h"
#include "compress/block/decoded_block.h"
#include "compress/calibration/calibration.h"
#include "compress/calibration/pack_forward.h"
#include "compress/pipeline/checkpoint.h"
#include "compress/pipeline/model_card.h"
#include "core/byte_size.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/memory.h"
#include "models/forward.h"
#include "ops/gradient/rounded_input.h"
#include "tune/activation_bytes.h"
#include "tune/adamw.h"
#include "tune/block_layers.h"
#include "tune/finished_blocks.h"
#include "tune/tune_block.h"
#include "tune/tune_network.h"
#include "tune/tuned_layer.h"

namespace nibble::tune {
namespace {

using compress::CompressedBlock;
using core::ErrorKind;
using core::Json;
using models::Block;
using ops::cpu::CpuOps;

constexpr const char* kStateFile = "e2e.training.safetensors";
constexpr const char* kProgressFile = "tuning.json";

// How many weights the linear layers of a block have.
std::int64_t weights_of(const Block& block) {
  std::int64_t weights = 0;
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    weights += set->n() * set->k();
  }
  return weights;
}

// How many groups those of them have that are trained.
std::int64_t groups_of(const Block& block) {
  std::int64_t groups = 0;
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    for (const ops::Linear& layer : set->parts) {
      const formats::PackedWeight& weight = layer.weight;
      if (formats::has_codes(weight.scheme)) {
        groups += weight.n * formats::groups_per_row(weight.scheme, weight.k);
      }
    }
  }
  return groups;
}

std::string to_string(const TrainingMemory& memory, std::string_view of) {
  const auto megabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  return fmt::format(
      "about {:.0f} MB for {}{}", megabytes(memory.host), of,
      memory.gpu > 0 ? fmt::format(", and {:.0f} MB of the GPU", megabytes(memory.gpu)) : "");
}

std::int64_t rows_of(const core::Tensor& table) {
  return table.empty() ? 0 : table.dim(0);
}

// A layer of a block: "[64, 32] of set 2". Names may differ, as those of a GGUF file do.
std::string size_of(const ops::Linear& layer, std::size_t set) {
  return fmt::format("[{}, {}] of set {}", layer.weight.n, layer.weight.k, set + 1);
}

std::vector<std::pair<std::string, std::string>> layers_of(const Block& block) {
  std::vector<std::pair<std::string, std::string>> layers;  // name, size
  const auto sets = models::linear_sets(block);
  for (std::size_t s = 0; s < sets.size(); ++s) {
    for (const ops::Linear& layer : sets[s]->parts) {
      layers.emplace_back(core::printable(layer.name).str(), size_of(layer, s));
    }
  }
  return layers;
}

// Layer by layer: config.json does not state all sizes, and blocks may differ from it.
void require_same_layers(const models::Model& compressed, const models::Model& teacher) {
  const auto& own_blocks = compressed.network.decoder.blocks;
  const auto& their_blocks = teacher.network.decoder.blocks;
  for (std::size_t b = 0; b < own_blocks.size(); ++b) {
    auto own = layers_of(own_blocks[b]);
    auto theirs = layers_of(their_blocks[b]);
    const std::pair<std::string, std::string> nothing = {"no layer", "there"};
    own.resize(std::max(own.size(), theirs.size()), nothing);
    theirs.resize(own.size(), nothing);
    for (std::size_t i = 0; i < own.size(); ++i) {
      core::require(own[i].second == theirs[i].second, ErrorKind::kUsage,
                    "{} is not the model that {} was made from: in block {} it has {} {}, not {} "
                    "{}",
                    io::shown(teacher.path), io::shown(compressed.path), b + 1, theirs[i].first,
                    theirs[i].second, own[i].first, own[i].second);
    }
  }
}

void require_tunable(const models::Model& compressed, const models::Model& teacher,
                     const TuningOptions& options) {
  const models::Network& network = compressed.network;
  core::require(network.has_decoder() && !network.has_encoder(), ErrorKind::kUsage,
                "bqpo and e2e-oqp tune decoders; {} has an encoder", io::shown(compressed.path));
  core::require(network.config.routing.experts == 0, ErrorKind::kUsage,
                "mixtures of experts are not tuned: gradients do not pass through their router");
  core::require(compressed.compression.reader == nullptr, ErrorKind::kUsage,
                "{} was compressed by another tool; tuning takes models that nibble quantize wrote",
                io::shown(compressed.path));
  bool has_layers = false;
  for (const Block& block : network.decoder.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      for (const ops::Linear& layer : set->parts) {
        if (!formats::is_dense(layer.weight.scheme)) {
          has_layers = true;
          require_trainable(layer.weight.scheme);
          core::require(!options.model.runs || has_trained_scales(layer.weight.scheme),
                        ErrorKind::kUsage,
                        "layers in {} have no scales and zero points, which e2e-oqp trains; take "
                        "--stage bqpo",
                        layer.weight.scheme);
          if (options.place.on_gpu()) {
            ops::gradient::require_rounded_on_gpu(layer.name, layer.weight.scheme.activation);
          }
        }
      }
    }
  }
  core::require(has_layers, ErrorKind::kUsage,
                "{} has no compressed layers in its blocks: quantize it first, and give the "
                "original as --teacher",
                io::shown(compressed.path));
  const auto shape = [](const models::Model& model) {
    const models::NetworkConfig& config = model.network.config;
    return std::vector<std::int64_t>{std::ssize(model.network.decoder.blocks),
                                     config.hidden,
                                     config.heads,
                                     config.kv_heads,
                                     config.head_dim,
                                     config.ffn,
                                     config.vocabulary,
                                     rows_of(model.network.embeddings.positions)};
  };
  core::require(teacher.network.has_decoder() && shape(compressed) == shape(teacher),
                ErrorKind::kUsage,
                "{} is not the model that {} was made from: its shape is another",
                io::shown(teacher.path), io::shown(compressed.path));
  require_same_layers(compressed, teacher);
  const auto ids = [](const models::Model& model) {
    return core::to_float32(model.network.embeddings.tokens.plain().rows(0, 1));
  };
  core::require(!options.blocks.runs || ids(compressed) == ids(teacher), ErrorKind::kUsage,
                "the residual stream of {} is not that of the float model (it was rotated), so "
                "that blocks cannot be compared; take --stage e2e-oqp",
                io::shown(compressed.path));
}

// What the bits of the result depend on: not which of several GPUs.
Json device_json(const TuningOptions& options) {
  if (!options.place.on_gpu()) {
    return "cpu";
  }
  return {"cuda", ops::gradient::to_string(options.precision)};
}

Json job_of(const models::Model& compressed, const models::Model& teacher,
            const TuningOptions& options) {
  Json texts = Json::array();
  for (const compress::CalibrationText& text : options.calibration.texts) {
    texts.push_back(
        {text->size(), fmt::format("{:016x}", core::hash64(std::as_bytes(std::span(*text))))});
  }
  const auto stage_json = [](const StageOptions& stage) {
    return Json{
        {"runs", stage.runs},
        {"epochs", stage.epochs},
        {"rates", {stage.learning_rate, stage.scale_rate, stage.zero_rate, stage.code_rate}}};
  };
  return {{"format_version", models::kCheckpointVersion},
          {"source", std::filesystem::absolute(compressed.path).string()},
          {"teacher", std::filesystem::absolute(teacher.path).string()},
          {"bqpo", stage_json(options.blocks)},
          {"e2e-oqp", stage_json(options.model)},
          {"loss", {options.loss.labels, options.loss.logits}},
          {"calibration",
           {{"texts", std::move(texts)},
            {"samples", options.calibration.samples},
            {"seq_len", options.calibration.seq_len}}},
          {"batch", {options.batch, options.accumulate}},
          {"patience", options.patience},
          {"seed", options.seed},
          {"device", device_json(options)}};
}

class ModelTuner {
 public:
  ModelTuner(const models::Model& compressed, const models::Model& teacher,
             const TuningOptions& options, compress::CheckpointWriter& writer,
             core::ProgressSink& progress)
      : compressed_(compressed),
        teacher_(teacher),
        options_(options),
        writer_(writer),
        progress_(progress),
        ops_({options.threads, ops::ActivationPrecision::kFloat}),
        token_windows_(compress::read_calibration(compressed, options.calibration)),
        windows_(token_windows_, options.batch, options.accumulate),
        device_(make_tuning_device(options.place, options.precision, ops_)),
        curve_(options.csv),
        network_(compressed.network) {}

  void run() {
    curve_.start();
    say_memory();
    read_progress();
    if (options_.blocks.runs) {
      tune_blocks();
    }
    if (options_.model.runs) {
      tune_whole();
    }
    for (std::size_t b = 0; b < network_.decoder.blocks.size(); ++b) {
      writer_.write_block(static_cast<std::int64_t>(b), packed_layers(network_.decoder.blocks[b]));
    }
    curve_.save();
  }

  // When the whole folder is written: until then, nothing of an interrupted job is lost.
  void forget() const {
    // In this order: blocks that hold tuned scales must not be taken for those of BQPO.
    std::filesystem::remove(writer_.folder() / kProgressFile);
    std::filesystem::remove(writer_.folder() / kStateFile);
  }

 private:
  void say_memory() const {
    TrainingSize size;
    for (const Block& block : network_.decoder.blocks) {
      size.largest_block = std::max(size.largest_block, weights_of(block));
      size.all_blocks += weights_of(block);
      size.groups += groups_of(block);
    }
    size.trains_codes = options_.model.code_rate > 0;
    const auto& config = network_.config;
    size.all_activations = activation_bytes(network_.decoder, windows_.tokens() * options_.batch);
    size.block_activations = size.all_activations / std::ssize(network_.decoder.blocks);
    size.states =
        std::int64_t{4} * 2 * windows_.tokens() * std::ssize(token_windows_) * config.hidden;
    size.vocabulary = config.vocabulary;
    std::vector<std::string> parts;
    if (options_.blocks.runs) {
      parts.push_back(to_string(device_->memory_of_block(size), "a block"));
    }
    if (options_.model.runs) {
      parts.push_back(to_string(device_->memory_of_model(size), "the whole model"));
    }
    progress_.message(fmt::format("{} windows of {} tokens, {} to learn from; memory: {}",
                                  token_windows_.size(), windows_.tokens(), windows_.learned(),
                                  fmt::join(parts, ", ")));
  }

  // How many blocks an earlier run has finished, and the steps of the loss curve behind each. Ends
  // before the first block whose shard is not there; a state of the whole model that is older than
  // a block is of no use then.
  void read_progress() {
    if (!options_.blocks.runs) {
      return;
    }
    const auto file = writer_.folder() / kProgressFile;
    steps_ = read_finished_blocks(file, network_.decoder.blocks.size());
    for (std::size_t b = 0; b < steps_.size(); ++b) {
      auto block =
          writer_.finished_block(static_cast<std::int64_t>(b), compressed_.compression.schemes);
      if (!block) {
        steps_.resize(b);
        break;
      }
      finished_.push_back(std::move(*block));
    }
    if (steps_.size() < network_.decoder.blocks.size()) {
      std::filesystem::remove(writer_.folder() / kStateFile);
    }
  }

  void write_progress() {
    curve_.save();
    write_finished_blocks(writer_.folder() / kProgressFile, steps_);
  }

  void tune_blocks() {
    compress::WindowStore inputs(std::nullopt);
    compress::WindowStore targets(std::nullopt);
    for (const auto& tokens : token_windows_) {
      const compress::CalibrationPack pack{tokens, {}, {std::ssize(tokens)}};
      inputs.add(models::embed(ops_, network_, compress::PackBatch(pack).batch()));
      targets.add(models::embed(ops_, teacher_.network, compress::PackBatch(pack).batch()));
    }
    if (!steps_.empty()) {
      curve_.resume(steps_.back());
    }
    const auto blocks = std::ssize(network_.decoder.blocks);
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto at = static_cast<std::size_t>(b);
      const Block original = compress::decoded(teacher_.network.decoder.blocks[at], ops_.pool());
      advance(original, targets);
      tune_one(b, original, inputs, targets);
      advance(compress::decoded(network_.decoder.blocks[at], ops_.pool()), inputs);
    }
  }

  void tune_one(std::int64_t b, const Block& original, const compress::WindowStore& inputs,
                const compress::WindowStore& targets) {
    Block& block = network_.decoder.blocks[static_cast<std::size_t>(b)];
    if (b < std::ssize(finished_)) {
      block = compress::apply_compressed(block, finished_[static_cast<std::size_t>(b)]);
      return;
    }
    const bool comparable = compressed_.compression.keeps_inputs.value_or(false);
    BlockGain gain;
    const CompressedBlock tuned =
        tune_block({b + 1, network_.config, network_.decoder.norms, block,
                    comparable ? &original : nullptr, inputs, targets},
                   windows_, options_, *device_, ops_, curve_, progress_, gain);
    progress_.message(fmt::format("block {} of {}: error of its output {:.5f}, was {:.5f}; {} {}",
                                  b + 1, network_.decoder.blocks.size(), gain.after, gain.before,
                                  gain.epochs, gain.epochs == 1 ? "epoch" : "epochs"));
    block = compress::apply_compressed(block, tuned);
    writer_.write_block(b, tuned);
    steps_.push_back(curve_.steps());
    write_progress();
  }

  void advance(const Block& block, compress::WindowStore& store) {
    device_->advance(network_.config, network_.decoder.norms, block, windows_, store);
  }

  void tune_whole() {
    ModelGain gain;
    const auto layers = tune_network(network_, teacher_.network, windows_, options_, *device_,
                                     writer_.folder() / kStateFile, curve_, progress_, gain);
    progress_.message(fmt::format("loss on the judging windows {:.4f}, was {:.4f}{}", gain.after,
                                  gain.before,
                                  layers.empty() ? ": the layers stay as they were" : ""));
    for (Block& block : network_.decoder.blocks) {
      for (ops::LinearSet* set : models::linear_sets(block)) {
        for (ops::Linear& layer : set->parts) {
          if (const auto found = layers.find(layer.name); found != layers.end()) {
            layer.weight = found->second;
          }
        }
      }
    }
  }

  const models::Model& compressed_;
  const models::Model& teacher_;
  const TuningOptions& options_;
  compress::CheckpointWriter& writer_;
  core::ProgressSink& progress_;
  CpuOps ops_;
  compress::CalibrationWindows token_windows_;
  WindowBatches windows_;
  std::unique_ptr<TuningDevice> device_;
  LossCurve curve_;
  models::Network network_;                // as far as it is tuned
  std::vector<std::int64_t> steps_;        // of the loss curve behind each block that is tuned
  std::vector<CompressedBlock> finished_;  // by an earlier run
};

compress::CardFacts card_of(const models::Model& compressed, const models::CompressionInfo& info,
                            const TuningOptions& options) {
  std::map<std::string, std::int64_t> layers;
  for (const auto& [name, scheme] : info.schemes) {
    ++layers[formats::to_string(scheme)];
  }
  const auto most =
      std::max_element(layers.begin(), layers.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<std::string> stages;
  const auto add = [&](const char* name, const StageOptions& stage) {
    if (stage.runs) {
      stages.push_back(fmt::format("{} ({} epochs)", name, stage.epochs));
    }
  };
  add("bqpo", options.blocks);
  add(options.model.code_rate > 0 ? "e2e-oqp with codes" : "e2e-oqp", options.model);
  return {info.recipe,
          most->first,
          {{"trained", fmt::format("{}, behind `{}`", fmt::join(stages, ", "),
                                   core::printable(compressed.compression.recipe))},
           {"learned from", fmt::format("given text, at most {} windows of {} tokens",
                                        options.calibration.samples, options.calibration.seq_len)}},
          {}};
}

}  // namespace

void tune_model(const models::Model& compressed, const models::Model& teacher,
                const std::filesystem::path& target, const TuningOptions& options, bool resume,
                core::ProgressSink& progress) {
  require_tunable(compressed, teacher, options);
  compress::CheckpointWriter writer(compressed, target, job_of(compressed, teacher, options),
                                    std::nullopt, resume);
  ModelTuner tuner(compressed, teacher, options, writer, progress);
  tuner.run();
  models::CompressionInfo info = compressed.compression;
  info.recipe += options.blocks.runs && options.model.runs ? "-bqpo-e2e"
                 : options.blocks.runs                     ? "-bqpo"
                                                           : "-e2e";
  writer.complete(info);
  writer.write_file(compress::kModelCardFile,
                    compress::model_card(teacher, *models::open_model(writer.folder()),
                                         card_of(compressed, info, options)));
  tuner.forget();
  writer.commit();
}

}  // namespace nibble::tune
