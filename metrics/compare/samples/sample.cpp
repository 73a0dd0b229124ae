#include "metrics/compare/samples/sample.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace weir::metrics::compare::samples {
namespace {

constexpr std::size_t hex_digits_of_half = 16;

float known(const std::optional<double>& value) { return value ? static_cast<float>(*value) : unknown; }

std::uint32_t known(const std::optional<std::uint64_t>& value) {
  return value && *value < unknown_count ? static_cast<std::uint32_t>(*value) : unknown_count;
}

std::int8_t known(const std::optional<bool>& value) {
  return value ? static_cast<std::int8_t>(*value) : std::int8_t{-1};
}

std::int64_t microseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
}

}  // namespace

Names::Name Names::of(std::string_view text) {
  if (text.empty()) return 0;
  if (const auto found = names_.find(text); found != names_.end()) return found->second;
  const auto added = names_.emplace(text, static_cast<Name>(texts_.size())).first;
  texts_.push_back(&added->first);
  return added->second;
}

Names::Name Names::of_peer(std::string_view text) {
  if (text.empty()) return 0;
  if (const auto found = names_.find(text); found != names_.end()) return found->second;
  if (from_peers_ == most_from_peers) return of("(other)");
  ++from_peers_;
  return of(text);
}

Id id_of(std::string_view hex) {
  if (hex.size() != 2 * hex_digits_of_half) return {};
  Id id{};
  for (std::size_t half = 0; half < id.size(); ++half) {
    const char* const begin = hex.data() + half * hex_digits_of_half;
    const auto [end, error] = std::from_chars(begin, begin + hex_digits_of_half, id[half], 16);
    if (error != std::errc() || end != begin + hex_digits_of_half) return {};
  }
  return id;
}

Sample sample_of(const record::RequestRecord& record, Names& names) {
  const auto& answer = record.answer;
  const auto figures = figures_of(record);
  Sample sample;
  sample.received_us = microseconds(record.time);
  sample.dispatched_us = sample.received_us;
  sample.dispatched_us += microseconds_of(figures.queue.value_or(0));
  sample.id = id_of(record.id);
  sample.pair = id_of(record.mirrored->pair);
  sample.pool = names.of(record.pool);
  sample.replica = names.of(record.replica);
  sample.config = names.of(record.config);
  sample.model = names.of_peer(record.facts.model);
  sample.shadow = names.of(record.mirrored->shadow);
  sample.drop_reason = names.of(record.mirrored->drop_reason);
  sample.finish_reason = names.of_peer(answer.finish_reason);
  sample.role = record.role;
  sample.outcome = record.outcome;
  sample.api = record.facts.api;
  sample.stream = record.facts.stream;
  sample.greedy = record.facts.greedy;
  sample.served = served(record);
  sample.gaps_are_itl = answer.tokens_per_event != TokensPerEvent::unknown;
  sample.same_text = known(record.mirrored->same_text);
  sample.same_tools = known(record.mirrored->same_tools);
  sample.valid_tools = known(record.mirrored->valid_tools);
  sample.primary_valid_tools = known(record.mirrored->primary_valid_tools);
  sample.status = static_cast<std::uint16_t>(record.status.value_or(0));
  sample.turn = record.facts.user_messages;
  sample.group = record.facts.conversation;
  sample.prompt_tokens = known(answer.prompt_tokens);
  sample.cached_tokens = known(answer.cached_tokens);
  sample.output_tokens = known(answer.output_tokens);
  sample.reasoning_tokens = known(answer.reasoning_tokens);
  // As in the log, counts of text that was not read are unknown.
  const bool known_api = sample.api != Api::other;
  if (known_api && record.facts.whole_json) sample.prompt_chars = known(std::optional(record.facts.text.chars()));
  if (generates(sample.api) && !answer.unparsed) sample.output_chars = known(std::optional(answer.output_chars));
  sample.common_prefix_bytes = known(record.mirrored->common_prefix_bytes);
  sample.ttft = known(figures.ttft);
  sample.ttft_client = known(figures.ttft_client);
  sample.tpot = known(figures.tpot);
  sample.e2e = known(figures.e2e);
  if (record.ended && *record.ended >= record.received)
    sample.lasted = static_cast<float>(seconds(*record.ended - record.received));
  if (!record.replica.empty()) {
    sample.in_flight_mean = known(record.in_flight_mean);
    sample.in_flight_at_start = record.in_flight_at_start.value_or(unknown_count);
  }
  const auto bins = answer.gaps.bins();
  if (record.facts.stream) sample.gaps.assign(bins.begin(), bins.end());
  return sample;
}

