#include "metrics/compare/comparison/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace weir::metrics::compare::comparison {
namespace {

/// A window, and what a Comparison says of it: as it is declared, or else when both sides have requests and the shadows
/// are warm.
struct FoundWindow {
  statistics::Window window{};  ///< Empty if the sides never met, or the shadow was never warm.
  bool declared = false;
  std::optional<Apart> apart{};  ///< Of a split; the window then holds both times.
};

/// Returns the window as far as it is declared.
statistics::Window asked_for(const Options& options) {
  statistics::Window asked = pairs::any_time;
  if (options.from_us) asked.from_us = *options.from_us;
  if (options.from_us && options.length_us) asked.to_us = *options.from_us + *options.length_us;
  if (options.to_us) asked.to_us = *options.to_us;
  return asked;
}

/// `first` is the first moment that counts, `begin` the one from which a declared length is measured.
FoundWindow window_from(std::int64_t first, std::int64_t end, std::int64_t begin, const Options& options,
                        std::span<const samples::Sample> samples) {
  FoundWindow found{.declared = options.to_us || options.length_us};
  statistics::Window& window = found.window;
  // A window is a time that has requests, not one before the first of them.
  window = {begin < samples::first_moment(samples) ? std::max(begin, std::min(first, end)) : begin, end};
  if (options.length_us) window.to_us = begin + *options.length_us;
  if (options.to_us) window.to_us = *options.to_us;
  window.to_us = std::max(window.to_us, window.from_us);
  return found;
}

/// The window begins as the earlier minutes do, and ends with the last pair.
FoundWindow window_since(const table::Table& earlier, const pairs::Pairing& pairing) {
  return {.window = {*earlier.from_us, pairing.pairs.empty() ? earlier.to_us : pairing.pairs.back().at_us + 1}};
}

FoundWindow window_of_pairs(const pairs::Pairing& pairing, std::span<const samples::Sample> samples,
                            const Options& options) {
  const auto warm = std::find_if(pairing.pairs.begin(), pairing.pairs.end(),
                                 [&](const pairs::Pair& pair) { return pair.at_us >= *pairing.warm_us; });
  std::int64_t first = *pairing.warm_us;
  if (warm != pairing.pairs.end()) {
    first = warm->at_us;
  } else if (!options.from_us || first == pairs::never_warm) {
    return {};
  }
  const std::int64_t end = pairing.pairs.empty() ? 0 : pairing.pairs.back().at_us + 1;
  return window_from(first, end, std::max(options.from_us.value_or(first), *pairing.warm_us), options, samples);
}

/// Returns from the first of the requests in a window to the last.
std::optional<statistics::Window> extent_of(const std::vector<pairs::Single>& singles,
                                            const statistics::Window& window) {
  std::optional<statistics::Window> found;
  for (const pairs::Single& one : singles) {
    if (!window.holds(one.at_us)) continue;
    if (!found) found = statistics::Window{one.at_us, 0};
    found->to_us = one.at_us + 1;
  }
  return found;
}

FoundWindow window_of_split(const pairs::Pairing& pairing, std::span<const samples::Sample> samples,
                            const Options& options) {
  const statistics::Window asked = asked_for(options);
  const auto a = extent_of(pairing.only_a, asked), b = extent_of(pairing.only_b, asked);
  if (!a || !b) return {};
  const std::int64_t earlier = std::min(a->from_us, b->from_us), later = std::max(a->to_us, b->to_us);
  if (a->to_us <= b->from_us || b->to_us <= a->from_us) return {.window = {earlier, later}, .apart = Apart{*a, *b}};
  // Whoever says where the window begins wants all that follows.
  const std::int64_t first = options.from_us ? earlier : std::max(a->from_us, b->from_us);
  const std::int64_t end = options.from_us ? later : std::min(a->to_us, b->to_us);
  return window_from(first, end, options.from_us.value_or(first), options, samples);
}

/// `earlier` has the minutes before those of the pairing; null without any. The cost is that of one look at each
/// request.
FoundWindow window_of(const pairs::Pairing& pairing, std::span<const samples::Sample> samples, const Options& options,
                      const table::Table* earlier) {
  if (pairing.mode == pairs::Mode::split) return window_of_split(pairing, samples, options);
  if (earlier && earlier->from_us) return window_since(*earlier, pairing);
  return window_of_pairs(pairing, samples, options);
}

/// Returns the name of the [[shadow]] on one side; "" if there are several.
std::string_view only_shadow(const pairs::Pairing& pairing, const samples::Names& names,
                             const samples::Sample* pairs::Pair::* side) {
  samples::Names::Name found = 0;
  for (const pairs::Pair& pair : pairing.pairs) {
    const auto name = (pair.*side)->shadow;
    if (name == 0 || (found != 0 && name != found)) return {};
    found = name;
  }
  return names.text(found);
}

ComparedSide named(const sides::Selection& side, bool shadow, const samples::Names& names) {
  if (side.by == sides::By::role) return {side.label(names), side.role};
  return {side.label(names), shadow || side.by == sides::By::shadow ? Role::shadow : Role::primary};
}

std::string label(const ComparedSide& side, bool ambiguous, std::string_view shadow) {
  return ambiguous && side.role == Role::shadow ? shadow_label(side.name, shadow) : side.name;
}

/// Sets the names and roles of the sides. A configuration may be on both sides, or beside the control in the primary's
/// place too: its shadow then has the name of the [[shadow]] behind its own.
void name_sides(Comparison& comparison, const pairs::Pairing& pairing, const samples::Names& names,
                const Options& options) {
  const bool control = pairing.mode == pairs::Mode::control;
  comparison.side_a = named(options.a, control, names);
  comparison.side_b = named(options.b, pairing.mode != pairs::Mode::split, names);
  const bool of_shadows = options.a.by == sides::By::role || options.a.by == sides::By::shadow;
  const bool same = !of_shadows && comparison.side_a.name == comparison.side_b.name;
  const auto shadow_a = only_shadow(pairing, names, &pairs::Pair::a);
  const auto shadow_b = only_shadow(pairing, names, &pairs::Pair::b);
  comparison.a = label(comparison.side_a, !of_shadows && (same || control), shadow_a);
  comparison.b = label(comparison.side_b, same, shadow_b);
  // Two shadows of one name and configuration are told apart by nothing but the roles.
  if (comparison.a == comparison.b && same) comparison.b = label(comparison.side_b, true, {});
}

/// Makes one comparison, step by step.
class Comparing {
 public:
  Comparing(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options)
      : samples_(samples),
        names_(names),
        options_(options),
        last_us_(samples::last_moment(samples)),
        pairing_(pairs::pair_up(samples, options.a, options.b, options.warm_up, asked_for(options))),
        earlier_(suitable_table()) {
    if (earlier_ == nullptr) return;
    leave_to(*earlier_, pairing_);
    table_ = *earlier_;
  }

