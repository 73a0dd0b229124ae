#include "metrics/compare/comparison/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "metrics/compare/comparison/bridge.hpp"
#include "metrics/compare/comparison/figures.hpp"
#include "metrics/compare/comparison/findings.hpp"
#include "metrics/compare/comparison/history_choice.hpp"
#include "metrics/compare/comparison/looks.hpp"
#include "metrics/compare/comparison/moments.hpp"
#include "metrics/compare/comparison/notes.hpp"
#include "metrics/compare/comparison/side_names.hpp"
#include "metrics/compare/comparison/window.hpp"
#include "metrics/compare/pairs/load.hpp"
#include "metrics/compare/pairs/values.hpp"

namespace weir::metrics::compare::comparison {
namespace {

/// Makes one comparison, step by step.
class Comparing {
 public:
  Comparing(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options)
      : samples_(samples),
        names_(names),
        options_(options),
        last_us_(last_moment(samples)),
        pairing_(pairs::pair_up(samples, options.a, options.b, options.warm_up, asked_for(options))),
        past_(suitable_past()) {
    if (past_) leave_to_past();
  }

  Compared run() {
    describe_sides();
    find_window();
    judge_answers();
    result_.lost = lost();
    const double p99_s = slower_p99();
    keep_window();
    count();
    find_load(p99_s);
    give_verdicts(p99_s);
    describe_values();
    if (!result_.dropped.empty()) result_.needs_s.reset();
    const auto drifts = history_ ? std::vector<statistics::Metric>() : drifting(times_, result_.window, past_);
    result_.notes = notes_of(result_, load_, pairing_, drifts, samples_);
    return {std::move(result_), std::move(pairing_)};
  }

 private:
  const Past* suitable_past() const {
    if (options_.from_us || options_.to_us || options_.length_us) return nullptr;
    const auto suits = [&](const std::shared_ptr<const Past>& past) {
      return past->warm_up_s == options_.warm_up.seconds && past->suits(options_.a, options_.b, pairing_);
    };
    const auto found = std::ranges::find_if(options_.pasts, suits);
    return found == options_.pasts.end() ? nullptr : found->get();
  }

  /// Takes out of the samples what the past has. Late pairs, of moments that are past, are in neither.
  void leave_to_past() {
    const auto is_past = [&](const auto& item) { return item.at_us < past_->until_us; };
    std::erase_if(pairing_.pairs, is_past);
    std::erase_if(pairing_.only_a, is_past);
    std::erase_if(pairing_.only_b, is_past);
    pairing_.mode = past_->mode;
    if (!pairing_.warm_us) pairing_.warm_us = past_->until_us;
    if (past_->from_us) pairing_.warm_us = *past_->from_us;
  }

  void describe_sides() {
    result_.mode = pairing_.mode;
    name_sides(result_, pairing_, names_, options_);
    for (const auto& [side, warm] : {std::pair(&result_.a, &pairing_.warm_a), std::pair(&result_.b, &pairing_.warm_b)})
      if (warm->lacks_tokens()) result_.unfilled = {*side, warm->kv_tokens, warm->prefilled};
  }

  void find_window() {
    FoundWindow found = window_of(pairing_, samples_, options_, past_);
    result_.window = found.window;
    result_.declared = found.declared;
    result_.apart = std::move(found.apart);
    if (!past_ || !past_->from_us) return;
    result_.held = result_.window;
    result_.held->from_us = std::clamp(past_->until_us, result_.window.from_us, result_.window.to_us);
    result_.over = result_.window.seconds() >= 60.0 * Past::most_minutes;
  }