std::int64_t microseconds_of(double seconds) {
  return seconds > 0 ? static_cast<std::int64_t>(std::min(seconds, longest_s) * 1e6) : 0;
}

std::int64_t first_moment(std::span<const Sample> samples) {
  return samples.empty() ? 0 : std::ranges::min(samples, {}, &Sample::dispatched_us).dispatched_us;
}

std::int64_t last_moment(std::span<const Sample> samples) {
  std::int64_t last = 0;
  for (const Sample& sample : samples) last = std::max(last, sample.received_us + microseconds_of(sample.lasted));
  return last;
}

namespace {

/// The times of a request, or how long its client had waited when it left. NaN is unknown.
struct Waits {
  float ttft_client, ttft, tpot, e2e;
};

float queue_of(const Sample& sample) {
  return static_cast<float>(static_cast<double>(sample.dispatched_us - sample.received_us) * 1e-6);
}

Waits waits_of(const Sample& sample) {
  Waits waits{sample.ttft_client, sample.ttft, sample.tpot, sample.e2e};
  if (sample.served) return waits;
  const float waited = sample.lasted;
  waits.e2e = waited;
  if (!sample.stream) return waits;
  if (std::isnan(waits.ttft_client)) waits.ttft_client = waited;
  if (std::isnan(waits.ttft) && sample.dispatched_us > sample.received_us) waits.ttft = waited - queue_of(sample);
  // The token that was due when the client left counts as a token.
  if (!std::isnan(sample.ttft_client) && sample.output_tokens != unknown_count) {
    const std::uint32_t behind = sample.output_tokens > 1 ? sample.output_tokens - 1 : 1;
    waits.tpot = (waited - sample.ttft_client) / static_cast<float>(behind);
  }
  return waits;
}

class ThresholdCheck {
 public:
  void compare(const std::optional<config::Seconds>& threshold, float figure) {
    if (!threshold || std::isnan(figure)) return;
    any_ = true;
    missed_ |= figure > static_cast<float>(threshold->count());
  }
  bool any() const { return any_; }
  bool missed() const { return missed_; }

 private:
  bool any_ = false, missed_ = false;
};

ThresholdCheck check(const config::Slo& slo, const Sample& sample, Since since) {
  const Waits waits = waits_of(sample);
  const bool dispatch = since == Since::dispatch;
  ThresholdCheck check;
  check.compare(slo.ttft_client, dispatch ? waits.ttft : waits.ttft_client);
  check.compare(slo.ttft, waits.ttft);
  check.compare(slo.tpot, waits.tpot);
  check.compare(slo.e2e, dispatch ? waits.e2e - queue_of(sample) : waits.e2e);
  return check;
}

bool tells(Attainment attainment) { return attainment == Attainment::met || attainment == Attainment::missed; }

/// Returns whether the answer met the objective, beside another to which it applied.
bool met_beside_other(Attainment attainment, const Sample& sample) {
  if (attainment == Attainment::no_figure) return sample.outcome != Outcome::ok_empty;
  return attainment == Attainment::met;
}

}  // namespace

Attainment judge(const config::Slo& slo, const Sample& sample, Since since) {
  if (sample.drop_reason != 0) return Attainment::missed;
  if (!sample.stream && !slo.e2e) return Attainment::no_figure;
  if (sample.served) {
    const ThresholdCheck thresholds = check(slo, sample, since);
    if (thresholds.missed()) return Attainment::missed;
    return thresholds.any() ? Attainment::met : Attainment::no_figure;
  }
  switch (sample.outcome) {
    case Outcome::bad_request:
    case Outcome::client_error:
      return Attainment::refused;
    case Outcome::client_abort:
      return check(slo, sample, since).missed() ? Attainment::missed : Attainment::left_early;
    default:
      return Attainment::missed;
  }
}

std::optional<PairAttainment> judge_pair(const config::Slo& slo, const Sample& a, const Sample& b) {
  const Attainment of_a = judge(slo, a, Since::dispatch), of_b = judge(slo, b, Since::dispatch);
  if (of_a == Attainment::left_early || of_b == Attainment::left_early) return std::nullopt;
  const bool one_refused = (of_a == Attainment::refused) != (of_b == Attainment::refused);
  if (!tells(of_a) && !tells(of_b) && !one_refused) return std::nullopt;
  return PairAttainment{met_beside_other(of_a, a), met_beside_other(of_b, b)};
}

}  // namespace weir::metrics::compare::samples
