// An hour of traffic whose truth is known, as the samples that metrics::compare is given: a primary with a control and
// a candidate, or a pool that is split by conversation. Each replica is a queue model whose speed drifts, with step
// times that depend on how many requests run. All that weir does is left out. A window is deterministic by seed.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/compare/samples/sample.hpp"
#include "metrics/record/answer.hpp"

namespace weir::bench {

namespace samples = metrics::compare::samples;

enum class Arrivals : std::uint8_t { waves, bursts };
/// Lengths of a prompt's answers on the sides: nearly alike, drawn by each side, or drawn and cut at a limit.
enum class Lengths : std::uint8_t { alike, own, cut };
enum class Greedy : std::uint8_t { no, yes, repeated };
enum class Crash : std::uint8_t { none, one, restart };

/// So many conversations are alive, each for so long; the logarithm of the size of prompts spreads between them.
struct Conversations {
  double alive = 0, minutes = 30, spread = 0.8;
};

/// A part of the candidate's requests is slower, or its streams stand still.
struct Few {
  double share = 0, factor = 1;
};
struct Stop {
  double at_s = 0, lasts_s = 0;
};

/// What happens in a window. As it stands, all sides are equal.
struct Story {
  double minutes = 61, rate = 2.5;  ///< Requests a second.
  Arrivals arrivals = Arrivals::waves;
  Lengths lengths = Lengths::alike;
  Greedy greedy = Greedy::no;
  bool heavy = false, streams = true;
  bool cached = false;   ///< Seven of ten prompts are in each replica's cache.
  double slope = 0.034;  ///< So much longer a step takes for each request that runs, as a share.
  double drift_s = 60;   ///< The speed of each GPU has a deviation of 2 % that lasts so long; 0 is none.
  double history_h = 0;  ///< So many hours of the primary and its control came before.
  double hangs = 0, drops = 0, fails = 0, misses = 0;  ///< Shares of requests on every side; drops are of both shadows.
  double outages = 0;                                  ///< In an hour on each side: half of the requests fail for 20 s.
  Crash crash = Crash::none;  ///< Of the control or the candidate, with what runs; with a restart of the candidate.
  std::optional<Conversations> split{};

  // The candidate alone, from a minute on.
  double from_min = 0, tpot = 1, ttft = 1, length = 1, hazard = 1;
  double failed = 0, empty = 0, run_on = 0, bad_tools = 0;
  Few frozen{}, slow_ttft{}, slow_tpot{};  ///< frozen.factor is in seconds.
  double uneven_ttft = 1;                  ///< Half of the requests have TTFT times this, and half times `and_others`.
  double and_others = 1;
  std::vector<Stop> stops{};
};

/// The objective; without streams it is of E2E alone.
inline constexpr double ttft_limit_s = 0.6, tpot_limit_s = 0.045, e2e_limit_s = 16.5;

/// Samples in the order of their ends.
struct Window {
  std::vector<samples::Sample> all;
  std::vector<double> ends;  ///< Seconds after the window's beginning.
  double misses = 0;         ///< The share of the first side's requests that missed the objective.

  std::span<const samples::Sample> ended_by(double minute) const {
    const auto end = std::ranges::upper_bound(ends, 60 * minute) - ends.begin();
    return std::span(all).first(static_cast<std::size_t>(end));
  }
};

/// The names of all windows, which threads share.
struct WindowNames {
  samples::Names names;
  samples::Names::Name pool = names.of("chat"), shadow_pool = names.of("chat:shadow"), a = names.of("A"),
                       b = names.of("B"), control = names.of("control"), candidate = names.of("candidate"),
                       late = names.of("loop_late"), stop = names.of("stop"), length = names.of("length"),
                       calls = names.of("tool_calls");
  std::array<samples::Names::Name, 4> replicas{names.of("gpu0"), names.of("gpu1"), names.of("gpu2"), names.of("gpu3")};
};

class WindowMaker {
 public:
  WindowMaker(const Story& story, const WindowNames& names, std::uint64_t seed)
      : story_(story), names_(names), random_(seed) {}