  /// Faults and likeness need no warm shadow, so they are of all pairs that were asked for.
  void judge_answers() {
    statistics::Window asked = asked_for(options_);
    const bool found = result_.window.to_us > result_.window.from_us;
    if (options_.length_us && !options_.from_us && found) asked.to_us = result_.window.to_us;
    const auto before = [](const pairs::Pair& pair, std::int64_t at_us) { return pair.at_us < at_us; };
    const auto first = std::lower_bound(pairing_.pairs.begin(), pairing_.pairs.end(), asked.from_us, before);
    const auto last = std::lower_bound(first, pairing_.pairs.end(), asked.to_us, before);
    static const Past none;
    const Past& past = past_ ? *past_ : none;
    result_.faults = pairs::faults_of({first, last}, names_, options_.fault_margins, past.faults);
    result_.sameness = pairs::sameness_of({first, last}, pairing_.mode, names_, result_.faults, past.sameness);
    if (past.answered) return;
    result_.dropped = past.dropped;
    find_drops({first, last});
  }

  void find_drops(std::span<const pairs::Pair> asked) {
    for (const pairs::Pair& pair : asked) {
      const auto reason = pair.b->drop_reason != 0 ? pair.b->drop_reason : pair.a->drop_reason;
      if (reason == 0) return result_.dropped.clear();
      ++result_.dropped[std::string(names_.text(reason))];
    }
  }

  /// Returns the 99th percentile of the slower side's durations, of all requests if none is in the window.
  double slower_p99() const {
    if (past_) {
      pairs::Durations durations = past_->durations;
      durations.add(pairing_.pairs);
      return durations.slower_p99_s();
    }
    const double p99 = slower_p99_s(pairing_, result_.window);
    using Us = std::numeric_limits<std::int64_t>;
    return std::isfinite(p99) ? p99 : slower_p99_s(pairing_, {Us::min(), Us::max()});
  }

  void keep_window() {
    if (paired()) {
      const std::int64_t asked = options_.from_us.value_or(0);
      for (const pairs::Pair& pair : pairing_.pairs) {
        result_.warming += pair.at_us >= asked && pair.at_us < *pairing_.warm_us;
      }
      if (past_) result_.warming += past_->warming;
    }
    const auto outside = [&](const auto& item) { return !result_.window.holds(item.at_us); };
    std::erase_if(pairing_.pairs, outside);
    std::erase_if(pairing_.only_a, outside);
    std::erase_if(pairing_.only_b, outside);
  }

  void count() {
    result_.pairs = pairing_.pairs.size();
    result_.requests_a = result_.pairs + pairing_.only_a.size();
    result_.requests_b = result_.pairs + pairing_.only_b.size();
    if (past_) {
      result_.pairs += past_->pairs;
      result_.requests_a += past_->pairs + past_->only_a;
      result_.requests_b += past_->pairs + past_->only_b;
    }
    result_.divergence = pairs::divergence_of(pairing_.pairs, names_);
    if (!paired() && !result_.apart) result_.one_sided_blocks = one_sided_blocks(pairing_, result_.window);
  }

  /// Returns how many samples of the sides' shadows are gone, and in no past from which the figures come.
  std::uint64_t lost() const {
    if (options_.lost.empty() || options_.from_us || options_.to_us || options_.length_us) return 0;
    std::set<samples::Names::Name> shadows;
    for (const pairs::Pair& pair : pairing_.pairs)
      for (const auto* one : {pair.a, pair.b})
        if (one->role == Role::shadow) shadows.insert(one->shadow);
    const auto kept_of = [&](samples::Names::Name shadow) {
      return std::ranges::any_of(options_.pasts, [shadow](const auto& past) { return past->is_of(shadow); });
    };
    // Beside a past that does not suit, figures are of the samples that are held.
    if (!past_ && std::ranges::any_of(shadows, kept_of)) return 0;
    std::uint64_t all = 0;
    for (const auto& [shadow, samples] : options_.lost) all += shadows.contains(shadow) ? samples : 0;
    return all;
  }

  void find_load(double p99_s) {
    const double may_run_s = std::isfinite(p99_s) ? 2 * p99_s : 0.0;
    complete_us_ = last_us_ - microseconds(may_run_s);
    load_ = pairs::load_of(pairing_, result_.described(), names_, options_.same_load, complete_us_,
                           past_ ? past_->mirrored : pairs::MirroredSides{});
    if (past_) add_earlier_load();
    result_.unfinished = load_.unfinished;
    result_.sampled = load_.sampled;
  }

