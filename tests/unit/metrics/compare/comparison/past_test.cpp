// A table of what left and the samples that are held give the verdicts of all samples at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "tests/draws.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Figure;
using statistics::Finding;
using testing::HasSubstr;

constexpr std::int64_t a_minute = 60 * second;

/// A program that holds the last samples that ended, and adds what will leave to a table, as proxy/shadows does.
class Ring {
 public:
  /// There is a look at what leaves every `step`.
  Ring(const TwinSamples& samples, std::size_t most, Options options, std::int64_t step = 15 * second)
      : names_(samples.names), most_(most), step_(step), options_(std::move(options)) {
    for (const samples::Sample& sample : samples.all()) all_.push_back({end_of(sample), sample});
    std::ranges::sort(all_, {}, &Ended::at_us);
    options_.warm_up.mirrored = &mirrored_;
  }

  /// Lets time go on to a moment.
  void run_to(std::int64_t us) {
    for (; now_us_ < us; now_us_ += step_) {
      for (; come_ < all_.size() && all_[come_].at_us <= now_us_; ++come_) mirrored_.add(all_[come_].sample);
      const std::size_t held = std::min(come_, most_), room = most_ / 8;
      if (held + room <= most_) continue;
      const std::int64_t until = all_[come_ + room - most_].at_us;
      past_ = with_leaving(past_, last(), names_, options_.a, options_.b, options_.warm_up, options_.slo, until);
    }
  }
  /// Compares the samples that are held, with the past.
  Comparison with_past() const { return compare(last(), names_, past_ ? options() : options_); }
  Comparison without_past() const { return compare(last(), names_, options_); }
  /// Compares all samples that have come.
  Comparison of_all() const {
    std::vector<samples::Sample> all;
    for (std::size_t i = 0; i < come_; ++i) all.push_back(all_[i].sample);
    return compare(all, names_, options_);
  }
  std::vector<samples::Sample> last() const {
    std::vector<samples::Sample> last;
    for (std::size_t i = come_ - std::min(come_, most_); i < come_; ++i) last.push_back(all_[i].sample);
    return last;
  }
  const table::Table* past() const { return past_.get(); }
  /// Returns the options with the past.
  Options options() const {
    Options options = options_;
    options.tables = {past_};
    return options;
  }

 private:
  struct Ended {
    std::int64_t at_us;
    samples::Sample sample;
  };
  static std::int64_t end_of(const samples::Sample& sample) {
    const double lasted = std::isfinite(sample.lasted) ? static_cast<double>(sample.lasted) : 0.0;
    return sample.received_us + static_cast<std::int64_t>(lasted * 1e6);
  }

  const samples::Names& names_;
  const std::size_t most_;
  const std::int64_t step_;
  Options options_;
  std::vector<Ended> all_;
  pairs::Mirrored mirrored_;
  std::size_t come_ = 0;
  std::int64_t now_us_ = 0;
  std::shared_ptr<const table::Table> past_;
};

/// Traffic that a comparison may meet.
struct Traffic {
  int minutes = 200;
  double per_minute = 6;
  double factor = 1;        ///< Of b's times.
  double drift = 0.03;      ///< Of a minute.
  double faults = 0;        ///< A share of b's answers.
  double dropped = 0;       ///< A share of the shadows' requests.
  double not_mirrored = 0;  ///< A share of the primary's requests.
  double longest_s = 5;     ///< An answer takes up to so long.
  bool control = false;
  int candidate_from = 0;  ///< The minute from which on the candidate is sent requests.
  int silence_from = -1, silence_to = -1;
  int candidate_until = 1 << 20;  ///< From this minute on the candidate is off; primary and control go on.
};