  Comparison run() {
    describe_sides();
    find_window();
    result_.lost = lost();
    fill_table();
    const auto history = history_for(options_.histories, pools(), table_.paired(), samples_, names_, options_.warm_up);
    if (history && tells_of_times(*history)) {
      const double hours = std::max(history->hours(statistics::Figure::ttft), history->hours(statistics::Figure::tpot));
      result_.history = {hours, history->source};
    }
    // The last request of a window need not lie at its very end.
    const auto slack_us = (result_.window.to_us - result_.window.from_us) / 100;
    const bool ended = result_.declared && result_.window.to_us - last_us_ <= slack_us;
    judge(result_, table_, options_, history ? &*history : nullptr, ended);
    if (!result_.dropped.empty()) result_.needs_s.reset();
    result_.notes = notes_of(result_, table_, pairing_, samples_);
    return std::move(result_);
  }

 private:
  const table::Table* suitable_table() const {
    if (options_.from_us || options_.to_us || options_.length_us) return nullptr;
    const auto suits = [&](const std::shared_ptr<const table::Table>& one) {
      return one->warm_up_s == options_.warm_up.seconds && (!options_.slo || one->counts(options_.slo)) &&
             one->suits(options_.a, options_.b, pairing_);
    };
    const auto found = std::ranges::find_if(options_.tables, suits);
    return found == options_.tables.end() ? nullptr : found->get();
  }

  void describe_sides() {
    result_.mode = pairing_.mode;
    result_.repeated = pairing_.repeated;
    name_sides(result_, pairing_, names_, options_);
    find_configurations();
    for (const auto& [side, warm] : {std::pair(&result_.a, &pairing_.warm_a), std::pair(&result_.b, &pairing_.warm_b)})
      if (warm->lacks_tokens()) result_.unfilled = {*side, warm->kv_tokens, warm->prefilled};
  }

  void find_configurations() {
    const auto &a = options_.a, &b = options_.b;
    result_.one_configuration = a.by == sides::By::config && b.by == a.by && a.name == b.name;
    result_.only_configuration = result_.one_configuration && std::ranges::all_of(samples_, [&](const auto& sample) {
                                   return sample.config == 0 || sample.config == a.name;
                                 });
    if (!result_.only_configuration) return;
    for (const samples::Sample& sample : samples_)
      if (sample.config == 0 && sample.role == Role::shadow && sample.drop_reason != 0)
        ++result_.other_drops[std::string(names_.text(sample.drop_reason))];
  }

  void find_window() {
    FoundWindow found = window_of(pairing_, samples_, options_, earlier_);
    result_.window = found.window;
    result_.declared = found.declared;
    result_.apart = found.apart;
    if (!earlier_ || !earlier_->from_us) return;
    result_.held = result_.window;
    result_.held->from_us = std::clamp(earlier_->until_us, result_.window.from_us, result_.window.to_us);
  }

  /// True unless the sides have times, of which the history has none.
  bool tells_of_times(const History& history) const {
    bool any = false;
    for (const auto figure : {statistics::Figure::ttft, statistics::Figure::tpot, statistics::Figure::e2e}) {
      if (std::ranges::none_of(table_.rows, [&](const table::Row& row) { return row.of(figure).count_a > 0; }))
        continue;
      if (history.variance(figure)) return true;
      any = true;
    }
    return !any;
  }