  Window window() {
    draw_requests(60 * story_.minutes);
    if (story_.split) return split();
    if (story_.crash != Crash::none) {
      crash_at_ = between(360, 2040);
      crash_of_ = story_.crash == Crash::restart || chance(0.5) ? Side::candidate : Side::control;
    }
    for (const Side side : {Side::primary, Side::control, Side::candidate}) serve(side, static_cast<std::size_t>(side));
    return sorted();
  }

  /// Returns hours of the primary and its control that ended before the window.
  Window history() {
    const double before_s = 3600 * story_.history_h + 900;
    draw_requests(before_s);
    begin_us_ -= microseconds(before_s + 3600);
    for (const Side side : {Side::primary, Side::control}) serve(side, static_cast<std::size_t>(side));
    return sorted();
  }

 private:
  enum class Side : std::uint8_t { primary, control, candidate };

  struct Request {
    double at = 0;
    std::uint32_t prompt = 1;
    double length = 0;   ///< The logarithm of its answers' usual length.
    double frailty = 1;  ///< How easily greedy answers to it go astray.
    std::uint64_t group = 0;
    std::uint32_t turn = 1;
    bool dropped = false;
    std::uint32_t repeats = 0;  ///< A greedy prompt's number, from 1 on.
    std::size_t replica = 0;
  };
  struct Answer {
    double ttft = 0, tpot = 0, gap = 0;
    std::uint32_t tokens = 0, in_flight = 0;
    bool cut = false;
    metrics::Outcome outcome = metrics::Outcome::ok;
    double lasted = 0;
    double hung = 0;                      ///< A stream that hangs takes no part in the steps.
    std::optional<double> parts_after{};  ///< Tokens after which a greedy answer leaves the primary's; infinity if not.
    bool bad_tools = false;

    double whole_s() const { return ttft + tpot * (tokens > 0 ? tokens - 1 : 0); }
  };
  using Random = std::mt19937_64;