TwinSamples samples_of(const Traffic& traffic, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> share(0, 1);
  std::normal_distribution<double> normal;
  TwinSamples samples;
  std::vector<double> drift(static_cast<std::size_t>(traffic.minutes) + 1);
  for (double& one : drift) one = traffic.drift * normal(random);
  const auto vary = [&](samples::Sample& sample, double factor) {
    sample.ttft = sample.ttft_client = static_cast<float>(0.1 * factor * std::exp(0.2 * normal(random)));
    sample.tpot = static_cast<float>(0.02 * factor * std::exp(0.1 * normal(random)));
    sample.output_tokens = static_cast<std::uint32_t>(10 + 200 * share(random));
    sample.e2e = sample.lasted = static_cast<float>(0.2 + traffic.longest_s * share(random));
    sample.gaps = {{static_cast<std::uint16_t>(700 + random() % 600), 3}, {static_cast<std::uint16_t>(600), 50}};
    sample.greedy = true;
    sample.prompt_tokens = static_cast<std::uint32_t>(100 + random() % 4000);
    sample.in_flight_mean = static_cast<float>(1 + 3 * share(random));
    if (share(random) < 0.1) sample.finish_reason = samples.names.of("length");
    if (share(random) < 0.05) sample.finish_reason = samples.names.of("tool_calls");
  };
  std::int64_t at = 0;
  while (at < traffic.minutes * a_minute) {
    at += static_cast<std::int64_t>(-std::log(1 - share(random)) * 60e6 / traffic.per_minute);
    const auto now = at / a_minute;
    if (now >= traffic.silence_from && now < traffic.silence_to) continue;
    samples::Sample primary = samples.primary(at);
    vary(samples.each().back(), 1);
    primary = samples.each().back();
    if (share(random) < traffic.not_mirrored) continue;
    if (now >= traffic.candidate_until && !traffic.control) continue;
    const auto mirror = [&](std::string_view replica, std::string_view config, std::string_view name, double factor) {
      samples::Sample& shadow = samples.shadow(primary, replica, config, name);
      shadow.dispatched_us += 1000;
      vary(shadow, factor);
      shadow.prompt_tokens = primary.prompt_tokens;
      shadow.same_text = share(random) < 0.9;
      shadow.same_tools = 1;
      shadow.common_prefix_bytes = shadow.same_text ? 0 : static_cast<std::uint32_t>(64 * (random() % 4));
      shadow.output_chars = 400;
      if (share(random) < traffic.dropped) samples.drop(shadow, "max_in_flight");
      return &shadow;
    };
    if (traffic.control) mirror("same0", "fp16", "same", 1);
    if (now < traffic.candidate_from || now >= traffic.candidate_until) continue;
    samples::Sample* const candidate =
        mirror("cand0", "fp8", "fp8", traffic.factor * std::exp(drift[static_cast<std::size_t>(now)]));
    if (candidate->drop_reason == 0 && share(random) < traffic.faults) {
      candidate->outcome = Outcome::upstream_reset;
      candidate->served = false;
    }
  }
  return samples;
}

Options sides_of(TwinSamples& samples, bool control) {
  Options options;
  options.a = control ? sides::Selection{sides::By::shadow, samples.names.of("same"), Role::shadow}
                      : sides::Selection{sides::By::replica, samples.names.of("gpu0"), Role::primary};
  options.b = {sides::By::shadow, samples.names.of("fp8"), Role::shadow};
  options.slo = config::Slo{"fast", "chat", {}, config::Seconds(0.11), {}, {}};
  return options;
}

History history_of(double spread, bool paired = true) {
  History history;
  history.source = "given";
  history.paired = paired;
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, spread);
  for (auto& series : history.minutes) {
    series = {statistics::Minutes(600)};
    for (double& one : series.front()) one = normal(random);
  }
  return history;
}

void expect_near(const std::optional<double>& one, const std::optional<double>& other, double within = 1e-6) {
  ASSERT_EQ(one.has_value(), other.has_value());
  if (one) {
    EXPECT_NEAR(*one, *other, within * std::max(1.0, std::abs(*other)));
  }
}

