#include "compress/pipeline/recipe_run.h"

#include "compress/block/decoded_block.h"
#include "compress/calibration/key_centre.h"
#include "compress/coding/relative_error.h"

namespace nibble::compress {

using core::ErrorKind;
using models::Block;

std::vector<LayerReport> RecipeRun::run() {
  report_.begin(static_cast<std::int64_t>(schemes_.size()));
  for (std::int64_t i = 0; i < std::ssize(blocks_); ++i) {
    run_block(i);
  }
  if (rounds_output()) {
    run_output();
  }
  report_.end();
  report_damage();
  if (backend_.has_gpu()) {
    progress_.message(times_.line());
  }
  return report_.take();
}

void RecipeRun::run_block(std::int64_t index) {
  const auto blocks = std::ssize(blocks_);
  const Block& block = *blocks_[static_cast<std::size_t>(index)];
  report_.enter(fmt::format("block {} of {}", index + 1, blocks));
  auto compressed = store_.finished(index);
  const bool resumed = compressed.has_value();
  if (!resumed) {
    compressed = compress(index, block);
    store_.put(index, *compressed);
  }
  const bool last = index + 1 == blocks;
  const bool outputs_matter = measures_damage() || (rounds_output() && !store_.finished_output());
  if (runner_ && (!last || outputs_matter)) {
    advance(index, *compressed);
  }
  if (files_ != nullptr) {
    files_->release_pages();
  }
  const std::int64_t layers = layers_of(block);
  if (resumed) {
    report_.skip(layers);
  }
  report_.leave(layers, resumed);
}

// Moves the calibration windows through the compressed block.
void RecipeRun::advance(std::int64_t index, const CompressedBlock& compressed) {
  const Block& block = *blocks_[static_cast<std::size_t>(index)];
  show_windows("running");
  const PhaseTimes::Phase phase(times_, "forward");
  runner_->advance(index, decoded(apply_compressed(block, compressed), ops_.pool()),
                   runner_->keeps_original() ? model_.block(block) : Block());
}

CompressedBlock RecipeRun::compress(std::int64_t index, const Block& original) {
  const Block block = model_.block(original);
  BlockWork work(model_.network().config, norms_of(index), block, schemes_, curvature_);
  if (true_sequential_) {
    compress_in_turn(index, block, work);
  } else {
    compress_at_once(index, block, work);
  }
  CompressedBlock compressed = take_compressed(work, block, original);
  if (runner_ && !in_encoder(index)) {
    add_key_centre(index, block, compressed);
  }
  return compressed;
}

// All sets are measured in the block as it was.
void RecipeRun::compress_at_once(std::int64_t index, const Block& block, BlockWork& work) {
  auto statistics =
      observe(index, block, {needs_, std::nullopt, &block, &curvature_, magnitudes()});
  work.use(statistics);
  transform(work);
  for (SetWork& set : work.sets()) {
    finish(set);
    statistics.erase(set.id);
  }
}

// After the transformations each set is measured and compressed behind the compressed sets before
// it (GPTQ's "true sequential").
void RecipeRun::compress_in_turn(std::int64_t index, const Block& block, BlockWork& work) {
  auto statistics =
      observe(index, block, {passes_.transforms_need(), std::nullopt, &block, &curvature_});
  work.use(statistics);
  transform(work);
  const bool compares = needs_ >= StatisticsKind::kCross;
  const Block reference = compares ? current_block(work, block, ops_.pool()) : Block();
  for (SetWork& set : work.sets()) {
    statistics = observe(index, current_block(work, block, ops_.pool()),
                         {needs_, set.id, &reference, &curvature_, magnitudes()});
    work.use(statistics);
    finish(set);
  }
}

void RecipeRun::transform(BlockWork& work) {
  for (SetWork& set : work.sets()) {
    apply_if(set, [](const RecipePasses::Entry& entry) {
      return entry.traits.stage <= Stage::kTransforms;
    });
  }
}

// What comes after the transformations, and the end of the float copies.
void RecipeRun::finish(SetWork& set) {
  report_.show(set.layers.front().layer->name);
  apply_if(set, [](const RecipePasses::Entry& entry) {
    return entry.traits.stage > Stage::kTransforms;
  });
  set.statistics = nullptr;
  for (LayerWork& layer : set.layers) {
    report(layer);
    if (layer.packed) {
      layer.target = std::vector<float>();  // gives the memory back, which `= {}` would not
      layer.weights = std::vector<float>();
      layer.kept = std::vector<std::uint8_t>();
    }
  }
}

void RecipeRun::run_output() {
  report_.enter("output layer");
  const bool resumed = store_.finished_output();
  if (!resumed) {
    compress_output();
  }
  report_.leave(1, resumed);
}

// The output layer is one more set, whose inputs nothing scales.
void RecipeRun::compress_output() {
  SetWork set = *make_set_work(model_.network().output, schemes_, curvature_);
  std::optional<InputStatistics> statistics = observe_output();
  set.statistics = statistics ? &*statistics : nullptr;
  LayerWork& layer = set.layers.front();
  apply_if(set, [&](const RecipePasses::Entry& entry) {
    return entry.pass->serves_output(layer.scheme);
  });
  if (const std::string names = passes_.left_out_of_output(layer.scheme); !names.empty()) {
    layer.note += fmt::format("{}without {}", layer.note.empty() ? "" : "; ", names);
  }
  report(layer);
  store_.put_output(*layer.packed);
}

// Keys of a decoder are kept in a cache.
void RecipeRun::add_key_centre(std::int64_t index, const Block& block,
                               CompressedBlock& compressed) {
  const bool pre = norms_of(index) == models::NormPlacement::kPre;
  std::vector<float> centre = key_centre(
      model_.network().config, block, runner_->mean_input(pre ? &block.attention_norm : nullptr));
  if (!centre.empty()) {
    compressed.vectors.emplace(models::key_centre_name(block.attention.qkv), std::move(centre));
  }
}

void RecipeRun::report_damage() {
  const auto damage = measures_damage() ? runner_->damage() : std::nullopt;
  if (damage) {
    progress_.message(fmt::format(
        "last states on the calibration text: cosine to the original's {:.5f}, signal to noise "
        "{:.1f} dB",
        damage->cosine, damage->signal_to_noise));
  }
}

std::map<int, InputStatistics> RecipeRun::observe(std::int64_t index, const Block& block,
                                                  const Observation& observation) {
  if (!runner_ || observation.kind == StatisticsKind::kNone) {
    return {};
  }
  show_windows("measuring");
  const PhaseTimes::Phase phase(times_, "statistics");
  return runner_->observe(index, block, observation);
}

std::optional<InputStatistics> RecipeRun::observe_output() {
  if (!runner_) {
    return std::nullopt;
  }
  show_windows("measuring");
  return runner_->observe_output({needs_, std::nullopt, nullptr, &curvature_, magnitudes()});
}

template <typename Wanted>
void RecipeRun::apply_if(SetWork& set, Wanted wanted) {
  for (const RecipePasses::Entry& entry : passes_.entries()) {
    if (wanted(entry)) {
      const PhaseTimes::Phase phase(times_, entry.name);
      apply(*entry.pass, set);
    }
  }
}

void RecipeRun::apply(const Pass& pass, SetWork& set) {
  try {
    pass.apply(set, backend_);
  } catch (const core::Error& error) {
    const bool full = error.kind() == ErrorKind::kOutOfMemory && backend_.has_gpu();
    core::fail(error.kind(), "layer {}: {}{}", set.layers.front().layer->name, error.what(),
               full ? "; take fewer --samples, or use --device cpu" : "");
  }
}

void RecipeRun::report(const LayerWork& layer) {
  if (layer.packed) {
    report_.add(
        {layer.layer->name, relative_error(layer.target, *layer.packed, ops_.pool()), layer.note});
  }
}

// Blocks are finished in their order.
bool RecipeRun::all_is_finished() {
  return store_.finished(std::ssize(blocks_) - 1) && (!rounds_output() || store_.finished_output());
}

std::int64_t RecipeRun::layers_of(const Block& block) const {
  std::int64_t count = 0;
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    for (const ops::Linear& part : set->parts) {
      count += schemes_.contains(part.name) ? 1 : 0;
    }
  }
  return count;
}

// Says window by window what happens to the windows from here on.
void RecipeRun::show_windows(const std::string& doing) {
  runner_->set_on_window([this, doing](std::size_t window) {
    report_.show(fmt::format("{} window {} of {}", doing, window + 1, inputs_.size()));
  });
}

}  // namespace nibble::compress
