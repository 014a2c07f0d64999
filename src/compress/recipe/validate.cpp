#include "compress/recipe/validate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "compress/recipe/format_choices.h"
#include "compress/recipe/pass.h"
#include "core/error.h"
#include "core/json.h"
#include "formats/runs.h"

namespace nibble::compress {
namespace {

constexpr int kMostBits = 16;

using core::ErrorKind;
using formats::has_codes;
using formats::Scheme;

// All schemes of a recipe for the blocks: the one for most layers first.
std::vector<Scheme> schemes_of(const Recipe& recipe) {
  std::vector<Scheme> schemes = {recipe.scheme};
  for (const LayerRule& rule : recipe.layers) {
    schemes.push_back(rule.scheme);
  }
  for (const auto& [part, scheme] : recipe.parts.value_or(models::PartSchemes())) {
    schemes.push_back(scheme);
  }
  schemes.insert(schemes.end(), recipe.choices.begin(), recipe.choices.end());
  return schemes;
}

// The passes of which a condition holds, as messages list them.
std::string listed(bool (*holds)(const PassTraits&), std::string_view separator) {
  std::vector<std::string_view> names;
  for (const PassFactory& factory : pass_factories()) {
    if (holds(factory.make(core::Json::object())->traits())) {
      names.push_back(factory.name);
    }
  }
  return fmt::format("{}", fmt::join(names, separator));
}
auto those_that(bool (*hold)(const PassTraits&), std::string_view separator = "' or '") {
  return core::lazily([=] { return listed(hold, separator); });
}
template <Stage kStage>
auto named(std::string_view separator = ", ") {
  return those_that([](const PassTraits& pass) { return pass.stage == kStage; }, separator);
}

bool turns(const PassTraits& pass) {
  return pass.turns_inputs;
}
bool reorders(const PassTraits& pass) {
  return pass.reorders_inputs;
}
bool fits_input_scales(const PassTraits& pass) {
  return pass.fits_input_scales;
}
bool learns_books(const PassTraits& pass) {
  return pass.learns_books;
}
bool compares_inputs(const PassTraits& pass) {
  return pass.statistics >= StatisticsKind::kCross;
}

// A pass with its name in the recipe.
struct Step {
  const Pass& pass;
  PassTraits traits;
  const std::string& name;
};

// The passes of a recipe one after another: each against those before it, then all against the
// schemes.
class Validation {
 public:
  explicit Validation(const Recipe& recipe)
      : recipe_(recipe), name_(core::printable(recipe.name)), schemes_(schemes_of(recipe)) {
    for (const Scheme& scheme : schemes_) {
      const std::string problem = formats::problem_of(scheme);
      core::require(problem.empty(), ErrorKind::kUsage, "recipe '{}': {}: {}", name_, scheme,
                    problem);
    }
  }

  void add(const RecipeStep& wanted) {
    const auto made = make_pass(wanted.pass, *wanted.options);
    const Step step{*made, made->traits(), wanted.pass};
    check_serves_schemes(step);
    check_serves_output(step);
    check_order(step);
    check_input_scales_are_last(step);
    check_channels_in_place(step);
    turned_by_ = step.traits.turns_inputs ? step.name : turned_by_;
    reordered_by_ = step.traits.reorders_inputs ? step.name : reordered_by_;
    check_measured_at_once(step);
    check_magnitudes(step);
    check_not_done_before(step);
    rounding_ += step.traits.stage == Stage::kRounds ? 1 : 0;
    check_rounding(step);
    remember(step);
  }

  void finish() const {
    core::require(rounding_ == 1, ErrorKind::kUsage,
                  "recipe '{}' has no pass that rounds: end it with {}", name_,
                  named<Stage::kRounds>(" or "));
    check_hadamard();
    check_tails();
    check_books();
    check_output();
    check_input_scales();
    check_target();
    check_parts();
  }

 private:
  // Layers of floats beside others are left out.
  void check_serves_schemes(const Step& step) const {
    const auto meets = [&](const Scheme& scheme) {
      return step.traits.takes_dense || has_codes(scheme) ||
             (step.traits.takes_float_rows && formats::is_block_sparse(scheme));
    };
    core::require(any_scheme(meets) || (recipe_.output && meets(*recipe_.output)),
                  ErrorKind::kUsage,
                  "recipe '{}': pass '{}' needs a scheme with fewer than 16 bits{}", name_,
                  step.name, step.traits.takes_float_rows ? ", or block-sparse rows" : "");
    for (const Scheme& scheme : schemes_) {
      if (meets(scheme)) {
        check_serves(step, scheme);
      }
    }
  }