/// All that a verdict rests on.
void expect_same(const Comparison& one, const Comparison& all) {
  EXPECT_EQ(one.state, all.state);
  EXPECT_EQ(one.mode, all.mode);
  EXPECT_EQ(one.window.from_us, all.window.from_us);
  EXPECT_EQ(one.window.to_us, all.window.to_us);
  EXPECT_EQ(one.minutes, all.minutes);
  EXPECT_EQ(one.drifts, all.drifts);
  EXPECT_EQ(one.pairs, all.pairs);
  EXPECT_EQ(one.requests_a, all.requests_a);
  EXPECT_EQ(one.requests_b, all.requests_b);
  EXPECT_EQ(one.warming, all.warming);
  EXPECT_EQ(one.sampled, all.sampled);
  EXPECT_EQ(one.unfinished, all.unfinished);
  EXPECT_EQ(one.dropped, all.dropped);
  expect_near(one.needs_s, all.needs_s);
  ASSERT_EQ(one.faults.size(), all.faults.size());
  for (std::size_t i = 0; i < all.faults.size(); ++i) {
    const FaultVerdict &x = one.faults[i], &y = all.faults[i];
    SCOPED_TRACE(name_of(y.fault));
    EXPECT_EQ(x.fault, y.fault);
    EXPECT_EQ(x.pairs.pairs, y.pairs.pairs);
    EXPECT_EQ(x.pairs.both, y.pairs.both);
    EXPECT_EQ(x.pairs.only_a, y.pairs.only_a);
    EXPECT_EQ(x.pairs.only_b, y.pairs.only_b);
    EXPECT_EQ(x.causes.a, y.causes.a);
    EXPECT_EQ(x.causes.b, y.causes.b);
    EXPECT_DOUBLE_EQ(x.more_in_b, y.more_in_b);
    EXPECT_EQ(x.difference, y.difference);
    EXPECT_EQ(x.finding, y.finding);
    expect_near(x.needs_s, y.needs_s);
  }
  EXPECT_EQ(one.answers.word, all.answers.word);
  EXPECT_EQ(one.answers.why, all.answers.why);
  EXPECT_EQ(one.sameness.compared, all.sameness.compared);
  EXPECT_EQ(one.sameness.repeated, all.sameness.repeated);
  EXPECT_EQ(one.sameness.first_a, all.sameness.first_a);
  EXPECT_EQ(one.sameness.first_b, all.sameness.first_b);
  EXPECT_EQ(one.sameness.at_start_b, all.sameness.at_start_b);
  EXPECT_DOUBLE_EQ(one.sameness.b.tokens, all.sameness.b.tokens);
  ASSERT_EQ(one.changes.size(), all.changes.size());
  for (std::size_t i = 0; i < one.changes.size(); ++i) EXPECT_EQ(one.changes[i].since_us, all.changes[i].since_us);
  for (const char* const code : {"spared_load", "drift", "changed", "warm_up", "nothing_mirrored", "load_differs"})
    EXPECT_EQ(has_note(one, code), has_note(all, code)) << code;
  ASSERT_EQ(one.verdicts.size(), all.verdicts.size());
  for (std::size_t i = 0; i < one.verdicts.size(); ++i) {
    const Verdict &x = one.verdicts[i], &y = all.verdicts[i];
    SCOPED_TRACE(name_of(y.figure));
    EXPECT_EQ(x.figure, y.figure);
    EXPECT_EQ(x.count, y.count);
    EXPECT_EQ(x.finding, y.finding);
    EXPECT_EQ(x.bar, y.bar);
    EXPECT_EQ(x.lately, y.lately);
    EXPECT_EQ(x.needs_s, y.needs_s);
    EXPECT_EQ(x.estimate, y.estimate);
    EXPECT_EQ(x.interval, y.interval);
    EXPECT_EQ(std::isnan(x.p), std::isnan(y.p));
    if (!std::isnan(y.p)) EXPECT_EQ(x.p, y.p);
  }
}

/// Traffic and settings by chance.
struct Chance {
  Traffic traffic;
  bool history;
  std::size_t most;

