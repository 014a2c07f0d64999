#include "compress/recipe/validate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "compress/recipe/format_choices.h"
#include "compress/recipe/pass.h"
#include "core/error.h"

namespace nibble::compress {
namespace {

constexpr int kMostBits = 16;

using core::ErrorKind;
using formats::is_dense;
using formats::Scheme;

// All schemes of a recipe for the blocks: the one for most layers first.
std::vector<Scheme> schemes_of(const Recipe& recipe) {
  std::vector<Scheme> schemes = {recipe.scheme};
  for (const LayerRule& rule : recipe.layers) {
    schemes.push_back(rule.scheme);
  }
  schemes.insert(schemes.end(), recipe.choices.begin(), recipe.choices.end());
  return schemes;
}

// The passes of a stage, as messages list them.
std::string listed(Stage stage, std::string_view separator) {
  std::vector<std::string_view> names;
  for (const PassFactory& factory : pass_factories()) {
    if (factory.make(core::Json::object())->traits().stage == stage) {
      names.push_back(factory.name);
    }
  }
  return fmt::format("{}", fmt::join(names, separator));
}
auto named(Stage stage, std::string_view separator = ", ") {
  return core::lazily([=] { return listed(stage, separator); });
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
      : recipe_(recipe), name_(core::printable(recipe.name)), schemes_(schemes_of(recipe)) {}

  void add(const RecipeStep& wanted) {
    const auto made = make_pass(wanted.pass, wanted.options);
    const Step step{*made, made->traits(), wanted.pass};
    check_serves_schemes(step);
    check_serves_output(step);
    check_order(step);
    check_channels_in_place(step);
    turned_ = turned_ || step.traits.turns_inputs;
    reordered_ = reordered_ || step.traits.reorders_inputs;
    check_measured_at_once(step);
    check_not_done_before(step);
    rounding_ += step.traits.stage == Stage::kRounds ? 1 : 0;
    check_rounding(step);
    remember(step);
  }

  void finish() const {
    core::require(rounding_ == 1, ErrorKind::kUsage,
                  "recipe '{}' has no pass that rounds: end it with {}", name_,
                  named(Stage::kRounds, " or "));
    check_hadamard();
    check_tails();
    check_books();
    check_output();
    check_target();
  }

 private:
  // Dense layers beside others are left out.
  void check_serves_schemes(const Step& step) const {
    const bool any_codes = !std::all_of(schemes_.begin(), schemes_.end(), is_dense) ||
                           (recipe_.output && !is_dense(*recipe_.output));
    core::require(step.traits.takes_dense || any_codes, ErrorKind::kUsage,
                  "recipe '{}': pass '{}' needs a scheme with fewer than 16 bits", name_,
                  step.name);
    for (const Scheme& scheme : schemes_) {
      if (step.traits.takes_dense || !is_dense(scheme)) {
        check_serves(step, scheme);
      }
    }
  }

  void check_serves(const Step& step, const Scheme& scheme) const {
    const bool fits_groups =
        step.traits.stage == Stage::kChoosesParameters || step.traits.stage == Stage::kRefines;
    core::require(!fits_groups || !scheme.scale.per_tensor, ErrorKind::kUsage,
                  "recipe '{}': pass '{}' fits scales one by one, and {} has one for the matrix",
                  name_, step.name, scheme);
    core::require(
        !fits_groups || !formats::has_float_codes(scheme), ErrorKind::kUsage,
        "recipe '{}': pass '{}' knows no E4M3 codes, which {} has; 'rtn' and 'gptq' round "
        "to them",
        name_, step.name, scheme);
    step.pass.check(scheme);
  }

  void check_serves_output(const Step& step) const {
    const auto& output = recipe_.output;
    if (output && !is_dense(*output) && step.pass.serves_output(*output)) {
      check_serves(step, *output);
    }
  }

  void check_order(const Step& step) const {
    core::require(step.traits.stage >= reached_, ErrorKind::kUsage,
                  "recipe '{}': pass '{}' comes too late; the order is: one that transforms the "
                  "model ({}), passes that transform ({}), one that corrects ({}), one that prunes "
                  "({}), that choose parameters ({}), one that rounds ({}), passes that refine",
                  name_, step.name, named(Stage::kTransformsModel), named(Stage::kTransforms),
                  named(Stage::kCorrects), named(Stage::kPrunes), named(Stage::kChoosesParameters),
                  named(Stage::kRounds));
  }

  // What scales channels must come before what mixes or moves them.
  void check_channels_in_place(const Step& step) const {
    core::require(
        !turned_ || step.traits.stage > Stage::kTransforms, ErrorKind::kUsage,
        "recipe '{}': pass '{}' must come before 'hadamard', which leaves no channel as it "
        "was",
        name_, step.name);
    core::require(!reordered_ || step.traits.stage > Stage::kTransforms || step.traits.turns_inputs,
                  ErrorKind::kUsage,
                  "recipe '{}': pass '{}' must come before 'atom-reorder', which leaves no channel "
                  "where it was",
                  name_, step.name);
  }

  void check_measured_at_once(const Step& step) const {
    core::require(!(turned_ || reordered_) ||
                      (!recipe_.true_sequential && step.traits.statistics < StatisticsKind::kCross),
                  ErrorKind::kUsage,
                  "recipe '{}': inputs that 'hadamard' or 'atom-reorder' changes are measured once "
                  "for the whole block; neither true_sequential nor 'asymmetric' is built for them",
                  name_);
  }

  void check_not_done_before(const Step& step) const {
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
                  step.name, named(Stage::kRounds), rounding_ == 0 ? "before it" : "in the recipe");
  }