  /// Faults and likeness need no warm shadow, so they are of all pairs that were asked for; the rest is of the window.
  void fill_table() {
    statistics::Window asked = asked_for(options_);
    const bool found = result_.window.to_us > result_.window.from_us;
    // A request after the last pair is none that its shadow was spared.
    if (found) asked.to_us = result_.window.to_us;
    if (found && pairing_.mode == pairs::Mode::split) asked.from_us = result_.window.from_us;
    table_.mode = pairing_.mode;
    pairing_ = add(table_, pairing_, {names_, asked, options_.slo, options_.same_load, last_us_});
    static_cast<table::Counted&>(result_) = table_;
    result_.unfinished = table_.load.unfinished;
    result_.sampled = table_.load.sampled;
    for (const table::Row& row : table_.rows) result_.minutes += row.requests_a > 0 && row.requests_b > 0;
    result_.divergence = pairs::divergence_of(pairing_.pairs, names_);
    for (const auto quantity : pairs::quantities) count_answers(quantity);
  }

  /// True if the answer is whole and should have the quantity, and has not.
  static bool lacks(pairs::Quantity quantity, const samples::Sample& sample) {
    constexpr std::uint32_t least_tokens_of_tpot = 16;
    if (!sample.served || pairs::value_of(quantity, sample)) return false;
    const bool tokens_came = sample.stream && sample.outcome != Outcome::ok_empty;
    switch (quantity) {
      case pairs::Quantity::ttft:
        return tokens_came;
      case pairs::Quantity::tpot:
        return tokens_came && sample.output_tokens >= least_tokens_of_tpot;  // Unknown is more.
      case pairs::Quantity::e2e:
        return !sample.stream;
      case pairs::Quantity::output_tokens:
        break;
    }
    return true;
  }

  void count_answers(pairs::Quantity quantity) {
    Had& had = result_.had[static_cast<std::size_t>(quantity)];
    const auto has = [&](const samples::Sample& sample) { return pairs::value_of(quantity, sample).has_value(); };
    for (const pairs::Pair& pair : pairing_.pairs) {
      const bool a = has(*pair.a), b = has(*pair.b);
      had.a += a;
      had.b += b;
      had.only_a += a && lacks(quantity, *pair.b);
      had.only_b += b && lacks(quantity, *pair.a);
    }
    if (pairing_.mode != pairs::Mode::split) return;
    for (const pairs::Single& one : pairing_.only_a) had.a += has(*one.sample);
    for (const pairs::Single& one : pairing_.only_b) had.b += has(*one.sample);
  }

  /// Returns how many samples of the sides' shadows are gone, and in no table from which the figures come.
  std::uint64_t lost() const {
    if (options_.lost.empty() || options_.from_us || options_.to_us || options_.length_us) return 0;
    std::set<samples::Names::Name> shadows;
    for (const pairs::Pair& pair : pairing_.pairs)
      for (const auto* one : {pair.a, pair.b})
        if (one->role == Role::shadow) shadows.insert(one->shadow);
    const auto kept_of = [&](samples::Names::Name shadow) {
      return std::ranges::any_of(options_.tables, [shadow](const auto& one) { return one->is_of(shadow); });
    };
    // Beside a table that does not suit, figures are of the samples that are held.
    if (!earlier_ && std::ranges::any_of(shadows, kept_of)) return 0;
    std::uint64_t all = 0;
    for (const auto& [shadow, samples] : options_.lost) all += shadows.contains(shadow) ? samples : 0;
    return all;
  }

  /// Returns the pools of the requests that are compared.
  std::set<samples::Names::Name> pools() const {
    auto pools = table_.pools;
    for (const auto* const singles : {&pairing_.only_a, &pairing_.only_b})
      for (const pairs::Single& one : *singles)
        if (pairing_.mode == pairs::Mode::split) pools.insert(one.sample->pool);
    return pools;
  }

  const std::span<const samples::Sample> samples_;
  const samples::Names& names_;
  const Options& options_;
  const std::int64_t last_us_;  ///< The last moment that the samples tell of.
  pairs::Pairing pairing_;
  const table::Table* const earlier_;  ///< Null if the samples have all.
  table::Table table_;
  Comparison result_;
};

}  // namespace

Comparison compare(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options) {
  return Comparing(samples, names, options).run();
}

const Verdict* Comparison::verdict_of(statistics::Figure figure) const {
  const auto found = std::ranges::find(verdicts, figure, &Verdict::figure);
  return found == verdicts.end() ? nullptr : &*found;
}

const Had& Comparison::had_of(statistics::Figure figure) const {
  return had[static_cast<std::size_t>(table::quantity_of(figure))];
}

const FaultVerdict* Comparison::fault_of(pairs::Fault fault) const {
  const auto found = std::ranges::find(faults, fault, &FaultVerdict::fault);
  return found == faults.end() ? nullptr : &*found;
}

std::string shadow_label(std::string_view name, std::string_view shadow) {
  return std::string(name) + " (" + std::string(shadow.empty() || shadow == name ? "shadow" : shadow) + ')';
}

}  // namespace weir::metrics::compare::comparison