  explicit Chance(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto one_in = [&](unsigned many) { return random() % many == 0; };
    traffic.minutes = 30 + static_cast<int>(random() % 300);
    traffic.per_minute = 3 + static_cast<double>(random() % 5);
    traffic.factor = one_in(2) ? 1 : 1 + 0.02 * static_cast<double>(random() % 6);
    traffic.faults = one_in(2) ? 0 : 0.01;
    traffic.dropped = one_in(2) ? 0 : 0.004 * static_cast<double>(random() % 5);
    traffic.not_mirrored = one_in(3) ? 0.01 : 0;
    traffic.longest_s = one_in(4) ? 50 : 5;
    traffic.control = one_in(2);
    traffic.candidate_from = one_in(2) ? 0 : static_cast<int>(random() % 60);
    if (one_in(3)) {
      traffic.silence_from = static_cast<int>(random() % 100);
      traffic.silence_to = traffic.silence_from + static_cast<int>(random() % 40);
    }
    if (one_in(3)) traffic.candidate_until = traffic.minutes / 2 + static_cast<int>(random() % 100);
    history = one_in(2);
    most = 200 + random() % 700;  // From ten minutes on.
  }
};

TEST(Past, WithItTheLastSamplesGiveTheVerdictsOfAllWhateverTheirNumber) {
  int with_past = 0, without_equals = 0, looks = 0;
  for (std::uint64_t seed = 1; seed <= tests::draws(12, 60); ++seed) {
    SCOPED_TRACE(seed);
    const Chance chance(seed);
    TwinSamples samples = samples_of(chance.traffic, seed);
    Options options = sides_of(samples, chance.traffic.control);
    if (chance.history) options.histories = {history_of(0.05)};
    Ring ring(samples, chance.most, options);
    std::mt19937_64 random(seed);
    for (int look = 1; look <= 5; ++look) {
      ring.run_to(look * chance.traffic.minutes * a_minute / 5 + static_cast<std::int64_t>(random() % 60'000'000));
      const Comparison with = ring.with_past(), all = ring.of_all();
      SCOPED_TRACE(with.window.seconds());
      expect_same(with, all);
      if (testing::Test::HasFailure()) return;
      ++looks;
      with_past += with.held.has_value();
      without_equals += ring.without_past().pairs == all.pairs;
    }
  }
  EXPECT_GT(with_past, looks / 2) << "most had a past";
  EXPECT_LT(without_equals, looks / 2);
}

/// Where the loads differ, nobody knows how many requests were to be mirrored, and the past does not know whether they
/// do.
TEST(Past, CountsNothingAsNotMirroredWhereTheLoadDiffers) {
  TwinSamples samples = samples_of({.minutes = 100, .not_mirrored = 0.1}, 3);
  Options options = sides_of(samples, false);
  options.same_load = false;
  Ring ring(samples, 300, options);
  ring.run_to(100 * a_minute);
  ASSERT_TRUE(ring.past());
  ASSERT_TRUE(ring.past()->load.unfinished.contains("not_mirrored"));
  const Comparison comparison = ring.with_past(), all = ring.of_all();
  ASSERT_TRUE(comparison.held);
  EXPECT_EQ(comparison.unfinished, all.unfinished);
  EXPECT_EQ(comparison.sampled, all.sampled);
}

TEST(Past, DoesNotSpeakForASplitOfItsConfigurations) {
  TwinSamples samples = samples_of({.minutes = 100, .faults = 0.3}, 3);
  Options options = sides_of(samples, false);
  Ring ring(samples, 300, options);
  ring.run_to(100 * a_minute);
  ASSERT_TRUE(ring.past());
  samples.each().clear();
  for (int i = 0; i < 400; ++i) {
    const std::int64_t at = 200 * a_minute + i * 6 * second;
    samples::Sample& primary = i % 2 == 0 ? samples.primary(at) : samples.primary(at, "gpu1", "fp8");
    primary.ttft = primary.ttft_client = 0.1F;
    primary.tpot = 0.02F;
  }
  options = ring.options();
  options.a = {sides::By::config, samples.names.of("fp16")};
  options.b = {sides::By::config, samples.names.of("fp8")};
  const Comparison comparison = compare(samples.all(), samples.names, options);
  EXPECT_EQ(comparison.mode, pairs::Mode::split);
  EXPECT_FALSE(comparison.held);
  EXPECT_EQ(comparison.pairs, 0u);
}