  void remember(const Step& step) {
    reached_ = step.traits.stage;
    transformed_ = transformed_ || reached_ == Stage::kTransformsModel;
    chosen_ = chosen_ || reached_ == Stage::kChoosesParameters;
    pruned_ = pruned_ || step.traits.prunes;
    has_books_ = has_books_ || step.traits.learns_books;
    if (refuses_tails_.empty() && !step.traits.takes_tails) {
      refuses_tails_ = step.name;
    }
  }

  // The scheme says that inputs are turned, the pass turns the weights: one needs the other.
  void check_hadamard() const {
    const bool wanted =
        any_scheme([](const Scheme& scheme) { return scheme.inputs.hadamard != 0; });
    core::require(!wanted || turned_, ErrorKind::kUsage,
                  "recipe '{}': {} turns the inputs of layers, nothing turns their weights: add "
                  "the pass 'hadamard'",
                  name_, recipe_.scheme);
    core::require(
        !turned_ || wanted, ErrorKind::kUsage,
        "recipe '{}': the pass 'hadamard' turns weights by the Hadamard of a scheme; {} has "
        "none (int4-sym-g128-a4-h128 has)",
        name_, recipe_.scheme);
  }

  void check_tails() const {
    const bool wanted = any_scheme([](const Scheme& scheme) { return scheme.inputs.tail != 0; });
    core::require(!wanted || reordered_, ErrorKind::kUsage,
                  "recipe '{}': {} has a tail, nothing says which inputs stand in it: add the pass "
                  "'atom-reorder'",
                  name_, recipe_.scheme);
    core::require(!reordered_ || refuses_tails_.empty(), ErrorKind::kUsage,
                  "recipe '{}': pass '{}' cannot serve weights with a tail, as 'atom-reorder' "
                  "makes them",
                  name_, refuses_tails_);
  }

  void check_books() const {
    for (const Scheme& scheme : schemes_) {
      core::require(has_books_ || !formats::has_learned_book(scheme), ErrorKind::kUsage,
                    "recipe '{}': {} has learned code books; begin with the pass any4", name_,
                    scheme);
    }
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
                  "pass any4",
                  name_, output);
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
    core::require(!transformed_ && !turned_ && !reordered_, ErrorKind::kUsage,
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

  template <typename Predicate>
  bool any_scheme(Predicate predicate) const {
    return std::any_of(schemes_.begin(), schemes_.end(), predicate);
  }

  const Recipe& recipe_;
  std::string name_;
  std::vector<Scheme> schemes_;
  // What the passes so far have done.
  Stage reached_ = Stage::kTransformsModel;
  int rounding_ = 0;
  bool transformed_ = false;
  bool chosen_ = false;
  bool pruned_ = false;
  bool has_books_ = false;
  bool turned_ = false;
  bool reordered_ = false;
  std::string refuses_tails_;  // the first pass that cannot serve tails; empty: all can
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