  static std::int64_t microseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e6); }

  double uniform() { return std::uniform_real_distribution<double>()(random_); }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double share) { return share > 0 && uniform() < share; }
  double normal() { return normal_(random_); }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }

  double rate_at(double s) const {
    constexpr double wave_s = 1500;
    if (story_.arrivals == Arrivals::bursts) return static_cast<long>(s / 30) % 2 == 0 ? 1.9 : 0.1;
    return 1 + 0.5 * std::sin((s / wave_s + phase_) * 2 * std::numbers::pi);
  }

  double usual_length() { return story_.heavy ? 5.2 + 1.15 * normal() : 4.85 + 0.72 * normal(); }
  std::uint32_t prompt_tokens(double scale) {
    const double spread = story_.heavy ? 1.3 : story_.split ? 0.4 : 0.8;
    return static_cast<std::uint32_t>(
        std::clamp((story_.split ? 1000 : 620) * scale * std::exp(spread * normal()), 8.0, 30000.0));
  }

  void draw_requests(double lasting_s) {
    lasting_s_ = lasting_s;
    requests_.clear();
    phase_ = uniform();
    if (story_.split) return draw_conversations();
    if (story_.greedy == Greedy::repeated) draw_prompts();
    std::vector<std::pair<std::uint64_t, std::uint32_t>> talks(40);  // Conversations and their turns so far.
    for (auto& [group, turn] : talks) group = ++groups_;
    constexpr double highest = 1.9;
    for (double at = exponential(1 / (highest * story_.rate)); at < lasting_s;
         at += exponential(1 / (highest * story_.rate))) {
      if (uniform() * highest > rate_at(at)) continue;
      Request request{.at = at, .prompt = prompt_tokens(1), .length = usual_length()};
      request.frailty = std::exp(normal() - 0.5);
      auto& [group, turn] = talks[static_cast<std::size_t>(uniform() * 40)];
      if (chance(0.4)) {
        group = ++groups_;
        turn = 0;
      }
      request.group = group;
      request.turn = ++turn;
      request.dropped = chance(story_.drops);
      if (!prompts_.empty()) {
        const Request& prompt = prompts_[order_[requests_.size() % order_.size()]];
        request = {.at = at,
                   .prompt = prompt.prompt,
                   .length = prompt.length,
                   .frailty = prompt.frailty,
                   .group = ~std::uint64_t{prompt.repeats},  // What opens alike is one conversation to weir.
                   .turn = 1,
                   .repeats = prompt.repeats};
      }
      requests_.push_back(request);
    }
  }

  /// Draws prompts that come 1 to 300 times each, in an order by chance.
  void draw_prompts() {
    const auto all = static_cast<std::size_t>(story_.rate * lasting_s_);
    while (order_.size() < all) {
      const auto times = static_cast<std::size_t>(std::exp(uniform() * std::log(300.9)));
      order_.insert(order_.end(), times, prompts_.size());
      prompts_.push_back({.prompt = prompt_tokens(1),
                          .length = usual_length(),
                          .frailty = std::exp(normal() - 0.5),
                          .repeats = static_cast<std::uint32_t>(prompts_.size() + 1)});
    }
    std::ranges::shuffle(order_, random_);
    for (auto& side : leaves_) side.assign(prompts_.size() + 1, -1);
  }

  void draw_conversations() {
    const Conversations& of = *story_.split;
    const double life_s = 60 * of.minutes, think_s = of.alive / story_.rate;
    constexpr std::size_t replicas_of_a = 3;
    for (double begin = -4 * life_s; begin < lasting_s_; begin += exponential(life_s / of.alive)) {
      const double end = std::min(begin + exponential(life_s), lasting_s_), scale = std::exp(of.spread * normal());
      const std::size_t replica =
          chance(0.25) ? replicas_of_a : static_cast<std::size_t>(uniform() * static_cast<double>(replicas_of_a));
      const std::uint64_t group = ++groups_;
      std::uint32_t turn = 0;
      for (double at = begin + exponential(think_s); at < end || turn == 0; at += exponential(think_s)) {
        ++turn;
        if (at >= lasting_s_) break;
        if (at < 0) continue;
        requests_.push_back({.at = at,
                             .prompt = prompt_tokens(scale),
                             .length = usual_length(),
                             .group = group,
                             .turn = turn,
                             .replica = replica});
      }
    }
    std::ranges::sort(requests_, {}, &Request::at);
  }

  Window split() {
    for (std::size_t replica = 0; replica < names_.replicas.size(); ++replica) serve(Side::primary, replica);
    return sorted();
  }

  /// Answers the requests of one replica in the order of their arrival.
  void serve(Side side, std::size_t replica) {
    const bool ours = side == Side::candidate;
    const auto speed = speeds();
    const auto outages = drawn_outages();
    std::priority_queue<double, std::vector<double>, std::greater<>> running;
    std::vector<std::size_t> served;
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const Request& request = requests_[i];
      if (story_.split ? request.replica != replica : side != Side::primary && request.dropped) {
        if (!story_.split) drop(i, side);
        continue;
      }
      while (!running.empty() && running.top() <= request.at) running.pop();
      const double pace = speed.empty() ? 1 : speed[static_cast<std::size_t>(request.at)];
      Answer answer = answered(request, side, pace, static_cast<std::uint32_t>(running.size()));
      if (ours && request.at >= 60 * story_.from_min) spoil(answer);
      for (const double outage : outages)
        if (request.at >= outage && request.at < outage + 20 && chance(0.5)) fail(answer);
      if (ours) stand_still(request, answer);
      if (answer.outcome == metrics::Outcome::ok) answer.lasted = answer.whole_s();
      running.push(request.at + answer.lasted - answer.hung);
      served.push_back(i);
      answers.push_back(answer);
    }
    if (crash_of_ == side && story_.crash != Crash::none) crash(served, answers);
    for (std::size_t at = 0; at < served.size(); ++at) add(served[at], side, replica, answers[at]);
  }

  Answer answered(const Request& request, Side side, double pace, std::uint32_t in_flight) {
    Answer answer{.in_flight = in_flight};
    const double running = std::min(in_flight, 64U);
    const double usual = request.length;
    double length = usual + 0.06 * normal();
    if (story_.lengths != Lengths::alike) length = 4.85 + (usual - 4.85) * 0.75 + 0.48 * normal();
    if (side == Side::candidate) length += std::log(story_.length);
    // Of own lengths 24 % are above the lower limit.
    const double limit = story_.lengths == Lengths::cut ? 212 : story_.heavy ? 4000 : 1000;
    answer.tokens = static_cast<std::uint32_t>(std::clamp(std::exp(length), 2.0, limit));
    answer.cut = answer.tokens >= static_cast<std::uint32_t>(limit);
    answer.tpot = 0.0205 * (1 + story_.slope * running) * pace * std::exp(0.025 * normal());
    answer.ttft =
        (0.028 + request.prompt * 7e-5 * (1 + 0.75 * story_.slope * running)) * pace * std::exp(0.33 * normal()) +
        exponential(0.018) * (1 + 7 * story_.slope * running) * pace;
    if (story_.cached) answer.ttft *= request.prompt % 10 < 7 ? 0.15 : 4;
    answer.gap = answer.tpot * (1.5 + exponential(0.35));
    if (chance(story_.misses)) answer.ttft = between(0.8, 2);
    if (chance(story_.hangs)) {
      answer.gap = answer.hung = between(120, 900);
      answer.tpot += answer.gap / std::max(answer.tokens - 1, 1U);
    }
    if (story_.greedy != Greedy::no) part(answer, request, side);
    if (chance(story_.fails)) fail(answer);
    return answer;
  }

  /// A greedy answer leaves the primary's at a time of its own, or always as it did for this prompt.
  void part(Answer& answer, const Request& request, Side side) {
    const auto whole = static_cast<std::uint32_t>(std::clamp(std::exp(request.length), 2.0, 1000.0));
    if (side == Side::primary) {
      answer.tokens = whole;
      return;
    }
    constexpr double per_thousand = 0.8;
    const double mean = 1000 / (per_thousand * request.frailty * (side == Side::candidate ? story_.hazard : 1));
    double after = exponential(mean);
    if (request.repeats > 0) {
      double& kept = leaves_[side == Side::candidate][request.repeats];
      if (kept < 0) kept = after;
      after = kept;
    }
    answer.parts_after = after < whole ? after : std::numeric_limits<double>::infinity();
    if (after >= whole || request.repeats > 0) answer.tokens = whole;
  }

  static void fail(Answer& answer) {
    answer.outcome = metrics::Outcome::upstream_error;
    answer.lasted = 0.01;
  }

  void spoil(Answer& answer) {
    answer.tpot *= story_.tpot;
    answer.ttft *= story_.ttft;
    answer.gap *= story_.tpot;
    if (story_.uneven_ttft != 1) answer.ttft *= chance(0.5) ? story_.uneven_ttft : story_.and_others;
    if (chance(story_.slow_ttft.share)) answer.ttft *= story_.slow_ttft.factor;
    if (chance(story_.slow_tpot.share)) {
      answer.tpot *= story_.slow_tpot.factor;
      answer.gap *= story_.slow_tpot.factor;
    }
    if (chance(story_.run_on)) {
      answer.tokens = 1000;
      answer.cut = true;
    }
    if (chance(story_.frozen.share)) {
      answer.gap = std::max(answer.gap, story_.frozen.factor);
      answer.tpot += story_.frozen.factor / std::max(answer.tokens - 1, 1U);
    }
    if (chance(story_.bad_tools)) answer.bad_tools = true;
    if (chance(story_.failed)) fail(answer);
    if (chance(story_.empty) && answer.outcome == metrics::Outcome::ok) {
      answer.outcome = metrics::Outcome::ok_empty;
      answer.lasted = answer.ttft;
    }
  }

  /// All streams of the candidate stop, and go on together.
  void stand_still(const Request& request, Answer& answer) const {
    if (answer.outcome != metrics::Outcome::ok) return;
    for (const Stop& stop : story_.stops) {
      const double first = request.at + answer.ttft, until = stop.at_s + stop.lasts_s;
      if (request.at >= until || request.at + answer.whole_s() < stop.at_s) continue;
      if (first >= stop.at_s) {
        answer.ttft += until - std::max(request.at, stop.at_s);
      } else {
        answer.gap = std::max(answer.gap, stop.lasts_s);
        answer.tpot += stop.lasts_s / std::max(answer.tokens - 1, 1U);
      }
    }
  }

  /// The replica dies with the last twelve of what runs, as soon as there are so many, and may be away for a minute.
  void crash(std::span<const std::size_t> served, std::vector<Answer>& answers) {
    std::size_t left = 12;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const double at = requests_[served[i]].at;
      if (at < crash_at_ || answers[i].in_flight < left) continue;
      crash_at_ = at;
      break;
    }
    for (std::size_t i = answers.size(); i-- > 0;) {
      const double at = requests_[served[i]].at;
      Answer& answer = answers[i];
      if (at >= crash_at_) {
        if (story_.crash == Crash::restart && at < crash_at_ + 60) fail(answer);
        continue;
      }
      if (left == 0 || answer.outcome != metrics::Outcome::ok || at + answer.lasted <= crash_at_) continue;
      answer.outcome = metrics::Outcome::upstream_reset;
      answer.lasted = crash_at_ - at;
      --left;
    }
  }

  /// Returns how long a step takes, by the second: an Ornstein-Uhlenbeck process. Empty without a drift.
  std::vector<double> speeds() {
    std::vector<double> speed;
    if (story_.drift_s <= 0) return speed;
    constexpr double deviation = 0.02;
    const double kept = std::exp(-1 / story_.drift_s), added = deviation * std::sqrt(1 - kept * kept);
    double now = deviation * normal();
    speed.resize(static_cast<std::size_t>(lasting_s_) + 1);
    for (double& one : speed) {
      one = std::exp(now);
      now = kept * now + added * normal();
    }
    return speed;
  }

  std::vector<double> drawn_outages() {
    std::vector<double> outages;
    if (story_.outages <= 0) return outages;
    for (double at = exponential(3600 / story_.outages); at < lasting_s_; at += exponential(3600 / story_.outages))
      outages.push_back(at);
    return outages;
  }

  samples::Sample& shared(std::size_t i, Side side, double end) {
    const Request& request = requests_[i];
    ends_.push_back(end);
    samples::Sample& sample = samples_.emplace_back();
    sample.received_us = begin_us_ + microseconds(request.at);
    sample.dispatched_us = sample.received_us + 100;
    sample.id = {1 + static_cast<std::uint64_t>(side), i + 1};
    sample.pool = names_.pool;
    sample.api = metrics::Api::openai_chat;
    sample.stream = story_.streams;
    sample.greedy = story_.greedy != Greedy::no;
    sample.turn = request.turn;
    sample.prompt_chars = 4 * request.prompt;
    set_group(sample, request.group);
    if (side == Side::primary) return sample;
    sample.pair = {1, i + 1};
    sample.pool = names_.shadow_pool;
    sample.role = metrics::Role::shadow;
    sample.shadow = side == Side::control ? names_.control : names_.candidate;
    return sample;
  }

  template <class Sample>
  static void set_group(Sample& sample, std::uint64_t group) {
    if constexpr (requires { sample.group = group; }) sample.group = group;
  }

  void drop(std::size_t i, Side side) {
    samples::Sample& sample = shared(i, side, requests_[i].at);
    sample.drop_reason = names_.late;
    sample.outcome = metrics::Outcome::rejected;
  }

  void add(std::size_t i, Side side, std::size_t replica, const Answer& answer) {
    const Request& request = requests_[i];
    samples::Sample& sample = shared(i, side, request.at + answer.lasted);
    const bool candidate = side == Side::candidate || (story_.split && replica == 3);
    sample.replica = names_.replicas[replica];
    sample.config = candidate ? names_.b : names_.a;
    sample.outcome = answer.outcome;
    sample.status = answer.outcome == metrics::Outcome::upstream_error ? 500 : 200;
    sample.in_flight_at_start = answer.in_flight;
    sample.in_flight_mean = static_cast<float>(answer.in_flight + 1);
    sample.lasted = static_cast<float>(answer.lasted);
    const bool a = !candidate && side != Side::control;
    judged_ += a;
    const bool whole = answer.outcome == metrics::Outcome::ok;
    const bool late =
        story_.streams ? answer.ttft > ttft_limit_s || answer.tpot > tpot_limit_s : answer.lasted > e2e_limit_s;
    missed_ += a && (!whole || late);
    if (!whole && answer.outcome != metrics::Outcome::ok_empty) {
      if (sample.stream && answer.outcome == metrics::Outcome::upstream_reset && answer.ttft < answer.lasted)
        sample.ttft = sample.ttft_client = static_cast<float>(answer.ttft);
      return;
    }
    sample.served = true;
    sample.prompt_tokens = request.prompt;
    sample.cached_tokens = 0;
    sample.output_tokens = whole ? answer.tokens : 0;
    sample.output_chars = 4 * sample.output_tokens;
    sample.finish_reason = story_.bad_tools > 0 ? names_.calls : answer.cut ? names_.length : names_.stop;
    sample.e2e = static_cast<float>(answer.lasted);
    if (!whole) return;
    if (story_.bad_tools > 0) {
      sample.valid_tools = answer.bad_tools ? 0 : 1;
      sample.primary_valid_tools = sample.same_tools = 1;
    }
    set_text(sample, answer);
    if (!story_.streams) return;
    sample.ttft = static_cast<float>(answer.ttft);
    sample.ttft_client = static_cast<float>(answer.ttft + 1e-4);
    if (answer.tokens < 2) return;
    sample.tpot = static_cast<float>(answer.tpot);
    sample.gaps_are_itl = true;
    set_gaps(sample, answer);
  }

  static void set_text(samples::Sample& sample, const Answer& answer) {
    if (!answer.parts_after) return;
    constexpr double bytes_of_a_token = 4;
    constexpr std::uint32_t checkpoint = 64;
    const bool same = std::isinf(*answer.parts_after);
    sample.same_text = same;
    const double common =
        bytes_of_a_token * (same ? answer.tokens : std::min<double>(*answer.parts_after, answer.tokens));
    sample.common_prefix_bytes = static_cast<std::uint32_t>(common) / (same ? 1 : checkpoint) * (same ? 1 : checkpoint);
  }

  /// All gaps but the longest are usual ones.
  static void set_gaps(samples::Sample& sample, const Answer& answer) {
    const auto bin_of = [](double seconds) {
      return metrics::record::GapSketch::bin_of(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
    };
    const double rest = answer.tpot * (answer.tokens - 1) - answer.gap;
    if (answer.tokens > 2 && rest > 0) sample.gaps.push_back({bin_of(rest / (answer.tokens - 2)), answer.tokens - 2});
    const auto longest = bin_of(answer.gap);
    if (!sample.gaps.empty() && sample.gaps[0].index >= longest) {
      ++sample.gaps[0].count;
    } else {
      sample.gaps.push_back({longest, 1});
    }
  }

  Window sorted() {
    std::vector<std::size_t> order(samples_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return ends_[i]; });
    Window window;
    window.all.reserve(order.size());
    window.ends.reserve(order.size());
    for (const std::size_t i : order) {
      window.all.push_back(std::move(samples_[i]));
      window.ends.push_back(ends_[i]);
    }
    samples_.clear();
    ends_.clear();
    window.misses = static_cast<double>(missed_) / static_cast<double>(std::max<std::size_t>(judged_, 1));
    return window;
  }

  const Story& story_;
  const WindowNames& names_;
  Random random_;
  std::normal_distribution<double> normal_;
  double lasting_s_ = 0, phase_ = 0;
  std::int64_t begin_us_ = 1'795'219'200'000'000;
  std::uint64_t groups_ = 0;
  std::vector<Request> requests_, prompts_;
  std::vector<std::size_t> order_;             ///< Of the prompts that repeat.
  std::array<std::vector<double>, 2> leaves_;  ///< By prompt, the tokens before control and candidate part.
  double crash_at_ = 0;
  Side crash_of_ = Side::control;
  std::vector<samples::Sample> samples_;
  std::vector<double> ends_;
  std::size_t judged_ = 0, missed_ = 0;
};

}  // namespace weir::bench