TEST(Past, OfAShadowThatWasAlwaysDroppedIsOfNoOther) {
  TwinSamples samples;
  for (int i = 0; i < 1000; ++i) {
    const samples::Sample primary = samples.primary(i * 6 * second);
    samples::Sample& dropped = samples.shadow(primary, "", "", "down");
    dropped.replica = dropped.config = 0;
    samples.drop(dropped, "max_in_flight");
  }
  Options options = sides_of(samples, false);
  options.b = {sides::By::shadow, samples.names.of("down"), Role::shadow};
  Ring ring(samples, 300, options);
  ring.run_to(100 * a_minute);
  ASSERT_TRUE(ring.past());
  EXPECT_TRUE(ring.past()->suits(options.a, options.b, {}));
  EXPECT_FALSE(ring.past()->suits(options.a, {sides::By::shadow, samples.names.of("fp8"), Role::shadow}, {}));
  EXPECT_FALSE(ring.with_past().dropped.empty());
  EXPECT_EQ(ring.with_past().dropped, ring.of_all().dropped);
}

TEST(Past, OfAShadowThatAnsweredOnceSaysThatNotAllWereDropped) {
  TwinSamples samples = samples_of({.minutes = 100}, 3);
  for (samples::Sample& sample : samples.each())
    if (sample.role == Role::shadow && sample.dispatched_us > 30 * a_minute) samples.drop(sample, "max_in_flight");
  Ring ring(samples, 300, sides_of(samples, false));
  ring.run_to(100 * a_minute);
  ASSERT_TRUE(ring.past() && ring.past()->answered);
  EXPECT_TRUE(ring.with_past().dropped.empty());
  EXPECT_FALSE(ring.without_past().dropped.empty());
}

TEST(Past, BeginsAnewWhereTheClockWasSetByYears) {
  TwinSamples samples = samples_of({.minutes = 100}, 3);
  const auto moved = static_cast<std::int64_t>(samples.each().size()) / 2;
  std::int64_t i = 0;
  for (samples::Sample& sample : samples.each()) {
    if (++i <= moved) continue;
    sample.received_us += 56 * std::int64_t{365} * 86'400 * second;
    sample.dispatched_us += 56 * std::int64_t{365} * 86'400 * second;
  }
  const std::int64_t first = samples.each()[static_cast<std::size_t>(moved)].dispatched_us;
  const Options options = sides_of(samples, false);
  const auto all = samples.all();
  const std::span before(all.data(), static_cast<std::size_t>(moved));
  const std::span after(all.data() + moved, all.size() - before.size());
  const auto leaving = [&](const auto& earlier, std::span<const samples::Sample> held, std::int64_t until) {
    return with_leaving(earlier, held, samples.names, options.a, options.b, options.warm_up, {}, until);
  };
  const auto past = leaving(std::shared_ptr<const table::Table>(), before, 100 * a_minute);
  ASSERT_TRUE(past);
  EXPECT_GE(leaving(past, after, first + 40 * a_minute)->rows.front().minute, first / a_minute);
  // Where one leaving has both, there is no course of minutes, which would fill the memory.
  EXPECT_TRUE(leaving(past, all, first + 40 * a_minute)->minutes(Figure::tpot).empty());
}

