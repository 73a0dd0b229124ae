// Whatever the samples are, a comparison ends, and does not contradict itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "metrics/compare/comparison/conclusion.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {
namespace {

class AnySamples {
 public:
  explicit AnySamples(std::uint64_t seed) : random_(seed) {}

  std::vector<samples::Sample> samples(samples::Names& names) {
    const std::int64_t span = one_of<std::int64_t>({1, 60, 1200, 4000}) * second;
    std::vector<samples::Sample> result(one_of<std::size_t>({0, 1, 50, 1000, 1000}));
    for (samples::Sample& sample : result) {
      sample.received_us = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(span));
      sample.dispatched_us = sample.received_us + one_of<std::int64_t>({0, 0, 1000, second});
      sample.role = one_of({Role::primary, Role::shadow});
      sample.id = {sample.role == Role::primary ? 1u : 2u, random_() % 400};
      sample.pair = {1, random_() % 400};
      sample.replica = names.of(one_of<const char*>({"", "gpu0", "gpu0", "gpu1"}));
      sample.config = names.of(one_of<const char*>({"fp16", "fp8"}));
      sample.pool = names.of(one_of<const char*>({"chat", "chat", "batch"}));
      sample.shadow = sample.role == Role::shadow ? names.of(one_of<const char*>({"one", "two"})) : 0;
      sample.drop_reason = sample.role == Role::shadow ? names.of(one_of<const char*>({"", "", "", "in_flight"})) : 0;
      sample.outcome = static_cast<Outcome>(random_() % outcome_names.size());
      sample.api = static_cast<Api>(random_() % api_names.size());
      sample.served = sample.outcome == Outcome::ok || sample.outcome == Outcome::ok_empty;
      sample.stream = random_() % 4 != 0;
      sample.greedy = random_() % 2;
      sample.same_text = static_cast<std::int8_t>(one_of({-1, 0, 1}));
      sample.prompt_tokens = count();
      sample.cached_tokens = count();
      sample.output_tokens = count();
      for (float* figure : {&sample.ttft, &sample.ttft_client, &sample.tpot, &sample.e2e, &sample.lasted}) {
        *figure = time();
      }
      sample.group = random_() % 3 ? random_() % 200 : 0;
    }
    return result;
  }

  Options options(samples::Names& names) {
    Options options;
    options.a = {one_of({sides::By::config, sides::By::config, sides::By::role}), names.of("fp16"), Role::primary};
    options.b = {one_of({sides::By::config, sides::By::config, sides::By::role, sides::By::shadow}), names.of("fp8"),
                 Role::shadow};
    if (options.b.by == sides::By::shadow) options.b.name = names.of("one");
    if (random_() % 3 == 0) {
      options.warm_up.kv_tokens = [tokens = one_of<std::uint64_t>({0, 1000, 1 << 20})](auto, auto) { return tokens; };
    }
    if (random_() % 3 == 0) options.from_us = one_of<std::int64_t>({-second, 0, 100 * second});
    if (random_() % 3 == 0) options.to_us = one_of<std::int64_t>({-second, 0, 1000 * second});
    if (random_() % 3 == 0) options.length_us = one_of<std::int64_t>({0, 1, 1000 * second});
    if (random_() % 2) options.slo = config::Slo{"s", "chat", config::Seconds(0.5), {}, config::Seconds(0.05), {}};
    options.warm_up.seconds = one_of({0.0, 0.0, 600.0});
    if (random_() % 3 == 0) options.histories = {history()};
    return options;
  }

 private:
  /// Ten hours of one configuration.
  History history() {
    History history;
    for (auto& series : history.minutes) {
      series = {statistics::Minutes(600)};
      for (double& minute : series.front()) minute = static_cast<double>(random_() % 1000) * 1e-4;
    }
    return history;
  }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[random_() % values.size()];
  }
  std::uint32_t count() { return one_of<std::uint32_t>({0, 1, 16, 100, 500, samples::unknown_count}); }
  float time() {
    const float any = static_cast<float>(random_() % 1000) / 1000;
    return one_of<float>({any, any, any, any, any, 0, -1, samples::unknown, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::max(), std::numeric_limits<float>::min()});
  }

  std::mt19937_64 random_;
};

void check(const Verdict& verdict, const Comparison& comparison) {
  EXPECT_EQ(verdict.interval.has_value(), verdict.effect.sequence.has_value());
  EXPECT_EQ(std::isnan(verdict.p), !verdict.interval);
  EXPECT_EQ(verdict.estimate.has_value(), verdict.value_a && verdict.value_b);
  if (verdict.interval) {
    EXPECT_LE(verdict.interval->low, *verdict.estimate + 1e-9);
    EXPECT_GE(verdict.interval->high, *verdict.estimate - 1e-9);
  }
  if (verdict.estimate) {
    // The figure beside a percentage is the one that it is a percentage of.
    const double expected = verdict.figure == statistics::Figure::stalls ? *verdict.value_b - *verdict.value_a
                                                                         : *verdict.value_b / *verdict.value_a - 1;
    EXPECT_NEAR(*verdict.estimate, expected, 1e-6 * (1 + std::abs(expected))) << name_of(verdict.figure);
  }
  if (verdict.finding != statistics::Finding::inconclusive) {
    EXPECT_TRUE(verdict.interval);
    EXPECT_FALSE(verdict.withheld());
  }
  const std::string text = why(verdict, comparison);
  EXPECT_TRUE(text.size() > 2 && text.back() == '.') << text;
  if (verdict.needs_s) EXPECT_GE(*verdict.needs_s, 0.99 * comparison.window.seconds()) << text;
}

void check(const FaultVerdict& fault) {
  EXPECT_LE(fault.pairs.both + fault.pairs.only_a + fault.pairs.only_b, fault.pairs.pairs);
  EXPECT_LE(fault.difference.low, fault.difference.high);
  const double difference = fault.share_b() - fault.share_a();
  if (fault.finding == statistics::Finding::worse) EXPECT_GT(difference, 0);
  if (fault.finding == statistics::Finding::better) EXPECT_LT(difference, 0);
  if (fault.finding == statistics::Finding::not_worse) EXPECT_LE(difference, fault.margin);
}

TEST(AnySamples, GiveAComparisonThatAgreesWithItself) {
  std::array<int, 3> states{}, modes{};
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    AnySamples any(seed);
    samples::Names names;
    const std::vector<samples::Sample> samples = any.samples(names);
    const Comparison comparison = compare(samples, names, any.options(names));
    ++states[static_cast<std::size_t>(comparison.state)];
    ++modes[static_cast<std::size_t>(comparison.mode)];
    EXPECT_LE(comparison.requests_a + comparison.requests_b, 2 * samples.size());
    for (const Verdict& verdict : comparison.verdicts) check(verdict, comparison);
    for (const FaultVerdict& fault : comparison.faults) check(fault);
    const auto gate = gate_of(comparison);
    EXPECT_EQ(gate.word == Gate::pass, gate.worse.empty() && gate.unknown.empty());
    const auto line = conclusion_of(comparison, gate);
    EXPECT_EQ(line.starts_with("May be promoted"), gate.word == Gate::pass) << line;
    EXPECT_EQ(line.find("nan"), std::string::npos) << line;
  }
  EXPECT_THAT(states, testing::Each(testing::Gt(5)));
  EXPECT_THAT(modes, testing::Each(testing::Gt(20)));
}

}  // namespace
}  // namespace weir::metrics::compare::comparison