  void check_serves(const Step& step, const Scheme& scheme) const {
    const bool fits_groups =
        step.traits.stage == Stage::kChoosesParameters || step.traits.stage == Stage::kRefines;
    core::require(!fits_groups || scheme.scale.rows == 1, ErrorKind::kUsage,
                  "recipe '{}': pass '{}' fits scales one by one, and {} has one for the matrix",
                  name_, step.name, scheme);
    core::require(!fits_groups || scheme.code.type->fits_scales, ErrorKind::kUsage,
                  "recipe '{}': pass '{}' fits scales, which gains nothing for the {} of {}; '{}' "
                  "round to them",
                  name_, step.name, scheme.code.type->name, scheme,
                  named<Stage::kRounds>("' and '"));
    const bool of_gguf = formats::has_minima(scheme) || formats::has_supers(scheme);
    const bool scales_alone = step.traits.stage == Stage::kPrunes ||
                              step.traits.stage == Stage::kRefines || step.traits.learns_books;
    core::require(!of_gguf || !scales_alone, ErrorKind::kUsage,
                  "recipe '{}': pass '{}' is not built for {}, whose groups have minima or share "
                  "what their scales are multiples of",
                  name_, step.name, scheme);
    const bool one_by_one = fits_groups || step.traits.stage == Stage::kPrunes;
    core::require(!one_by_one || formats::runs_of(scheme) == nullptr, ErrorKind::kUsage,
                  "recipe '{}': pass '{}' changes weights one by one, and {} of {} are chosen many "
                  "together",
                  name_, step.name, scheme.code.type->name, scheme);
    step.pass.check(scheme);
  }

  void check_serves_output(const Step& step) const {
    const auto& output = recipe_.output;
    if (output && has_codes(*output) && step.pass.serves_output(*output)) {
      check_serves(step, *output);
    }
  }

  void check_order(const Step& step) const {
    core::require(
        step.traits.stage >= reached_, ErrorKind::kUsage,
        "recipe '{}': pass '{}' comes too late; the order is: one that removes blocks ({}), one "
        "that transforms the model ({}), passes that transform ({}), one that corrects ({}), one "
        "that prunes "
        "({}), that choose parameters ({}), one that rounds ({}), passes that refine",
        name_, step.name, named<Stage::kRemovesBlocks>(), named<Stage::kTransformsModel>(),
        named<Stage::kTransforms>(), named<Stage::kCorrects>(), named<Stage::kPrunes>(),
        named<Stage::kChoosesParameters>(), named<Stage::kRounds>());
  }

  // What scales channels must come before what mixes or moves them.
  void check_channels_in_place(const Step& step) const {
    const bool moves_none = step.traits.stage > Stage::kTransforms;
    core::require(turned_by_.empty() || moves_none, ErrorKind::kUsage,
                  "recipe '{}': pass '{}' must come before '{}', which leaves no channel as it was",
                  name_, step.name, turned_by_);
    core::require(
        reordered_by_.empty() || moves_none || step.traits.turns_inputs, ErrorKind::kUsage,
        "recipe '{}': pass '{}' must come before '{}', which leaves no channel where it was", name_,
        step.name, reordered_by_);
  }

  void check_measured_at_once(const Step& step) const {
    const bool at_once = !recipe_.true_sequential && !compares_inputs(step.traits);
    core::require(!changes_inputs() || at_once, ErrorKind::kUsage,
                  "recipe '{}': inputs that '{}' changes are measured once for the whole block; "
                  "neither true_sequential nor '{}' is built for them",
                  name_, turned_by_.empty() ? reordered_by_ : turned_by_,
                  those_that(compares_inputs));
  }

  // Scaled channels have the magnitudes of no one's count, unless they are measured again.
  void check_magnitudes(const Step& step) const {
    core::require(
        !step.traits.reads_magnitudes || channels_scaled_by_.empty() || recipe_.true_sequential,
        ErrorKind::kUsage,
        "recipe '{}': '{}' takes a percentile of inputs that '{}' scales: measure them behind it "
        "with \"true_sequential\": true",
        name_, step.name, channels_scaled_by_);
  }

