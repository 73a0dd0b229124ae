#include "proxy/live/document.hpp"

#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "metrics/text.hpp"

namespace weir::proxy::live {
namespace {

using metrics::wire::JsonWriter;
using Optional = std::optional<double>;

constexpr unsigned of_seconds = 6, of_rates = 2, of_shares = 4;

void write_optional_time(JsonWriter& json, std::optional<Wall> time) {
  if (time)
    write_time(json, *time);
  else
    json.null();
}

JsonWriter& write_words(JsonWriter& json, const Words& words) {
  json.open('{');
  for (const auto& [word, count] : words) json.key(word).fixed(count, 0);
  return json.close('}');
}

void write_quantiles(JsonWriter& json, const Latencies::Quantiles& quantiles) {
  json.key("ttft_s").open('{').key("p50").fixed(quantiles.ttft_p50, of_seconds);
  json.key("p95").fixed(quantiles.ttft_p95, of_seconds).close('}');
  json.key("tpot_s").open('{').key("p50").fixed(quantiles.tpot_p50, of_seconds).close('}');
}

Optional finite(Optional value) { return value && std::isfinite(*value) ? value : std::nullopt; }

std::string weir_json(const WeirNow& weir) {
  JsonWriter json(1024);
  json.open('{').key("version").text(weir.version).key("instance").text(weir.instance);
  json.key("pid").count(static_cast<std::uint64_t>(::getpid()));
  write_time(json.key("started"), weir.started);
  json.key("uptime_s").fixed(weir.uptime_seconds, 0);
  json.key("ready").boolean(weir.why_not_ready.empty()).key("why_not_ready").known_text(weir.why_not_ready);
  json.key("draining").boolean(weir.draining).key("bypass").boolean(weir.bypass);
  write_time(json.key("settings").open('{').key("loaded"), weir.loaded);
  json.key("ok").boolean(weir.last_reload_ok).key("errors").texts(weir.reload_errors).close('}');
  json.key("threads").count(weir.threads).key("cpu").fixed(weir.cpu, of_rates);
  json.key("memory_bytes").fixed(weir.memory_bytes, 0).key("descriptors").fixed(weir.descriptors, 0);
  json.key("descriptors_limit").fixed(weir.descriptors_limit, 0);
  json.key("connections").count(weir.connections).key("connections_limit").count(weir.connections_limit);
  json.key("loop_delay_p99_s").fixed(finite(weir.loop_delay_p99), of_seconds);
  json.key("overhead_p99_s").fixed(finite(weir.overhead_p99), of_seconds);
  json.key("buffer_bytes").count(weir.buffer_bytes).key("buffer_limit_bytes").count(weir.buffer_limit_bytes);
  json.key("log").open('{').key("lines_lost").count(weir.log.dropped).key("queued").count(weir.log.queued);
  json.key("loses").boolean(weir.log_loses).key("waits_for_reader").boolean(weir.log.waits_for_reader);
  json.key("why").known_text(weir.log_why).close('}');
  write_optional_time(json.key("certificate_ends"), weir.certificate_ends);
  write_words(json.key("limits_60s"), weir.limits_60s);
  return json.close('}').written();
}

std::string pool_json(const PoolNow& pool) {
  JsonWriter json(1024);
  json.open('{').key("replicas").count(pool.replicas).key("up").count(pool.up);
  json.key("in_flight").count(pool.in_flight).key("max_in_flight").count(pool.max_in_flight);
  json.key("queued_tokens").count(pool.queued_tokens).key("max_queued_tokens").count(pool.max_queued_tokens);
  json.key("waiting").count(pool.waiting).key("queue").count(pool.queue);
  json.key("waiting_tokens").count(pool.waiting_tokens).key("oldest_waiting_s").fixed(pool.oldest_waiting, 3);
  json.key("oldest_unanswered_s").fixed(pool.oldest_unanswered, 3);
  json.key("requests_per_s").fixed(pool.requests_per_s, of_rates);
  json.key("failed_per_s").fixed(pool.failed_per_s, of_rates);
  json.key("refused_per_s").fixed(pool.refused_per_s, of_rates);
  json.key("tokens_in_per_s").fixed(pool.tokens_in_per_s, 1).key("tokens_out_per_s").fixed(pool.tokens_out_per_s, 1);
  write_words(json.key("outcomes_60s"), pool.outcomes_60s);
  write_quantiles(json, pool.latencies);
  json.key("slo");
  if (pool.slo) {
    const auto judged = pool.slo->good_60s + pool.slo->bad_60s;
    json.open('{').key("name").text(pool.slo->name).key("good_60s").fixed(pool.slo->good_60s, 0);
    json.key("bad_60s").fixed(pool.slo->bad_60s, 0).key("attainment");
    json.fixed(judged > 0 ? Optional(pool.slo->good_60s / judged) : std::nullopt, of_shares).close('}');
  } else {
    json.null();
  }
  json.key("peak").open('{');
  for (const auto& [figure, most] : pool.peaks) json.key(figure).fixed(most, 1);
  return json.close('}').close('}').written();
}

std::string replica_json(const ReplicaNow& one) {
  JsonWriter json(1536);
  json.open('{').key("pool").text(one.pool).key("role").text(name_of(one.role));
  json.key("shadow").known_text(one.shadow).key("config").text(one.config).key("gpu").known_text(one.gpu);
  json.key("url").text(one.url).key("address").known_text(one.address).key("weight").exact(one.weight);
  json.key("state").text(name_of(one.state));
  write_time(json.key("since"), one.since);
  json.key("reason").text(one.reason).key("asleep").boolean(one.asleep);
  json.key("idle").known_text(one.idle).key("leaving").boolean(one.leaving);
  json.key("injection_disabled").boolean(one.injection_disabled);
  json.key("in_flight").count(one.in_flight).key("max_in_flight").count(one.max_in_flight);
  json.key("in_prefill").fixed(one.in_prefill, of_rates).key("in_decode").fixed(one.in_decode, of_rates);
  json.key("queued_prefill_tokens").count(one.queued_prefill_tokens);
  json.key("queued_decode_tokens").count(one.queued_decode_tokens).key("resident_tokens").count(one.resident_tokens);
  json.key("kv").open('{').key("usage").fixed(one.kv_usage, of_shares).key("source");
  json.known_text(!one.kv_usage ? "" : one.kv_by_engine ? "engine" : "weir").key("tokens").count(one.kv_tokens);
  json.close('}').key("oldest_unanswered_s").fixed(one.oldest_unanswered, 3).key("silent_s").fixed(one.silent, 1);
  json.key("requests_per_s").fixed(one.requests_per_s, of_rates).key("failed_per_s").fixed(one.failed_per_s, of_rates);
  json.key("tokens_in_per_s").fixed(one.tokens_in_per_s, 1).key("tokens_out_per_s").fixed(one.tokens_out_per_s, 1);
  json.key("requests_60s").fixed(one.requests_60s, 0).key("failed_60s").fixed(one.failed_60s, 0);
  json.key("retries_60s").fixed(one.retries_60s, 0).key("share").fixed(one.share, of_shares);
  json.key("tokens_per_busy_s").fixed(one.tokens_per_busy_s, 1);
  write_quantiles(json, one.latencies);
  json.key("peers").open('{').key("ttft").fixed(one.ttft_by_peers, of_rates);
  json.key("icl").fixed(one.gap_by_peers, of_rates);
  json.close('}').key("prediction_error").fixed(one.prediction_error, of_shares);
  json.key("cached_share").fixed(one.cached_share, of_shares);
  json.key("estimate_ratio").fixed(one.estimate_ratio, of_rates);
  json.key("engine").open('{').key("name").known_text(one.engine).key("version").known_text(one.engine_version);
  json.key("model").known_text(one.model).key("max_context").count(one.max_context);
  json.key("prefix_cache_queries").exact(one.prefix_queries).key("prefix_cache_hits").exact(one.prefix_hits);
  json.key("running").fixed(one.engine_running, 0);
  json.key("waiting").fixed(one.engine_waiting, 0).key("divergence").decimal(one.divergence).close('}');
  return json.close('}').written();
}

std::string comparison_json(const ComparisonNow& one) {
  JsonWriter json(1024);
  json.open('{').key("state").text(one.state).key("a").text(one.a).key("b").text(one.b);
  json.key("pairs").count(one.pairs).key("warming").count(one.warming).key("lost").count(one.lost);
  json.key("answers").text(one.answers);
  write_time(json.key("made"), one.made);
  json.key("metrics").open('[');
  for (const auto& metric : one.metrics) {
    json.open('{').key("metric").text(metric.metric).key("count").count(metric.count);
    json.key("value_a").decimal(metric.value_a).key("value_b").decimal(metric.value_b);
    json.key("estimate").decimal(metric.estimate).key("low").decimal(metric.low).key("high").decimal(metric.high);
    json.key("margin").decimal(metric.margin).key("finding").text(metric.finding);
    json.key("needs_s").fixed(metric.needs_seconds, 0).close('}');
  }
  return json.close(']').close('}').written();
}

std::string shadow_json(const ShadowNow& one, const std::vector<ComparisonNow>& comparisons) {
  JsonWriter json(1024);
  json.open('{').key("of").text(one.of).key("twin").known_text(one.twin).key("sample").fixed(one.sample, of_shares);
  json.key("control").boolean(one.control).key("on").boolean(one.on);
  write_optional_time(json.key("began"), one.began);
  json.key("in_flight").count(one.in_flight).key("max_in_flight").count(one.max_in_flight);
  json.key("queued_tokens").count(one.queued_tokens).key("silent_s").fixed(one.silent, 1);
  json.key("sent_60s").fixed(one.sent_60s, 0);
  write_words(json.key("dropped_60s"), one.dropped_60s);
  json.key("pairs").count(one.pairs).key("comparison");
  const auto comparison = std::ranges::find(comparisons, one.name, &ComparisonNow::shadow);
  json.raw(comparison == comparisons.end() ? "null" : comparison_json(*comparison));
  return json.close('}').written();
}

std::string key_json(const KeyNow& one) {
  JsonWriter json(256);
  json.open('{').key("open").count(one.open).key("max_in_flight").count(one.max_in_flight);
  json.key("waiting").count(one.waiting).key("wait_s").fixed(one.wait, 3);
  json.key("requests_60s").fixed(one.requests_60s, 0).key("failed_60s").fixed(one.failed_60s, 0);
  json.key("refused_60s").fixed(one.refused_60s, 0).key("requests_per_s").fixed(one.requests_per_s, of_rates);
  json.key("tokens_in_per_s").fixed(one.tokens_in_per_s, 1).key("tokens_out_per_s").fixed(one.tokens_out_per_s, 1);
  return json.close('}').written();
}

void write_request(JsonWriter& json, const RequestRow& one) {
  write_time(json.open('{').key("time"), one.time);
  json.key("id").text(one.id).key("client_id").known_text(one.client_id).key("key").known_text(one.key);
  json.key("pool").known_text(one.pool).key("replica").known_text(one.replica).key("api").text(name_of(one.api));
  json.key("model").known_text(one.model).key("stream").boolean(one.stream);
  json.key("outcome").text(name_of(one.outcome)).key("status").count(one.status);
  json.key("phase").known_text(one.phase ? name_of(*one.phase) : "").key("attempts").count(one.attempts);
  json.key("tried").open('[');
  for (const auto& tried : one.tried) {
    json.open('{').key("replica").text(tried.replica).key("from_s").fixed(tried.from, of_seconds);
    json.key("to_s").fixed(tried.to, of_seconds).key("status").count(tried.status);
    json.key("why").known_text(tried.why ? metrics::retry_names[static_cast<std::size_t>(*tried.why)] : "").close('}');
  }
  json.close(']');
  json.key("wait_s").fixed(one.wait, of_seconds).key("connect_s").fixed(one.connect, of_seconds);
  json.key("earlier_s").fixed(one.earlier, of_seconds).key("prefill_s").fixed(one.prefill, of_seconds);
  json.key("decode_s").fixed(one.decode, of_seconds).key("total_s").fixed(one.total, of_seconds);
  json.key("ttft_client_s").fixed(one.ttft_client, of_seconds).key("tpot_s").fixed(one.tpot, of_seconds);
  json.key("prompt_tokens").count(one.prompt_tokens).key("cached_tokens").count(one.cached_tokens);
  json.key("output_tokens").count(one.output_tokens).close('}');
}

template <class Requests>
std::string requests_json(const Requests& requests) {
  JsonWriter json(16 * 1024);
  json.open('[');
  for (const auto& one : requests) write_request(json, one);
  return json.close(']').written();
}

std::string finding_json(const Finding& one) {
  JsonWriter json(512);
  json.open('{').key("what").text(one.what).key("who").text(one.who).key("severity").text(name_of(one.severity));
  write_time(json.key("since"), one.since);
  json.key("text").text(one.text).key("runbook").text("docs/guides/alerts.md#" + std::string(one.what));
  return json.close('}').written();
}

/// spdlog's names, but for its err.
std::string_view level_name(events::Level level) {
  if (level == events::Level::err) return "error";
  const auto name = spdlog::level::to_string_view(level);
  return {name.data(), name.size()};
}

std::string event_json(const events::Event& event) {
  JsonWriter json(512);
  json.open('{').key("seq").count(event.seq);
  write_time(json.key("time"), event.time);
  json.key("level").text(level_name(event.level)).key("what").text(name_of(event.what));
  json.key("who").known_text(event.who).key("text").text(event.text);
  return json.close('}').written();
}

void write_section(JsonWriter& json, const Document::Section& section) {
  json.key(std::string_view(section.name));
  if (!section.has_rows) {
    json.raw(section.rows.front().json);
    return;
  }
  json.open('{');
  for (const auto& row : section.rows) json.key(std::string_view(row.name)).raw(row.json);
  json.close('}');
}

/// Writes a value whole, with null for each member that `before` has and `value` has not, at any depth: a client that
/// merges the value into the one before has the value then.
void write_over(JsonWriter& json, simdjson::dom::element before, simdjson::dom::element value) {
  simdjson::dom::object old, members;
  if (before.get(old) != simdjson::SUCCESS || value.get(members) != simdjson::SUCCESS) {
    json.raw(simdjson::minify(value));
    return;
  }
  json.open('{');
  for (const auto [name, member] : members) {
    simdjson::dom::element was;
    json.key(name);
    if (old.at_key(name).get(was) == simdjson::SUCCESS)
      write_over(json, was, member);
    else
      json.raw(simdjson::minify(member));
  }
  for (const auto [name, member] : old)
    if (members.at_key(name).error() != simdjson::SUCCESS) json.key(name).null();
  json.close('}');
}

/// Writes the row of a patch.
void write_changed(JsonWriter& json, Document::Members members, const Document::Row& before, const Document::Row& row) {
  if (members == Document::Members::fixed) {
    json.raw(row.json);
    return;
  }
  simdjson::dom::parser of_before, of_row;
  write_over(json, of_before.parse(before.json), of_row.parse(row.json));
}

}  // namespace

void write_time(JsonWriter& json, Wall time) {
  json.text(metrics::timestamp(std::chrono::floor<std::chrono::microseconds>(time), 3));
}

std::string Document::json() const {
  std::size_t size = 256;
  for (const auto& section : sections_)
    for (const auto& row : section.rows) size += row.name.size() + row.json.size() + 8;
  JsonWriter json(size);
  json.open('{');
  for (const auto& section : sections_) write_section(json, section);
  return json.close('}').written();
}

std::string Document::patch_of(const Document& before) const {
  JsonWriter json;
  json.open('{');
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    const auto& section = sections_[i];
    const auto& old = before.sections_[i];
    if (section.rows == old.rows) continue;
    if (!section.has_rows) {
      write_changed(json.key(std::string_view(section.name)), section.members, old.rows.front(), section.rows.front());
      continue;
    }
    std::map<std::string_view, const Row*> known;
    for (const auto& row : old.rows) known.emplace(row.name, &row);
    json.key(std::string_view(section.name)).open('{');
    for (const auto& row : section.rows) {
      const auto found = known.find(row.name);
      const bool same = found != known.end() && found->second->json == row.json;
      if (!same) {
        json.key(std::string_view(row.name));
        if (found != known.end())
          write_changed(json, section.members, *found->second, row);
        else
          json.raw(row.json);
      }
      if (found != known.end()) known.erase(found);
    }
    for (const auto& [name, row] : known) json.key(name).null();
    json.close('}');
  }
  return json.close('}').written();
}

