#include "metrics/compare/comparison/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/compare/comparison/bridge.hpp"
#include "metrics/compare/comparison/notes.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "metrics/compare/pairs/load.hpp"
#include "metrics/compare/pairs/values.hpp"
#include "metrics/compare/statistics/change.hpp"
#include "metrics/compare/statistics/effects.hpp"
#include "metrics/compare/statistics/minority.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "metrics/compare/statistics/share_ratio.hpp"

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
    result_.mode = pairing_.mode;
    name_sides();
    for (const auto& [side, warm] : {std::pair(&result_.a, &pairing_.warm_a), std::pair(&result_.b, &pairing_.warm_b)})
      if (warm->lacks_tokens()) result_.unfilled = {*side, warm->kv_tokens, warm->prefilled};
    find_window();
    judge_answers();
    const double p99 = slower_p99();
    needed_s_ = static_cast<double>(statistics::block_count) * statistics::needed_block_s(options_.min_block_s, p99);
    keep_window();
    find_held();
    count();
    count_one_sided_blocks();
    const double may_run_s = std::isfinite(p99) ? 2 * p99 : 0.0;
    complete_us_ = last_us_ - microseconds(may_run_s);
    load_ = pairs::load_of(pairing_, result_.described(), names_, options_.same_load, complete_us_,
                           past_ ? past_->mirrored : pairs::MirroredSides{});
    if (past_) add_earlier_load();
    result_.unfinished = load_.unfinished;
    result_.sampled = load_.sampled;
    find_look();
    find_history_used();
    give_verdicts();
    find_changes();
    if (!too_short_) result_.explorations = explore(pairing_, ttft_, tpot_, result_.described(), options_.resamples);
    if (options_.bins > 0) {
      for (const auto& [metric, values] :
           {std::pair(statistics::Metric::ttft, &ttft_), std::pair(statistics::Metric::tpot, &tpot_)})
        result_.distributions.push_back(overlay_of(metric, *values, options_.bins));
    }
    if (!result_.dropped.empty()) result_.needs_s.reset();
    result_.notes = notes_of(result_, load_, pairing_, drifting(), samples_);
    return {std::move(result_), std::move(pairing_)};
  }

 private:
  /// A configuration may be on both sides, or beside the control in the primary's place too. Its shadow then has the
  /// name of the [[shadow]] behind its own.
  void name_sides() {
    const bool control = pairing_.mode == pairs::Mode::control;
    result_.side_a = named(options_.a, control);
    result_.side_b = named(options_.b, paired());
    const bool of_shadows = options_.a.by == sides::By::role || options_.a.by == sides::By::shadow;
    const bool same = !of_shadows && result_.side_a.name == result_.side_b.name;
    const auto shadow_a = only_shadow(&pairs::Pair::a), shadow_b = only_shadow(&pairs::Pair::b);
    result_.a = label(result_.side_a, !of_shadows && (same || control), shadow_a);
    result_.b = label(result_.side_b, same, shadow_b);
    // Two shadows of one name and configuration are told apart by nothing but the roles.
    if (result_.a == result_.b && same) result_.b = label(result_.side_b, true, {});
  }
  /// Returns the name of the [[shadow]] on one side; "" if there are several.
  std::string_view only_shadow(const samples::Sample* pairs::Pair::*side) const {
    samples::Names::Name found = 0;
    for (const pairs::Pair& pair : pairing_.pairs) {
      const auto name = (pair.*side)->shadow;
      if (name == 0 || (found != 0 && name != found)) return {};
      found = name;
    }
    return names_.text(found);
  }
  ComparedSide named(const sides::Selection& side, bool shadow) const {
    if (side.by == sides::By::role) return {side.label(names_), side.role};
    return {side.label(names_), shadow || side.by == sides::By::shadow ? Role::shadow : Role::primary};
  }
  static std::string label(const ComparedSide& side, bool ambiguous, std::string_view shadow) {
    return ambiguous && side.role == Role::shadow ? shadow_label(side.name, shadow) : side.name;
  }

  /// Returns the window as far as it is declared.
  static statistics::Window asked_for(const Options& options) {
    statistics::Window asked = pairs::any_time;
    if (options.from_us) asked.from_us = *options.from_us;
    if (options.from_us && options.length_us) asked.to_us = *options.from_us + *options.length_us;
    if (options.to_us) asked.to_us = *options.to_us;
    return asked;
  }

  /// A log may hold any number, so it is kept within what fits.
  static std::int64_t microseconds(double seconds) {
    constexpr double most = 4e18;
    return static_cast<std::int64_t>(std::clamp(seconds * 1e6, -most, most));
  }

  static std::int64_t last_moment(std::span<const samples::Sample> samples) {
    std::int64_t last = 0;
    for (const samples::Sample& sample : samples) {
      const double lasted = std::isfinite(sample.lasted) ? static_cast<double>(sample.lasted) : 0.0;
      last = std::max(last, sample.received_us + microseconds(lasted));
    }
    return last;
  }

  static std::int64_t first_moment(std::span<const samples::Sample> samples) {
    return samples.empty() ? 0 : std::ranges::min(samples, {}, &samples::Sample::dispatched_us).dispatched_us;
  }

  bool paired() const { return pairing_.mode != pairs::Mode::split; }

  void add_earlier_load() {
    load_.add_earlier(past_->load);
    if (load_.same) return;
    // Where the loads differ, nobody knows what was to be mirrored.
    const auto not_mirrored = load_.unfinished.find("not_mirrored");
    if (not_mirrored == load_.unfinished.end()) return;
    load_.sampled -= std::min(load_.sampled, not_mirrored->second);
    load_.unfinished.erase(not_mirrored);
  }

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

  void find_held() {
    if (!past_ || !past_->from_us) return;
    result_.held = result_.window;
    result_.held->from_us = std::clamp(past_->until_us, result_.window.from_us, result_.window.to_us);
    result_.over = result_.window.seconds() >= 60.0 * Past::most_minutes;
  }

  /// Sets the window. It is empty if the sides never met, or the shadow was never warm.
  void find_window() {
    if (!paired()) {
      find_window_of_split();
      return;
    }
    if (past_ && past_->from_us) {
      const std::int64_t last = pairing_.pairs.empty() ? past_->to_us : pairing_.pairs.back().at_us + 1;
      result_.window = {*past_->from_us, std::max(last, past_->to_us)};
      return;
    }
    const auto warm = std::find_if(pairing_.pairs.begin(), pairing_.pairs.end(),
                                   [&](const pairs::Pair& pair) { return pair.at_us >= *pairing_.warm_us; });
    std::int64_t first = *pairing_.warm_us;
    if (warm != pairing_.pairs.end()) {
      first = warm->at_us;
    } else if (!options_.from_us || first == pairs::never_warm) {
      return;
    }
    const std::int64_t end = pairing_.pairs.empty() ? 0 : pairing_.pairs.back().at_us + 1;
    set_window(first, end, std::max(options_.from_us.value_or(first), *pairing_.warm_us));
  }

  void find_window_of_split() {
    const auto asked = [&](const std::vector<pairs::Single>& singles) {
      const statistics::Window window = asked_for(options_);
      std::optional<statistics::Window> found;
      for (const pairs::Single& one : singles) {
        if (!window.holds(one.at_us)) continue;
        if (!found) found = statistics::Window{one.at_us, 0};
        found->to_us = one.at_us + 1;
      }
      return found;
    };
    const auto a = asked(pairing_.only_a), b = asked(pairing_.only_b);
    if (!a || !b) return;
    const std::int64_t earlier = std::min(a->from_us, b->from_us), later = std::max(a->to_us, b->to_us);
    if (a->to_us <= b->from_us || b->to_us <= a->from_us) {
      result_.apart = Apart{*a, *b};
      result_.window = {earlier, later};
      return;
    }
    // Whoever says where the window begins wants all that follows.
    const std::int64_t first = options_.from_us ? earlier : std::max(a->from_us, b->from_us);
    set_window(first, options_.from_us ? later : std::min(a->to_us, b->to_us), options_.from_us.value_or(first));
  }

  /// `first` is the first moment that counts, `begin` the one from which a declared length is measured.
  void set_window(std::int64_t first, std::int64_t end, std::int64_t begin) {
    statistics::Window& window = result_.window;
    result_.declared = options_.to_us || options_.length_us;
    // Blocks are parts of a time that has requests, not of one before the first of them.
    window = {begin < first_moment(samples_) ? std::max(begin, std::min(first, end)) : begin, end};
    if (options_.length_us) window.to_us = begin + *options_.length_us;
    if (options_.to_us) window.to_us = *options_.to_us;
    window.to_us = std::max(window.to_us, window.from_us);
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
  }

  void count_one_sided_blocks() {
    if (paired() || result_.apart) return;
    std::array<bool, statistics::block_count> a{}, b{};
    for (const pairs::Single& one : pairing_.only_a) a[result_.window.block_of(one.at_us)] = true;
    for (const pairs::Single& one : pairing_.only_b) b[result_.window.block_of(one.at_us)] = true;
    unsigned only_a = 0, only_b = 0;
    for (std::size_t i = 0; i < statistics::block_count; ++i) {
      only_a += a[i] && !b[i];
      only_b += b[i] && !a[i];
    }
    // A side that has few requests misses blocks too, but the other does not.
    if (only_a > 0 && only_b > 0) result_.one_sided_blocks = only_a + only_b;
  }

  /// True if a stretch is long enough. The last request need not lie at its very end.
  static bool reaches(double seconds, double needed_s) { return seconds >= (1 - slack) * needed_s; }

  /// Sets which part of the window the verdicts are about that have no history.
  void find_look() {
    const bool none = result_.apart ||
                      (paired() ? result_.pairs == 0 : pairing_.only_a.empty() || pairing_.only_b.empty());
    const double length = result_.window.seconds();
    judged_ = result_.window;
    ended_ = result_.declared && !ends_before_window();
    if (result_.declared || result_.apart) {
      too_short_ = none || !reaches(length, needed_s_);
      return;
    }
    Look look;
    for (const double at_s : look_seconds) {
      if (at_s < needed_s_) continue;
      // More requests came than a past keeps values of.
      if (past_ && past_->has_gap() && result_.window.from_us + microseconds(at_s) > past_->early_until_us) break;
      if (none || !reaches(length, at_s)) {
        look.next_s = at_s;
        break;
      }
      ++look.number;
      look.at_s = at_s;
    }
    // Where even the last look is too early, a declared window would do.
    if (look.number == 0) needed_s_ = look.next_s.value_or(needed_s_);
    too_short_ = look.number == 0;
    if (!too_short_) judged_.to_us = judged_.from_us + microseconds(look.at_s);
    result_.look = look;
  }

  /// True if the samples end before the declared window.
  bool ends_before_window() const {
    return result_.window.to_us - last_us_ > microseconds(slack * result_.window.seconds());
  }

  std::optional<History> suitable(const std::vector<History>& histories) const {
    for (const History& one : histories) {
      const bool known = one.variance(statistics::Metric::tpot) || one.variance(statistics::Metric::ttft);
      if (known && (paired() || !one.paired) && is_of(one.pool)) return one;
    }
    return std::nullopt;
  }

  /// True if all requests that are compared are of this pool, or it is "". Without its line a primary does not tell.
  bool is_of(std::string_view pool) const {
    if (pool.empty()) return true;
    const auto is_other = [&](samples::Names::Name one) { return names_.text(one) != pool; };
    if (past_ && std::ranges::any_of(past_->pools, is_other)) return false;
    const auto fits = [&](const samples::Sample* primary) {
      return primary == nullptr || names_.text(primary->pool) == pool;
    };
    if (paired()) return std::ranges::all_of(pairing_.pairs, fits, &pairs::Pair::primary);
    return std::ranges::all_of(pairing_.only_a, fits, &pairs::Single::sample) &&
           std::ranges::all_of(pairing_.only_b, fits, &pairs::Single::sample);
  }

  double range_s() const {
    if (samples_.empty()) return 0;
    const auto [first, last] = std::ranges::minmax_element(samples_, {}, &samples::Sample::dispatched_us);
    return static_cast<double>(last->dispatched_us - first->dispatched_us) * 1e-6;
  }

  void find_history_used() {
    history_ = suitable(options_.histories);
    // Samples of less than that have no eight hours, and are not looked into.
    constexpr double least_s = 7 * 3600;
    if (!history_ && range_s() >= least_s)
      history_ = suitable(histories_of(couples_of(samples_, names_, options_.warm_up)));
    if (!history_) return;
    const auto hours = [&](statistics::Metric metric) { return history_->hours(metric); };
    result_.history = {std::max(hours(statistics::Metric::ttft), hours(statistics::Metric::tpot)), history_->source};
  }

  void find_changes() {
    if (result_.apart || !load_.same || result_.window.seconds() > longest_s) return;
    for (const auto& [metric, values] :
         {std::pair(statistics::Metric::ttft, &ttft_), std::pair(statistics::Metric::tpot, &tpot_)}) {
      const auto minutes = minutes_of(metric, *values, result_.window);
      const auto change = statistics::change_in(minutes, std::log1p(margin_of(metric)));
      if (!change) continue;
      const auto since_us = result_.window.from_us + static_cast<std::int64_t>(change->at) * Past::minute_us;
      result_.changes.push_back({metric, since_us, statistics::shown(change->after - change->before)});
    }
  }

  /// Returns the metrics whose differences drift slowly.
  std::vector<statistics::Metric> drifting() const {
    constexpr double shortest_s = 1800, most = 0.67;
    std::vector<statistics::Metric> result;
    const double length = result_.window.seconds();
    if (!reaches(length, shortest_s) || length > longest_s || history_) return result;
    for (const auto& [metric, values] :
         {std::pair(statistics::Metric::ttft, &ttft_), std::pair(statistics::Metric::tpot, &tpot_)}) {
      if (statistics::lag_one_autocorrelation(minutes_of(metric, *values, result_.window)) > most)
        result.push_back(metric);
    }
    return result;
  }

  /// Returns ln(b/a) of each whole minute of a part of the window that begins as the window does.
  statistics::Minutes minutes_of(statistics::Metric metric, const statistics::SideValues& held,
                                 const statistics::Window& window) const {
    if (!past_ || !past_->from_us) return log_ratios_by_minute(held, window);
    statistics::Minutes minutes = past_->minutes_of(metric);
    if (!past_->is_over()) {
      const auto rest = log_ratios_by_minute(held, {past_->until_us, std::max(window.to_us, past_->until_us)});
      minutes.insert(minutes.end(), rest.begin(), rest.end());
    }
    const auto whole = static_cast<std::size_t>((window.to_us - window.from_us) / Past::minute_us);
    minutes.resize(std::min({minutes.size(), whole, Past::most_minutes}));
    return minutes;
  }

  /// Returns a metric's values of the pairs that are held and of those before, as far as looks need them.
  statistics::SideValues since_beginning(const statistics::SideValues& held, statistics::SideValues early) const {
    early.a.insert(early.a.end(), held.a.begin(), held.a.end());
    early.b.insert(early.b.end(), held.b.begin(), held.b.end());
    return early;
  }

  double margin_of(statistics::Metric metric) const {
    const double floor = std::abs(options_.floor[static_cast<std::size_t>(metric)]);
    const double set = set_margin_of(metric);
    return std::isfinite(floor) ? std::max(set, floor) : set;
  }
  double set_margin_of(statistics::Metric metric) const {
    if (metric == statistics::Metric::output_tokens_mean) return std::max(options_.margin, options_.mean_margin);
    if (is_minority(metric)) return options_.minority_margin;
    return is_share(metric) || is_tail(metric) ? options_.share_margin : options_.margin;
  }

  /// A figure of medians: their logarithms are averaged over the blocks.
  void add_median(statistics::Metric metric, const statistics::SideValues& values) {
    const auto middle = [](const std::vector<statistics::Point>& points, const statistics::Window& window) {
      std::vector<double> all;
      for (const statistics::Point& point : points) {
        if (window.holds(point.at_us)) all.push_back(point.value);
      }
      return statistics::median(std::span(all));
    };
    add(metric, values, [&](const statistics::SideValues& of, const statistics::Window& window) {
      const auto blocks = log_ratios(of, window);
      return statistics::Ratio{.a = middle(of.a, window),
                               .b = middle(of.b, window),
                               .log = statistics::mean_of(blocks),
                               .estimate = statistics::estimate_of(blocks),
                               .blocks = blocks};
    });
  }

  /// `ratio_of` gives the ratio of the values in a window. The blocks are those of the window that is described;
  /// estimate and interval are those of the last look.
  template <class RatioOf>
  void add(statistics::Metric metric, const statistics::SideValues& held, RatioOf ratio_of) {
    if (!past_) return add(metric, held, held, ratio_of);
    if (metric != statistics::Metric::slo)
      return add(metric, held, since_beginning(held, past_->early_values(figure_of(metric))), ratio_of);
    const auto place = past_->place_of(*options_.slo);
    add(metric, held, place ? since_beginning(held, past_->early_misses(*place)) : statistics::SideValues{}, ratio_of);
  }

  /// Returns the figure that a tail or a minority is one of.
  static statistics::Metric figure_of(statistics::Metric metric) {
    if (metric == statistics::Metric::ttft_tail || metric == statistics::Metric::ttft_minority)
      return statistics::Metric::ttft;
    if (metric == statistics::Metric::tpot_tail || metric == statistics::Metric::tpot_minority)
      return statistics::Metric::tpot;
    return metric == statistics::Metric::output_tokens_mean ? statistics::Metric::output_tokens : metric;
  }

  /// Returns how many of the pairs before those that are held have a metric.
  std::uint64_t count_before(statistics::Metric metric) const {
    if (!past_) return 0;
    if (metric == statistics::Metric::slo) {
      const auto place = past_->place_of(*options_.slo);
      return place ? past_->met[*place].count() : 0;
    }
    const auto at = std::ranges::find(metrics_of_pairs, figure_of(metric)) - metrics_of_pairs.begin();
    return past_->counts[static_cast<std::size_t>(at)];
  }

  /// `values` are those of the looks, and `held` those whose samples are there: the same without a past.
  template <class RatioOf>
  void add(statistics::Metric metric, const statistics::SideValues& held, const statistics::SideValues& values,
           RatioOf ratio_of) {
    const statistics::Ratio described = ratio_of(held, result_.described());
    const statistics::Ratio whole =
        past_ && !past_->has_gap() ? ratio_of(values, result_.window) : described;
    Verdict verdict;
    verdict.metric = metric;
    verdict.margin = margin_of(metric);
    verdict.worse_margin = worse_margin_of(metric);
    if (metric == statistics::Metric::slo || metric == statistics::Metric::freezes)
      verdict.worse_points = options_.margins.miss_points;
    verdict.count = std::min(held.a.size(), held.b.size()) + count_before(metric);
    verdict.p = std::numeric_limits<double>::quiet_NaN();
    verdict.blocks = shown_blocks(described);
    verdict.judged_blocks = verdict.blocks;
    set_figures(verdict, whole);
    if (result_.apart && verdict.value_a.value_or(0) > 0 && verdict.value_b)
      verdict.estimate = *verdict.value_b / *verdict.value_a - 1;
    if (const auto variance = history_ && !result_.apart ? history_->variance(metric) : std::nullopt) {
      add_sequence(verdict, held, *variance, whole);
    } else {
      const statistics::Ratio judged = result_.look ? ratio_of(values, judged_) : whole;
      verdict.judged_blocks = shown_blocks(judged);
      add_look(verdict, judged);
    }
    if (const statistics::Effect effect = comparison::effect_of(verdict); effect.known())
      verdict.interval = statistics::shown(interval_of(effect));
    result_.verdicts.push_back(std::move(verdict));
  }

  static statistics::BlockValues shown_blocks(const statistics::Ratio& ratio) {
    statistics::BlockValues blocks = ratio.blocks;
    for (double& block : blocks) block = statistics::shown(block);
    return blocks;
  }

  static void set_figures(Verdict& verdict, const statistics::Ratio& ratio) {
    const auto known = [](double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; };
    verdict.value_a = known(ratio.a);
    verdict.value_b = known(ratio.b);
    verdict.estimate = statistics::shown_if_known(ratio.log);
  }

  void add_look(Verdict& verdict, const statistics::Ratio& judged) const {
    if (result_.look) verdict.looks = static_cast<unsigned>(look_seconds.size());
    if (!too_short_) {
      verdict.effect = judged.estimate;
      if (is_share(verdict.metric)) verdict.difference = judged.difference;
      set_figures(verdict, judged);
    } else if ((result_.look || ended_) && !result_.unfilled && !result_.apart) {
      verdict.needs_s = needed_s_;
    }
  }

  /// Sets what the window's whole minutes say that have ended.
  void add_sequence(Verdict& verdict, const statistics::SideValues& held, double variance,
                    const statistics::Ratio& whole) const {
    statistics::Window ended = result_.window;
    ended.to_us = std::max(ended.from_us, std::min(ended.to_us, complete_us_));
    if (ended.seconds() > longest_s && !(past_ && past_->is_over())) return;
    const statistics::Minutes minutes = minutes_of(verdict.metric, held, ended);
    std::optional<statistics::Estimate> own;
    if (reaches(result_.window.seconds(), std::max(needed_s_, look_seconds.front()))) {
      own = statistics::estimate_of(statistics::block_means(minutes));
      verdict.effect = whole.estimate;
    }
    // A side of a split may have few requests a minute, whose medians vary more than those of the history: only its own
    // blocks tell by how much.
    const bool tells = paired() || own;
    if (tells) verdict.sequence = statistics::sequence_of(minutes, variance, own);
    if (verdict.sequence) {
      verdict.estimate = statistics::shown(verdict.sequence->mean);
    } else {
      verdict.effect.reset();
      verdict.needs_s = tells ? 60 * static_cast<double>(statistics::least_minutes)
                              : std::max(needed_s_, look_seconds.front());
    }
  }

  std::optional<double> worse_margin_of(statistics::Metric metric) const {
    if (metric == statistics::Metric::ttft) return options_.margins.ttft;
    if (metric == statistics::Metric::tpot) return options_.margins.tpot;
    if (metric == statistics::Metric::slo) return options_.margins.misses;
    if (metric == statistics::Metric::output_tokens_mean) return options_.margins.mean_tokens;
    return std::nullopt;
  }

  void give_verdicts() {
    if (options_.slo) {
      const pairs::Attained attainment = pairs::attained(*options_.slo, pairing_);
      result_.slo = attainment.met;
      if (const auto place = past_ ? past_->place_of(*options_.slo) : std::nullopt)
        result_.slo.add(past_->met[*place]);
      add(statistics::Metric::slo, attainment.missed, statistics::share_ratio);
    }
    ttft_ = pairs::values_of(statistics::Metric::ttft, pairing_);
    tpot_ = pairs::values_of(statistics::Metric::tpot, pairing_);
    const statistics::SideValues lengths = pairs::values_of(statistics::Metric::output_tokens, pairing_);
    add_median(statistics::Metric::ttft, ttft_);
    add_median(statistics::Metric::tpot, tpot_);
    add_median(statistics::Metric::output_tokens, lengths);
    add(statistics::Metric::output_tokens_mean, lengths, statistics::mean_ratio);
    const auto tail = [](const statistics::SideValues& values, const statistics::Window& window) {
      return share_ratio(above_p95_of_a(values, window), window);
    };
    add(statistics::Metric::ttft_tail, ttft_, tail);
    add(statistics::Metric::tpot_tail, tpot_, tail);
    add_median(statistics::Metric::longest_gap, pairs::values_of(statistics::Metric::longest_gap, pairing_));
    add(statistics::Metric::freezes, pairs::values_of(statistics::Metric::freezes, pairing_), statistics::share_ratio);
    if (paired()) {
      for (const auto& [metric, values] : {std::pair(statistics::Metric::ttft_minority, &ttft_),
                                           std::pair(statistics::Metric::tpot_minority, &tpot_)}) {
        add(metric, *values, [&](const statistics::SideValues& of, const statistics::Window& window) {
          return statistics::minority(of, window, statistics::minority_factor(metric));
        });
      }
    }
    find_state();
    decide_family(false);
    decide_family(true);
  }

  void find_state() {
    const bool any = std::ranges::any_of(result_.verdicts, [](const Verdict& one) { return one.interval.has_value(); });
    if (result_.declared && !ended_) {
      result_.state = State::running;
    } else if (!any) {
      result_.state = State::too_few;
      for (const Verdict& verdict : result_.verdicts) {
        if (verdict.needs_s) result_.needs_s = std::min(result_.needs_s.value_or(*verdict.needs_s), *verdict.needs_s);
      }
    } else {
      result_.state = ended_ ? State::final : State::running;
    }
  }

  void decide_family(bool tails) {
    std::vector<statistics::Effect> family;
    std::vector<Verdict*> verdicts;
    for (Verdict& verdict : result_.verdicts) {
      if (is_tail(verdict.metric) != tails) continue;
      family.push_back(comparison::effect_of(verdict));
      verdicts.push_back(&verdict);
    }
    const std::vector<statistics::Decision> decisions = statistics::decide(family);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      Verdict& verdict = *verdicts[i];
      verdict.finding = decisions[i].finding;
      verdict.p = decisions[i].p;
      verdict.load_forbids = load_bar_of(verdict.metric, sign_of(verdict)) != Bar::none;
      const Bar bar = bar_of(verdict);
      if (bar != Bar::too_few) verdict.needs_s.reset();
      if (bar != Bar::none) {
        verdict.withheld = true;
        verdict.finding = statistics::Finding::inconclusive;
      }
      verdict.why = why(verdict, bar, decisions[i].held_back, result_);
    }
  }

  Bar bar_of(const Verdict& verdict) const {
    if (result_.apart) return Bar::apart;
    if (result_.declared && !ended_ && !verdict.sequence) return Bar::running;
    if (verdict.metric == statistics::Metric::slo && past_ && !past_->place_of(*options_.slo)) return Bar::not_counted;
    if (result_.unfilled) return Bar::cold;
    if (verdict.interval) return load_bar_of(verdict.metric, verdict.finding);
    // Where the loads forbid a verdict, no window is long enough.
    if (verdict.load_forbids) return load_bar_of(verdict.metric, sign_of(verdict));
    return verdict.needs_s ? Bar::too_few : Bar::no_values;
  }

  /// The estimate's word, however sure it is.
  static statistics::Finding sign_of(const Verdict& verdict) {
    const double estimate = verdict.estimate.value_or(0);
    return estimate > 0   ? statistics::Finding::worse
           : estimate < 0 ? statistics::Finding::better
                          : statistics::Finding::inconclusive;
  }

  /// A side that was spared load may look better than it is. So what speaks against that side holds, and nothing else.
  Bar load_bar_of(statistics::Metric metric, statistics::Finding finding) const {
    if (metric == statistics::Metric::output_tokens || metric == statistics::Metric::output_tokens_mean)
      return Bar::none;
    if (!load_.same) return Bar::load_differs;
    const bool for_a = finding == statistics::Finding::worse;
    const bool for_b = finding == statistics::Finding::better || finding == statistics::Finding::not_worse;
    const bool misleads = (load_.helped_a() && !for_b) || (load_.helped_b() && !for_a);
    return misleads ? Bar::spared_load : Bar::none;
  }

  /// A window longer than 60 days is a mistake, and would take memory for each of its minutes.
  static constexpr double longest_s = 60 * 86400;
  /// The last request of a window need not lie at its very end.
  static constexpr double slack = 0.01;

  const std::span<const samples::Sample> samples_;
  const samples::Names& names_;
  const Options& options_;
  const std::int64_t last_us_;  ///< The last moment that the samples tell of.
  pairs::Pairing pairing_;
  const Past* const past_;  ///< Null if the samples have all.
  Comparison result_;
  pairs::Load load_;
  statistics::SideValues ttft_, tpot_;
  std::optional<History> history_;
  statistics::Window judged_{};   ///< The window until the last look.
  std::int64_t complete_us_ = 0;  ///< Requests that began before have ended, as a rule.
  double needed_s_ = 0;           ///< The shortest window whose blocks are long enough.
  bool ended_ = false, too_short_ = false;
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
  if (!look || look->number == 0) return described();
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
