#include "metrics/compare/report/side_json.hpp"

#include <array>

namespace weir::metrics::compare::report {
namespace {

using report::write;

void write(JsonWriter& json, const sides::LoadPoint& point) {
  json.open('{').key("in_flight").decimal(point.in_flight).key("minutes").count(point.minutes);
  json.key("requests").count(point.requests);
  write(json, "output_tokens_per_second", point.output_tokens_per_second);
  write(json, "total_tokens_per_second", point.total_tokens_per_second);
  write(json, "requests_per_minute", point.requests_per_minute);
  write(json, "tokens_per_second_per_user", point.tokens_per_second_per_user);
  write(json, "ttft_s", point.ttft);
  json.close('}');
}

constexpr std::array<std::string_view, 4> capacity_states{"too_few", "none", "found", "not_reached"};

void write(JsonWriter& json, const sides::Capacity& capacity) {
  json.open('{').key("state").text(capacity_states[static_cast<std::size_t>(capacity.state)]);
  const auto at = [&](std::string_view name, auto rate) {
    json.key(name).decimal(capacity.at ? std::optional<double>(rate(*capacity.at)) : std::nullopt);
  };
  at("output_tokens_per_second", [](const sides::LoadPoint& point) { return point.output_tokens_per_second.value; });
  at("total_tokens_per_second", [](const sides::LoadPoint& point) { return point.total_tokens_per_second.value; });
  at("requests_per_minute", [](const sides::LoadPoint& point) { return point.requests_per_minute.value; });
  at("in_flight", [](const sides::LoadPoint& point) { return point.in_flight; });
  json.key("output_tokens_per_second_interval");
  write(json, capacity.at ? capacity.at->output_tokens_per_second.interval : std::nullopt);
  json.close('}');
}

void write(JsonWriter& json, const sides::Prefill& prefill) {
  json.open('{').key("requests").count(prefill.requests);
  write(json, "ms_per_thousand_tokens", prefill.ms_per_thousand_tokens);
  write(json, "intercept_ms", prefill.intercept_ms);
  json.close('}');
}

void write_costs(JsonWriter& json, const sides::Side& side) {
  const auto of = [](const std::optional<sides::Cost>& cost, double sides::Cost::*member) {
    return cost ? std::optional((*cost).*member) : std::nullopt;
  };
  json.key("cost_per_hour").decimal(side.cost_per_hour);
  json.key("cost_per_thousand_requests").decimal(of(side.cost, &sides::Cost::per_thousand_requests));
  json.key("cost_per_million_output_tokens").decimal(of(side.cost, &sides::Cost::per_million_output_tokens));
  json.key("cost_per_million_output_chars").decimal(side.cost_per_million_output_chars);
  json.key("cost_per_thousand_requests_at_capacity")
      .decimal(of(side.cost_at_capacity, &sides::Cost::per_thousand_requests));
  json.key("cost_per_million_output_tokens_at_capacity")
      .decimal(of(side.cost_at_capacity, &sides::Cost::per_million_output_tokens));
}

}  // namespace

void write(JsonWriter& json, const std::optional<statistics::Interval>& interval) {
  if (!interval) {
    json.null();
    return;
  }
  json.open('[').decimal(interval->low).decimal(interval->high).close(']');
}

void write(JsonWriter& json, std::string_view name, const statistics::Distribution& distribution) {
  json.key(name).open('{').key("count").count(distribution.count);
  json.key("p50").decimal(distribution.p50).key("p90").decimal(distribution.p90);
  json.key("p95").decimal(distribution.p95).key("p99").decimal(distribution.p99).close('}');
}

void write(JsonWriter& json, std::string_view name, const std::optional<statistics::Measured>& measured) {
  json.key(name);
  if (!measured) {
    json.null();
    return;
  }
  json.open('{').key("value").decimal(measured->value).key("interval");
  write(json, measured->interval);
  json.close('}');
}

void write_counts(JsonWriter& json, std::string_view name, const std::map<std::string, std::uint64_t>& counts) {
  json.key(name).open('{');
  for (const auto& [key, count] : counts) json.key(key).count(count);
  json.close('}');
}

void write(JsonWriter& json, const sides::Side& side) {
  json.open('{').key("name").text(side.name).key("role").text(name_of(side.role));
  json.key("label").text(side.label).key("compared").boolean(side.compared);
  json.key("replicas").texts(side.replicas).key("requests").count(side.requests).key("outcomes").open('{');
  for (std::size_t i = 0; i < outcome_names.size(); ++i) {
    if (side.outcomes[i] > 0) json.key(outcome_names[i]).count(side.outcomes[i]);
  }
  json.close('}');
  write_counts(json, "dropped", side.dropped);
  json.key("rpm").decimal(side.rpm).key("error_share").decimal(side.error_share);
  json.key("slo_attainment").decimal(side.slo_attainment);
  json.key("slo_good").count(side.slo_good).key("slo_bad").count(side.slo_bad);
  write(json, "ttft_s", side.ttft);
  write(json, "ttft_client_s", side.ttft_client);
  write(json, "itl_s", side.itl);
  write(json, "tpot_s", side.tpot);
  write(json, "e2e_s", side.e2e);
  write(json, "decode_tokens_per_second", side.decode_speed);
  write(json, "prompt_tokens", side.prompt_tokens);
  write(json, "output_tokens", side.output_tokens);
  write(json, "reasoning_tokens", side.reasoning_tokens);
  json.key("output_tokens_total").count(side.output_tokens_sum);
  json.key("cached_share").decimal(side.cached_share).key("busy_s").decimal(side.busy_s);
  json.key("output_tokens_per_second").decimal(side.output_tokens_per_second);
  json.key("total_tokens_per_second").decimal(side.total_tokens_per_second);
  json.key("output_chars_per_second").decimal(side.output_chars_per_second);
  json.key("in_flight_mean").decimal(side.in_flight_mean);
  json.key("prefill");
  if (side.prefill) {
    write(json, *side.prefill);
  } else {
    json.null();
  }
  json.key("capacity_at_slo");
  if (side.capacity) {
    write(json, *side.capacity);
  } else {
    json.null();
  }
  write_costs(json, side);
  json.key("load_points").open('[');
  for (const auto& point : side.points) write(json, point);
  json.close(']').close('}');
}

}  // namespace weir::metrics::compare::report