TEST(Past, BeginsWithTheWindowAndKeepsMinutes) {
  TwinSamples samples = samples_of({.minutes = 400}, 7);
  Ring ring(samples, 300, sides_of(samples, false));
  ring.run_to(15 * a_minute);
  EXPECT_FALSE(ring.past()) << "there is room for all";
  ring.run_to(400 * a_minute);
  ASSERT_TRUE(ring.past());
  const table::Table& past = *ring.past();
  ASSERT_TRUE(past.from_us);
  EXPECT_GE(*past.from_us, 10 * a_minute);
  EXPECT_EQ(past.until_us % a_minute, 0);
  EXPECT_EQ(past.rows.back().minute, past.until_us / a_minute - 1);
  const Comparison comparison = ring.with_past();
  ASSERT_TRUE(comparison.held);
  EXPECT_EQ(comparison.held->from_us, past.until_us);
  EXPECT_EQ(comparison.held->to_us, comparison.window.to_us);
  EXPECT_LT(comparison.held->seconds(), 40 * 60);
  EXPECT_TRUE(verdict_of(comparison, Figure::tpot).interval);
  EXPECT_THAT(sentence_of(comparison, "held"),
              testing::MatchesRegex("Tables and charts are of the last [0-9]+ min, since 06:.*Verdicts are of all "
                                    "minutes since 00:10:.*"));
  EXPECT_FALSE(has_note(ring.of_all(), "held"));
}

TEST(Past, OfEightDaysIsTheLastWeek) {
  TwinSamples samples = samples_of({.minutes = 8 * 1440, .per_minute = 0.8}, 9);
  Ring ring(samples, 500, sides_of(samples, false), 10 * a_minute);
  ring.run_to(8 * 1440 * a_minute);
  EXPECT_LE(ring.past()->rows.size(), table::Table::most_rows);
  expect_same(ring.with_past(), ring.of_all());
}

TEST(Past, OfADeclaredWindowOrOfAnotherWarmUpDoesNotCount) {
  TwinSamples samples = samples_of({.minutes = 100}, 3);
  Ring ring(samples, 300, sides_of(samples, false));
  ring.run_to(100 * a_minute);
  Options options = ring.options();
  const auto held = ring.last();
  EXPECT_TRUE(compare(held, samples.names, options).held);
  for (const auto& change : std::vector<void (*)(Options&)>{
           [](Options& one) { one.from_us = 70 * a_minute; }, [](Options& one) { one.to_us = 90 * a_minute; },
           [](Options& one) { one.length_us = 10 * a_minute; }, [](Options& one) { one.warm_up.seconds = 0; }}) {
    Options other = options;
    change(other);
    EXPECT_FALSE(compare(held, samples.names, other).held);
  }
}

TEST(Past, SuitsTheSidesItIsOfHoweverTheyAreChosen) {
  TwinSamples samples = samples_of({.minutes = 100, .control = true}, 3);
  Ring with_control(samples, 300, sides_of(samples, true)), with_primary(samples, 300, sides_of(samples, false));
  with_control.run_to(100 * a_minute);
  with_primary.run_to(100 * a_minute);
  const auto held = with_control.last();
  Options options = with_control.options();
  options.tables.insert(options.tables.begin(), with_primary.options().tables.front());
  const auto pairs_of = [&](const sides::Selection& a, const sides::Selection& b) {
    Options asked = options;
    asked.a = a;
    asked.b = b;
    const Comparison found = compare(held, samples.names, asked);
    return found.held ? found.pairs : 0;
  };
  const auto name = [&](const char* text) { return samples.names.of(text); };
  const auto in_control = with_control.of_all().pairs, beside_primary = with_primary.of_all().pairs;
  EXPECT_NE(in_control, beside_primary);
  expect_same(with_control.with_past(), with_control.of_all());
  expect_same(with_primary.with_past(), with_primary.of_all());
  EXPECT_EQ(pairs_of(options.a, options.b), in_control);
  EXPECT_EQ(pairs_of({sides::By::config, name("fp16")}, {sides::By::config, name("fp8")}), in_control)
      << "weir takes the control";
  EXPECT_EQ(pairs_of({sides::By::replica, name("same0")}, {sides::By::replica, name("cand0")}), in_control);
  EXPECT_EQ(pairs_of({sides::By::replica, name("gpu0")}, {sides::By::replica, name("cand0")}), beside_primary);
  EXPECT_EQ(pairs_of({sides::By::replica, name("gpu0")}, {sides::By::replica, name("same0")}), 0u);
  EXPECT_EQ(pairs_of({sides::By::config, name("fp8")}, {sides::By::config, name("fp16")}), 0u)
      << "the other way round it is another comparison";
  EXPECT_EQ(pairs_of({sides::By::role, 0, Role::primary}, {sides::By::role, 0, Role::shadow}), 0u)
      << "of two shadows together none is kept";
}

