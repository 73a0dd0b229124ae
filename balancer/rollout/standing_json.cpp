#include "balancer/rollout/standing_json.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer::rollout {
namespace {

using simdjson::dom::element;

void write_counts(metrics::wire::JsonWriter& json, const Counts& counts, double share) {
  json.open('{').key("candidate").count(counts.candidate).key("candidate_bad").count(counts.candidate_bad);
  json.key("stable").count(counts.stable).key("stable_bad").count(counts.stable_bad);
  json.key("evidence").decimal(evidence(counts, share)).close('}');
}

void write_drawn(metrics::wire::JsonWriter& json, const Drawn& drawn, double share) {
  json.open('{').key("candidate").count(drawn.candidate).key("stable").count(drawn.stable);
  json.key("evidence").decimal(evidence(drawn, share)).close('}');
}

// The readers below throw simdjson::simdjson_error or Damaged where the text is not as weir writes it.
struct Damaged {};

double amount_in(element value) {
  const double amount = value.get_double();
  if (!std::isfinite(amount) || amount < 0) throw Damaged();
  return amount;
}

/// No weir counts as many as 1e15; evidence of so many would take for ever.
std::uint64_t count_in(element value) {
  const std::uint64_t count = value.get_uint64();
  if (count >= std::uint64_t{1'000'000'000'000'000}) throw Damaged();
  return count;
}

Counts counts_in(element value) {
  const Counts counts{count_in(value["candidate"]), count_in(value["candidate_bad"]), count_in(value["stable"]),
                      count_in(value["stable_bad"])};
  if (counts.candidate_bad > counts.candidate || counts.stable_bad > counts.stable) throw Damaged();
  return counts;
}

/// A file of an earlier weir has none.
Drawn drawn_in(element standing, std::string_view key) {
  const auto value = standing[key];
  if (value.error() == simdjson::NO_SUCH_FIELD) return {};
  return {count_in(value["candidate"]), count_in(value["stable"])};
}

/// Only a state with this share is written.
bool is_share_of(State state, double share) {
  switch (state) {
    case State::live:
      return share > 0 && share < 1;
    case State::paused:
      return share < 1;
    case State::done:
      return share == 1;
    case State::idle:
    case State::shadow:
    case State::returned:
    case State::aborted:
      break;
  }
  return share == 0;
}

Standing read(element object) {
  Standing standing;
  const auto* const state = std::ranges::find(state_names, object["state"].get_string().value());
  if (state == state_names.end()) throw Damaged();
  standing.state = static_cast<State>(state - state_names.begin());
  standing.share = amount_in(object["share"]);
  if (!is_share_of(standing.state, standing.share)) throw Damaged();
  standing.in_step = amount_in(object["in_step_seconds"]);
  standing.unknown = amount_in(object["unknown_seconds"]);
  standing.shadow_passed = object["shadow_passed"].get_bool();
  standing.failures = counts_in(object["failures"]);
  standing.misses = counts_in(object["misses"]);
  standing.refusals = drawn_in(object, "refusals");
  standing.hangs = drawn_in(object, "hangs");
  standing.why = object["why"].get_string().value();
  return standing;
}

}  // namespace

void write_standing(metrics::wire::JsonWriter& json, const Standing& standing) {
  json.key("state").text(name_of(standing.state)).key("share").exact(standing.share).key("why").text(standing.why);
  json.key("in_step_seconds").exact(standing.in_step).key("unknown_seconds").exact(standing.unknown);
  json.key("shadow_passed").boolean(standing.shadow_passed);
  json.key("failures");
  write_counts(json, standing.failures, standing.share);
  json.key("misses");
  write_counts(json, standing.misses, standing.share);
  json.key("refusals");
  write_drawn(json, standing.refusals, standing.share);
  json.key("hangs");
  write_drawn(json, standing.hangs, standing.share);
}

std::optional<Standing> standing_in(element object) {
  try {
    return read(object);
  } catch (const simdjson::simdjson_error&) {
    return std::nullopt;
  } catch (const Damaged&) {
    return std::nullopt;
  }
}

}  // namespace weir::balancer::rollout