Document document_of(const Now& now, const std::vector<RequestRow>& slowest, const std::deque<RequestRow>& failed,
                     const std::vector<Finding>& findings, const std::vector<events::Event>& latest) {
  Document document;
  document.value("schema", std::to_string(schema));
  JsonWriter time;
  write_time(time, now.time);
  document.value("time", time.written());
  document.value("serial", std::to_string(now.serial));
  using enum Document::Members;
  document.value("weir", weir_json(now.weir), vary);
  auto& pools = document.rows("pools", vary).rows;
  for (const auto& one : now.pools) pools.push_back({one.name, pool_json(one)});
  auto& replicas = document.rows("replicas").rows;
  for (const auto& one : now.replicas) replicas.push_back({one.row, replica_json(one)});
  auto& shadows = document.rows("shadows", vary).rows;
  for (const auto& one : now.shadows) shadows.push_back({one.name, shadow_json(one, now.weir.comparisons)});
  auto& rollouts = document.rows("rollouts").rows;
  for (const auto& one : now.weir.rollouts) {
    JsonWriter json;
    json.open('{').key("state").text(one.state).key("share").fixed(one.share, of_shares).close('}');
    rollouts.push_back({one.name, json.written()});
  }
  auto& keys = document.rows("keys").rows;
  for (const auto& one : now.keys) keys.push_back({one.name, key_json(one)});
  document.value("keys_left_off", std::to_string(now.keys_left_off));
  document.rows("requests").rows = {{"slowest", requests_json(slowest)}, {"failed", requests_json(failed)}};
  auto& found = document.rows("findings").rows;
  for (const auto& one : findings) found.push_back({std::string(one.what) + ':' + one.who, finding_json(one)});
  auto& told = document.rows("events").rows;
  for (const auto& one : latest) told.push_back({std::to_string(one.seq), event_json(one)});
  return document;
}

