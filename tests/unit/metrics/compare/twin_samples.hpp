// Samples of a primary and its shadow, for tests to change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/why.hpp"

namespace weir::metrics::compare {

/// A number from 0 to 1 that depends on `k` and `salt` alone: splitmix64's finalizer.
inline double uniform(std::uint64_t k, std::uint64_t salt) {
  std::uint64_t z = k * 0x9E3779B97F4A7C15u + salt * 0xD1B54A32D192ED03u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) / 9007199254740992.0;
}

inline constexpr std::int64_t second = 1'000'000;

/// A pool of one primary, `gpu0`, and its shadow `fp8`.
class TwinSamples {
 public:
  /// A served stream of 100 tokens: TTFT 0.1 s, TPOT 0.02 s.
  samples::Sample& primary(std::int64_t at_us, std::string_view replica = "gpu0", std::string_view config = "fp16") {
    samples::Sample& sample = add(at_us, replica, config);
    sample.id = {1, ++requests_};
    return sample;
  }

  /// The same, as the shadow's answer to `of`.
  samples::Sample& shadow(const samples::Sample& of, std::string_view replica = "cand0",
                          std::string_view config = "fp8", std::string_view name = "fp8") {
    const samples::Id pair = of.id;
    const std::int64_t at_us = of.dispatched_us;
    samples::Sample& sample = add(at_us, replica, config);
    sample.id = {2, ++requests_};
    sample.pair = pair;
    sample.role = Role::shadow;
    sample.shadow = names.of(name);
    return sample;
  }

  /// Turns a shadow into one that was not sent.
  void drop(samples::Sample& shadow, std::string_view reason) {
    const samples::Sample whole = shadow;
    shadow = samples::Sample{};
    shadow.received_us = shadow.dispatched_us = whole.received_us;
    shadow.id = whole.id;
    shadow.pair = whole.pair;
    shadow.role = Role::shadow;
    shadow.shadow = whole.shadow;
    shadow.config = whole.config;
    shadow.api = whole.api;
    shadow.stream = true;
    shadow.drop_reason = names.of(reason);
    shadow.outcome = Outcome::rejected;
  }

  sides::Selection config(std::string_view name) { return {sides::By::config, names.of(name)}; }
  std::vector<samples::Sample> all() const { return {samples_.begin(), samples_.end()}; }
  std::deque<samples::Sample>& each() { return samples_; }

  samples::Names names;

 private:
  samples::Sample& add(std::int64_t at_us, std::string_view replica, std::string_view config) {
    samples::Sample sample;
    sample.received_us = sample.dispatched_us = at_us;
    sample.pool = names.of("chat");
    sample.replica = names.of(replica);
    sample.config = names.of(config);
    sample.model = names.of("m");
    sample.finish_reason = names.of("stop");
    sample.api = Api::openai_chat;
    sample.stream = sample.served = true;
    sample.status = 200;
    sample.turn = 1;
    sample.prompt_tokens = 500;
    sample.output_tokens = 100;
    sample.ttft = sample.ttft_client = 0.1f;
    sample.tpot = 0.02f;
    sample.e2e = sample.lasted = 2.08f;
    return samples_.emplace_back(sample);
  }

  std::deque<samples::Sample> samples_;
  std::uint64_t requests_ = 0;
};

/// Options that compare fp8 with fp16 and take every pair from the first on. The window is not declared.
inline comparison::Options open_options_of(TwinSamples& samples) {
  comparison::Options options;
  options.a = samples.config("fp16");
  options.b = samples.config("fp8");
  options.warm_up.seconds = 0;
  return options;
}

/// The same with a declared window, which ends with the last request to be dispatched.
inline comparison::Options options_of(TwinSamples& samples) {
  comparison::Options options = open_options_of(samples);
  std::int64_t last = 0;
  for (const samples::Sample& sample : samples.each()) last = std::max(last, sample.dispatched_us);
  options.to_us = last + 1;
  return options;
}

inline comparison::Comparison compare(TwinSamples& samples, const comparison::Options& options) {
  const std::vector<samples::Sample> all = samples.all();
  return compare(all, samples.names, options);
}

inline const comparison::Verdict& verdict_of(const comparison::Comparison& comparison, statistics::Figure figure) {
  static const comparison::Verdict none;
  const auto* const found = comparison.verdict_of(figure);
  return found == nullptr ? none : *found;
}

/// Returns why a figure's verdict is what it is.
inline std::string why_of(const comparison::Comparison& comparison, statistics::Figure figure) {
  return why(verdict_of(comparison, figure), comparison);
}

inline bool has_note(const comparison::Comparison& comparison, std::string_view code) {
  for (const comparison::Note& note : comparison.notes) {
    if (note.code == code) return true;
  }
  return false;
}

inline std::string sentence_of(const comparison::Comparison& comparison, std::string_view code) {
  for (const comparison::Note& note : comparison.notes) {
    if (note.code == code) return note.sentence;
  }
  return {};
}

}  // namespace weir::metrics::compare