  void check_not_done_before(const Step& step) const {
    core::require(!(step.traits.stage == Stage::kRemovesBlocks && removed_), ErrorKind::kUsage,
                  "recipe '{}': one pass '{}' removes all blocks", name_, step.name);
    core::require(!(step.traits.stage == Stage::kTransformsModel && transformed_),
                  ErrorKind::kUsage, "recipe '{}': pass '{}' would turn what is already turned",
                  name_, step.name);
    core::require(!(step.traits.stage == Stage::kChoosesParameters && chosen_), ErrorKind::kUsage,
                  "recipe '{}': pass '{}' would throw away what the pass before it has chosen",
                  name_, step.name);
    core::require(!(step.traits.prunes && pruned_), ErrorKind::kUsage,
                  "recipe '{}': pass '{}' would prune what is already pruned", name_, step.name);
  }

  void check_rounding(const Step& step) const {
    core::require(rounding_ == 1 || step.traits.stage < Stage::kRounds, ErrorKind::kUsage,
                  "recipe '{}': pass '{}' needs exactly one pass that rounds ({}) {}", name_,
                  step.name, named<Stage::kRounds>(),
                  rounding_ == 0 ? "before it" : "in the recipe");
  }

  void remember(const Step& step) {
    reached_ = step.traits.stage;
    removed_ = removed_ || reached_ == Stage::kRemovesBlocks;
    transformed_ = transformed_ || reached_ == Stage::kTransformsModel;
    chosen_ = chosen_ || reached_ == Stage::kChoosesParameters;
    pruned_ = pruned_ || step.traits.prunes;
    const bool scales =
        reached_ == Stage::kTransforms && !step.traits.turns_inputs && !step.traits.reorders_inputs;
    channels_scaled_by_ = scales ? step.name : channels_scaled_by_;
    scaled_by_ = step.traits.fits_input_scales ? step.name : scaled_by_;
    has_books_ = has_books_ || step.traits.learns_books;
    if (refuses_tails_.empty() && !step.traits.takes_tails) {
      refuses_tails_ = step.name;
    }
  }

  // The scheme says that inputs are turned, the pass turns the weights: one needs the other.
  void check_hadamard() const {
    const bool wanted =
        any_scheme([](const Scheme& scheme) { return scheme.inputs.hadamard != 0; });
    core::require(!wanted || !turned_by_.empty(), ErrorKind::kUsage,
                  "recipe '{}': {} turns the inputs of layers, nothing turns their weights: add "
                  "the pass '{}'",
                  name_, recipe_.scheme, those_that(turns));
    core::require(turned_by_.empty() || wanted, ErrorKind::kUsage,
                  "recipe '{}': the pass '{}' turns weights by the Hadamard of a scheme; {} has "
                  "none (int4-sym-g128-a4-h128 has)",
                  name_, turned_by_, recipe_.scheme);
  }

  void check_tails() const {
    core::require(
        !any_scheme([](const Scheme& scheme) { return scheme.inputs.ordered; }), ErrorKind::kUsage,
        "recipe '{}': {} has inputs in a stored order, which no pass chooses; such layers "
        "are only read",
        name_, recipe_.scheme);
    const bool wanted = any_scheme([](const Scheme& scheme) { return scheme.inputs.tail != 0; });
    core::require(!wanted || !reordered_by_.empty(), ErrorKind::kUsage,
                  "recipe '{}': {} has a tail, nothing says which inputs stand in it: add the pass "
                  "'{}'",
                  name_, recipe_.scheme, those_that(reorders));
    core::require(reordered_by_.empty() || refuses_tails_.empty(), ErrorKind::kUsage,
                  "recipe '{}': pass '{}' cannot serve weights with a tail, as '{}' makes them",
                  name_, refuses_tails_, reordered_by_);
  }

  void check_books() const {
    for (const Scheme& scheme : schemes_) {
      core::require(has_books_ || !formats::has_learned_book(scheme), ErrorKind::kUsage,
                    "recipe '{}': {} has learned code books; begin with the pass {}", name_, scheme,
                    those_that(learns_books));
    }
  }

  // Weights are made anew by passes that refine, and their inputs' scales with them.
  void check_input_scales_are_last(const Step& step) const {
    core::require(scaled_by_.empty(), ErrorKind::kUsage,
                  "recipe '{}': pass '{}' must come before '{}', which is the last", name_,
                  step.name, scaled_by_);
  }