std::string events_json(const events::Ring::Since& since, Wall started) {
  JsonWriter json(256 * since.events.size() + 256);
  json.open('{').key("schema").count(schema);
  write_time(json.key("started"), started);
  json.key("first").count(since.first).key("last").count(since.last).key("missed").count(since.missed);
  json.key("events").open('[');
  for (const auto& event : since.events) json.raw(event_json(event));
  return json.close(']').close('}').written();
}

namespace {

using metrics::Outcome;
using metrics::seconds;

RequestRow row_of(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures) {
  RequestRow row;
  row.time = record.time;
  row.id = record.id;
  row.client_id = record.client_id;
  row.key = record.key;
  row.pool = record.pool;
  row.replica = record.replica;
  row.model = record.facts.model;
  row.api = record.facts.api;
  row.stream = record.facts.stream;
  row.outcome = record.outcome;
  row.status = record.status;
  row.phase = record.phase;
  row.attempts = record.attempt;
  for (const auto& one : *record.tried)
    row.tried.push_back({one.replica, seconds(one.began - record.received), seconds(one.ended - record.received),
                         one.status != 0 ? std::optional(one.status) : std::nullopt, one.why});
  row.wait = seconds(record.wait);
  row.connect = seconds(record.connect);
  if (figures.queue) row.earlier = std::max(0.0, *figures.queue - row.wait - row.connect);
  row.prefill = figures.ttft;
  const auto& answer = record.answer;
  if (answer.first_token && answer.last_choice) row.decode = seconds(*answer.last_choice - *answer.first_token);
  if (record.ended) row.total = seconds(*record.ended - record.received);
  row.ttft_client = figures.ttft_client;
  row.tpot = figures.tpot;
  row.prompt_tokens = answer.prompt_tokens;
  row.cached_tokens = answer.cached_tokens;
  row.output_tokens = answer.output_tokens;
  return row;
}

}  // namespace