  void add_earlier_load() {
    load_.add_earlier(past_->load);
    if (load_.same) return;
    // Where the loads differ, nobody knows what was to be mirrored.
    const auto not_mirrored = load_.unfinished.find("not_mirrored");
    if (not_mirrored == load_.unfinished.end()) return;
    load_.sampled -= std::min(load_.sampled, not_mirrored->second);
    load_.unfinished.erase(not_mirrored);
  }

  void give_verdicts(double p99_s) {
    const double needed_s = static_cast<double>(statistics::block_count) *
                            statistics::needed_block_s(options_.min_block_s, p99_s);
    const Judged judged = judged_part(result_, past_, needed_s, last_us_);
    is_too_short_ = judged.too_short;
    result_.look = judged.look;
    history_ = history_for(pairing_, samples_, names_, options_, past_);
    if (history_) result_.history = used(*history_);
    Figures figures = figures_of({result_, pairing_, options_, past_, judged, history_, complete_us_});
    result_.slo = figures.slo;
    result_.verdicts = std::move(figures.verdicts);
    times_ = std::move(figures.times);
    find_state(result_, judged);
    decide(result_, judged, load_, !past_ || !options_.slo || past_->place_of(*options_.slo));
  }

  /// Adds what is said of the values without a verdict.
  void describe_values() {
    if (!result_.apart && load_.same) result_.changes = changes_of(times_, result_.window, options_, past_);
    if (!is_too_short_)
      result_.explorations = explore(pairing_, times_.ttft, times_.tpot, result_.described(), options_.resamples);
    if (options_.bins == 0) return;
    for (const auto& [metric, values] : times_.each())
      result_.distributions.push_back(overlay_of(metric, *values, options_.bins));
  }

  bool paired() const { return pairing_.mode != pairs::Mode::split; }

  const std::span<const samples::Sample> samples_;
  const samples::Names& names_;
  const Options& options_;
  const std::int64_t last_us_;  ///< The last moment that the samples tell of.
  pairs::Pairing pairing_;
  const Past* const past_;  ///< Null if the samples have all.
  Comparison result_;
  pairs::Load load_;
  Times times_;
  std::optional<History> history_;
  std::int64_t complete_us_ = 0;  ///< Requests that began before have ended, as a rule.
  bool is_too_short_ = false;     ///< Of the window: nothing can be judged yet.
};

}  // namespace

Compared compare_pairs(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options) {
  Compared compared = Comparing(samples, names, options).run();
  if (auto& comparison = compared.comparison; comparison.apart) {
    bridge(comparison, samples, names, options);
    comparison.notes.insert(comparison.notes.begin(), Note{"no_overlap", apart_sentence(comparison)});
  }
  return compared;
}

Comparison compare(std::span<const samples::Sample> samples, const samples::Names& names, const Options& options) {
  return compare_pairs(samples, names, options).comparison;
}

std::string shadow_label(std::string_view name, std::string_view shadow) {
  return std::string(name) + " (" + std::string(shadow.empty() || shadow == name ? "shadow" : shadow) + ')';
}

std::optional<statistics::Window> Comparison::judged(const Verdict& verdict) const {
  if (verdict.sequence) return held ? std::nullopt : std::optional(window);
  if (verdict.looks == 1 || !look || look->number == 0) return described();
  return statistics::Window{window.from_us, window.from_us + static_cast<std::int64_t>(look->at_s * 1e6)};
}

statistics::Effect effect_of(const Verdict& verdict) {
  return {.metric = verdict.metric,
          .estimate = verdict.effect,
          .margin = verdict.margin,
          .worse_margin = verdict.worse_margin,
          .looks = verdict.looks,
          .sequence = verdict.sequence,
          .difference = verdict.difference,
          .worse_points = verdict.worse_points};
}

Floor floor_of(const Comparison& same) {
  Floor floor{};
  for (const Verdict& verdict : same.verdicts) {
    floor[static_cast<std::size_t>(verdict.metric)] = verdict.estimate.value_or(0);
  }
  return floor;
}

}  // namespace weir::metrics::compare::comparison