  void check_input_scales() const {
    const auto stores = [](const Scheme& scheme) { return scheme.activation.stored_scale; };
    const bool wanted = any_scheme(stores) || (recipe_.output && stores(*recipe_.output));
    core::require(!wanted || !scaled_by_.empty(), ErrorKind::kUsage,
                  "recipe '{}': a scheme stores the scale of activations, which nothing measures: "
                  "add the pass '{}'",
                  name_, those_that(fits_input_scales));
    core::require(scaled_by_.empty() || wanted, ErrorKind::kUsage,
                  "recipe '{}': the pass '{}' measures scales of activations that a scheme stores; "
                  "{} has none (int8-sym-row-a8s has)",
                  name_, scaled_by_, recipe_.scheme);
  }

  // It reads what the final norm gives, and comes after all that turns or reorders inputs.
  void check_output() const {
    if (!recipe_.output) {
      return;
    }
    const Scheme& output = *recipe_.output;
    core::require(output.inputs == formats::Inputs(), ErrorKind::kUsage,
                  "recipe '{}': the inputs of the output layer are neither turned nor reordered; "
                  "take {} without -h and -tail for it",
                  name_, output);
    core::require(has_books_ || !formats::has_learned_book(output), ErrorKind::kUsage,
                  "recipe '{}': {} of the output layer has learned code books; begin with the "
                  "pass {}",
                  name_, output, those_that(learns_books));
  }

  // Formats can be mixed where each layer is on its own and its errors are those of its weights.
  void check_target() const {
    if (!recipe_.target) {
      core::require(recipe_.choices.empty(), ErrorKind::kUsage,
                    "recipe '{}': 'choices' need 'target_bits' or 'fit'", name_);
      return;
    }
    const double bits = recipe_.target->bits;
    core::require(recipe_.target->bytes > 0 || (bits > 0 && bits <= kMostBits), ErrorKind::kUsage,
                  "recipe '{}': a target must be more than 0 and at most {} bits per weight, or a "
                  "size such as 2GiB",
                  name_, kMostBits);
    core::require(!any_scheme(formats::is_block_sparse), ErrorKind::kUsage,
                  "recipe '{}': targets are not built for block-sparse rows, whose size depends on "
                  "the weights",
                  name_);
    core::require(!transformed_ && !changes_inputs(), ErrorKind::kUsage,
                  "recipe '{}': targets are not built for recipes that turn or reorder inputs",
                  name_);
    core::require(!recipe_.choices.empty() || format_choices(recipe_.scheme).size() > 1,
                  ErrorKind::kUsage,
                  "recipe '{}': {} comes in one size only; a recipe file can list 'choices'", name_,
                  recipe_.scheme);
    for (const Scheme& choice : recipe_.choices) {
      core::require(choice.activation == recipe_.scheme.activation, ErrorKind::kUsage,
                    "recipe '{}': {} among the 'choices' has other activations than {}", name_,
                    choice, recipe_.scheme);
    }
  }

  // Parts that stay as they are have no passes.
  void check_parts() const {
    if (!recipe_.parts) {
      return;
    }
    core::require(!recipe_.target, ErrorKind::kUsage,
                  "recipe '{}': a target chooses the schemes of all layers; leave it or the parts "
                  "out",
                  name_);
    core::require(!transformed_ || recipe_.parts->size() == models::kLayerParts.size(),
                  ErrorKind::kUsage,
                  "recipe '{}': the pass that turns the model changes parts that are to stay float "
                  "too; quantize all four, or take a recipe without '{}'",
                  name_, named<Stage::kTransformsModel>());
  }

  bool changes_inputs() const { return !turned_by_.empty() || !reordered_by_.empty(); }

  template <typename Predicate>
  bool any_scheme(Predicate predicate) const {
    return std::any_of(schemes_.begin(), schemes_.end(), predicate);
  }

  const Recipe& recipe_;
  std::string name_;
  std::vector<Scheme> schemes_;
  // What the passes so far have done.
  Stage reached_ = Stage::kRemovesBlocks;
  int rounding_ = 0;
  bool removed_ = false;
  bool transformed_ = false;
  bool chosen_ = false;
  bool pruned_ = false;
  bool has_books_ = false;
  std::string turned_by_;           // the pass; empty: nothing is turned
  std::string reordered_by_;        // the pass; empty: all is where it was
  std::string channels_scaled_by_;  // the last pass that may scale channels; empty: none does
  std::string scaled_by_;           // the pass; empty: no scales of inputs were measured
  std::string refuses_tails_;       // the first pass that cannot serve tails; empty: all can
};

}  // namespace

void validate(const Recipe& recipe) {
  Validation validation(recipe);
  for (const RecipeStep& step : recipe.steps) {
    validation.add(step);
  }
  validation.finish();
}

}  // namespace nibble::compress