bool has_failed(Outcome outcome) {
  return outcome == Outcome::upstream_error || outcome == Outcome::upstream_reset || outcome == Outcome::truncated ||
         outcome == Outcome::timeout || outcome == Outcome::replica_refused;
}

void Requests::add(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures, Moment now) {
  if (has_failed(record.outcome) || record.outcome == Outcome::rejected) {
    failed_.push_front(row_of(record, figures));
    if (failed_.size() > most) failed_.pop_back();
  }
  // weir's own answers, and requests that reached no replica, say nothing of slowness.
  if (record.replica.empty()) return;
  const bool stream = figures.ttft_client.has_value();
  const auto score = stream || !record.ended ? figures.ttft_client : seconds(*record.ended - record.received);
  if (!score) return;
  const auto minute = minute_of(now);
  auto& of_minute = by_minute_[static_cast<std::size_t>(minute) % by_minute_.size()];
  if (of_minute.minute != minute) of_minute = {minute, {}};
  auto& slowest = of_minute.slowest[stream ? 0 : 1];
  if (slowest.size() == most && *score <= slowest.back().score) return;
  const auto at = std::ranges::find_if(slowest, [&](const Scored& one) { return one.score < *score; });
  slowest.insert(at, {*score, row_of(record, figures)});
  if (slowest.size() > most) slowest.pop_back();
}

std::vector<RequestRow> Requests::slowest(Moment now) const {
  std::vector<RequestRow> rows;
  for (std::size_t kind = 0; kind < 2; ++kind) {
    std::vector<const Scored*> all;
    for (const auto& of_minute : by_minute_) {
      const auto age = minute_of(now) - of_minute.minute;
      if (of_minute.minute < 0 || age < 0 || age > static_cast<std::int64_t>(minutes)) continue;
      for (const auto& one : of_minute.slowest[kind]) all.push_back(&one);
    }
    std::ranges::stable_sort(all, [](const auto* a, const auto* b) { return a->score > b->score; });
    for (std::size_t i = 0; i < std::min(all.size(), most); ++i) rows.push_back(all[i]->row);
  }
  return rows;
}

}  // namespace weir::proxy::live