TEST(Past, DoesNotSuitOneOfItsTwoReplicas) {
  TwinSamples samples = samples_of({.minutes = 100}, 3);
  int i = 0;
  for (samples::Sample& sample : samples.each()) {
    if (sample.role == Role::shadow && ++i % 2 == 0) sample.replica = samples.names.of("cand1");
  }
  Ring ring(samples, 300, sides_of(samples, false));
  ring.run_to(100 * a_minute);
  Options options = ring.options();
  EXPECT_TRUE(compare(ring.last(), samples.names, options).held);
  options.b = {sides::By::replica, samples.names.of("cand0")};
  EXPECT_FALSE(compare(ring.last(), samples.names, options).held);
}

/// Misses of another objective were not counted, so the samples that are held have to do.
TEST(Past, OfAnotherObjectiveDoesNotCount) {
  TwinSamples samples = samples_of({.minutes = 100}, 3);
  Ring ring(samples, 300, sides_of(samples, false));
  ring.run_to(100 * a_minute);
  Options options = ring.options();
  EXPECT_TRUE(compare(ring.last(), samples.names, options).held);
  options.slo->ttft = config::Seconds(0.2);
  const Comparison other = compare(ring.last(), samples.names, options);
  EXPECT_FALSE(other.held);
  EXPECT_EQ(other.fault_of(pairs::Fault::slo)->pairs.pairs, other.pairs);
}

/// Requests that left in a burst are in no table, and a comparison says how many.
TEST(Past, SaysHowManyRequestsAreLostToIt) {
  TwinSamples samples = samples_of({.minutes = 100}, 3);
  Ring ring(samples, 300, sides_of(samples, false));
  ring.run_to(100 * a_minute);
  Options options = ring.options();
  options.lost = {{samples.names.of("fp8"), 12}, {samples.names.of("another"), 100}};
  EXPECT_EQ(compare(ring.last(), samples.names, options).lost, 12u);
  EXPECT_THAT(sentence_of(compare(ring.last(), samples.names, options), "lost"),
              HasSubstr("12 requests of its shadows"));
  options.from_us = 90 * a_minute;
  EXPECT_EQ(compare(ring.last(), samples.names, options).lost, 0u) << "a window that was asked for has none of them";
}

TEST(Past, AfterTheSidesFellSilentTheVerdictsStay) {
  // Others' requests push those of the two sides out.
  TwinSamples samples = samples_of({.minutes = 60, .factor = 1.3}, 4);
  for (int i = 0; i < 1000; ++i) samples.primary((60 + i / 10) * a_minute, "gpu7").pool = samples.names.of("others");
  Ring ring(samples, 300, sides_of(samples, false));
  ring.run_to(59 * a_minute);
  const Comparison before = ring.with_past();
  ring.run_to(159 * a_minute);
  const Comparison after = ring.with_past();
  EXPECT_EQ(after.mode, pairs::Mode::mirrored);
  EXPECT_EQ(verdict_of(after, Figure::tpot).finding, Finding::worse);
  EXPECT_EQ(verdict_of(after, Figure::tpot).finding, verdict_of(before, Figure::tpot).finding);
  EXPECT_GE(after.pairs, before.pairs);
}

/// A shadow that ends minutes after its primary counts, as long as its primary is among the samples.
TEST(Past, APairThatEndsLateCountsInItsMinute) {
  TwinSamples samples = samples_of({.minutes = 200}, 5);
  int i = 0;
  for (samples::Sample& sample : samples.each())
    if (sample.role == Role::shadow && ++i % 10 == 0) sample.lasted = 1200;  // A ring of 500 is 40 min long.
  Options options = sides_of(samples, false);
  options.histories = {history_of(0.05)};
  Ring ring(samples, 500, options);
  ring.run_to(250 * a_minute);
  ASSERT_TRUE(ring.past());
  expect_same(ring.with_past(), ring.of_all());
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
