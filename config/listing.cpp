#include <string>
#include <string_view>
#include <vector>

#include "config/address.hpp"
#include "config/difference.hpp"
#include "config/network.hpp"
#include "config/policy_words.hpp"
#include "config/quantity.hpp"
#include "config/rollouts.hpp"
#include "config/url.hpp"

namespace weir::config {
namespace {

// Each function takes its struct apart by name, so that a key that is new there does not compile before it is listed.

std::string text(const std::string& value) { return value.empty() ? "\"\"" : value; }
std::string text(bool value) { return value ? "true" : "false"; }
std::string text(unsigned value) { return std::to_string(value); }
std::string text(std::uint64_t value) { return std::to_string(value); }
std::string text(double value) { return format_number(value); }
std::string text(Seconds value) { return format_number(value.count()) + " s"; }
std::string size(std::size_t bytes) { return format_size(static_cast<std::int64_t>(bytes)); }

template <class T>
std::string text(const std::optional<T>& value) {
  return value ? text(*value) : "none";
}

std::string text(const std::optional<ListenAddress>& address) { return address ? to_text(*address) : "off"; }

template <class T, class Text>
std::string list(const std::vector<T>& all, Text text_of) {
  std::string joined;
  for (const auto& one : all) joined += (joined.empty() ? "" : ", ") + text_of(one);
  return '[' + joined + ']';
}

std::string text(const std::vector<std::string>& all) {
  return list(all, [](const std::string& one) { return one; });
}

std::string text(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return "trace";
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "";
}

std::string text(const std::optional<ServerTls>& tls) {
  if (!tls) return "off";
  return list(tls->certificates, [](const Certificate& one) { return one.cert + " with " + one.key; });
}

std::string text_of_groups(const std::string& groups) { return groups.empty() ? "weir's own" : groups; }

void list_server(const Server& server, std::vector<ListedKey>& keys) {
  const auto& [listen, threads, paths, replica_header, open, tls, api_keys, client_keys, trusted_proxies, cors_origins,
               half_close] = server;
  keys.push_back({"server.listen", list(listen, [](const ListenAddress& one) { return to_text(one); })});
  keys.push_back({"server.threads", text(threads)});
  keys.push_back({"server.paths", text(paths)});
  keys.push_back({"server.replica_header", text(replica_header)});
  keys.push_back({"server.open", text(open)});
  keys.push_back({"server.tls", text(tls)});
  keys.push_back({"server.tls.groups", text_of_groups(tls ? tls->groups : "")});
  static_cast<void>(client_keys);  // They follow in list_client_keys.
  keys.push_back({"server.api_keys", text(api_keys)});
  keys.push_back({"server.trusted_proxies", list(trusted_proxies, [](const Network& one) { return to_text(one); })});
  keys.push_back({"server.cors_origins", text(cors_origins)});
  keys.push_back({"server.half_close", half_close == HalfClose::allow ? "allow" : "abort"});
}

/// A key's hash is not shown whole: who has it can try out whether a key that he guesses is the right one.
std::string beginning_of(const std::string& hex) { return hex.substr(0, 8) + "..."; }

std::string beginning_of(const std::array<std::uint8_t, 32>& hash) {
  std::string hex;
  for (std::size_t i = 0; i < 4; ++i) hex += {"0123456789abcdef"[hash[i] >> 4], "0123456789abcdef"[hash[i] & 15]};
  return beginning_of(hex);
}

/// The keys are in a table of their own, which is always there, so that one that comes or goes is told by its name.
void list_client_keys(const SharedList<ClientKey>& all, Listing& listing) {
  const std::string file = "server.api_keys";
  listing.push_back({file, "", {}});
  for (const auto& [name, sha256, models, max_in_flight, share] : all) {
    Listed listed{"key " + name, file, {}};
    listed.keys.push_back({"sha256", beginning_of(sha256), std::string(sha256.begin(), sha256.end())});
    listed.keys.push_back({"models", text(models)});
    listed.keys.push_back({"max_in_flight", text(max_in_flight)});
    listed.keys.push_back({"share", text(share)});
    listing.push_back(std::move(listed));
  }
}

void list_log(const Log& log, std::vector<ListedKey>& keys) {
  const auto& [requests, level, format, instance, prefixes] = log;
  keys.push_back({"log.requests", text(requests)});
  keys.push_back({"log.level", text(level)});
  keys.push_back({"log.format", format == LogFormat::json ? "json" : "text"});
  keys.push_back({"log.instance", text(instance)});
  keys.push_back({"log.prefixes", text(prefixes)});
}

void list_limits(const Limits& limits, std::vector<ListedKey>& keys) {
  const auto& [request_head, request_body, read_ahead, connections, connections_per_address, buffer_memory,
               buffer_share, idle_upstream_connections, head_time, body_time, body_rate, answer_rate, handshake_time,
               handshakes, handshake_cpu, client_idle, client_stall, connect, first_token, between_tokens, whole_answer,
               upstream_idle, accept_hold, drain_delay, drain, retry_budget] = limits;
  keys.push_back({"limits.request_head", size(request_head)});
  keys.push_back({"limits.request_body", size(request_body)});
  keys.push_back({"limits.read_ahead", size(read_ahead)});
  keys.push_back({"limits.connections", text(connections)});
  keys.push_back({"limits.connections_per_address", text(connections_per_address)});
  keys.push_back({"limits.buffer_memory", size(buffer_memory)});
  keys.push_back({"limits.buffer_share", text(buffer_share)});
  keys.push_back({"limits.idle_upstream_connections", text(idle_upstream_connections)});
  keys.push_back({"limits.head_time", text(head_time)});
  keys.push_back({"limits.body_time", text(body_time)});
  keys.push_back({"limits.body_rate", size(body_rate)});
  keys.push_back({"limits.answer_rate", size(answer_rate)});
  keys.push_back({"limits.handshake_time", text(handshake_time)});
  keys.push_back({"limits.handshakes", text(handshakes)});
  keys.push_back({"limits.handshake_cpu", text(handshake_cpu)});
  keys.push_back({"limits.client_idle", text(client_idle)});
  keys.push_back({"limits.client_stall", text(client_stall)});
  keys.push_back({"limits.connect", text(connect)});
  keys.push_back({"limits.first_token", text(first_token)});
  keys.push_back({"limits.between_tokens", text(between_tokens)});
  keys.push_back({"limits.whole_answer", text(whole_answer)});
  keys.push_back({"limits.upstream_idle", text(upstream_idle)});
  keys.push_back({"limits.accept_hold", text(accept_hold)});
  keys.push_back({"limits.drain_delay", text(drain_delay)});
  keys.push_back({"limits.drain", text(drain)});
  keys.push_back({"limits.retry_budget", text(retry_budget)});
}

void list_measure(const Measure& measure, std::vector<ListedKey>& keys) {
  const auto& [clock, inject_usage, inject_continuous_usage] = measure;
  keys.push_back({"measure.clock", clock == ReadClock::kernel ? "kernel" : "read"});
  keys.push_back({"measure.inject_usage", text(inject_usage)});
  keys.push_back({"measure.inject_continuous_usage", text(inject_continuous_usage)});
}

void list_health(const Health& health, std::vector<ListedKey>& keys) {
  const auto& [path, interval, timeout, down_after, up_after, eject] = health;
  keys.push_back({"health.path", text(path)});
  keys.push_back({"health.interval", text(interval)});
  keys.push_back({"health.timeout", text(timeout)});
  keys.push_back({"health.down_after", text(down_after)});
  keys.push_back({"health.up_after", text(up_after)});
  keys.push_back({"health.eject", text(eject)});
}

void list_engine(const EngineReading& engine, std::vector<ListedKey>& keys) {
  const auto& [metrics_path, interval, timeout] = engine;
  keys.push_back({"engine.metrics_path", text(metrics_path)});
  keys.push_back({"engine.interval", text(interval)});
  keys.push_back({"engine.timeout", text(timeout)});
}

void list_engine_names(const EngineNames& names, std::vector<ListedKey>& keys) {
  const auto& [running, waiting, kv_usage, kv_used_tokens, kv_tokens, prefix_queries, prefix_hits, prefix_misses,
               counters] = names;
  keys.push_back({"engine.names.running", text(running)});
  keys.push_back({"engine.names.waiting", text(waiting)});
  keys.push_back({"engine.names.kv_usage", text(kv_usage)});
  keys.push_back({"engine.names.kv_used_tokens", text(kv_used_tokens)});
  keys.push_back({"engine.names.kv_tokens", text(kv_tokens)});
  keys.push_back({"engine.names.prefix_queries", text(prefix_queries)});
  keys.push_back({"engine.names.prefix_hits", text(prefix_hits)});
  keys.push_back({"engine.names.prefix_misses", text(prefix_misses)});
  keys.push_back({"engine.names.counters", text(counters)});
}

std::string text(const FairBy& fair_by) {
  switch (fair_by.what) {
    case FairBy::What::key:
      return "key";
    case FairBy::What::address:
      return "address";
    case FairBy::What::header:
      return "header:" + fair_by.header;
  }
  return "";
}

std::string text(const SessionBy& by) {
  switch (by.what) {
    case SessionBy::What::key:
      return "key";
    case SessionBy::What::header:
      return "header:" + by.name;
    case SessionBy::What::body:
      return "body:" + by.name;
  }
  return "";
}

void list_queue(const Queue& queue, std::vector<ListedKey>& keys) {
  const auto& [requests, bytes, time, time_down, fair_by] = queue;
  keys.push_back({"queue", text(requests)});
  keys.push_back({"queue_bytes", size(bytes)});
  keys.push_back({"queue_time", text(time)});
  keys.push_back({"queue_time_down", text(time_down)});
  keys.push_back({"fair_by", text(fair_by)});
}

Listed replica_listed(const Replica& replica, const std::string& pool) {
  const auto& [name, url, config, gpu, expand, weight, cost_per_hour, kv_tokens, max_context, max_in_flight,
               inject_usage, inject_continuous_usage, api_key, max_queued_tokens, max_context_refuses, tls] = replica;
  Listed listed{"replica " + name, pool, {}};
  auto& keys = listed.keys;
  keys.push_back({"url", to_text(url)});
  keys.push_back({"tls.ca", text(tls.ca)});
  keys.push_back({"tls.server_name", text(tls.server_name)});
  keys.push_back({"tls.verify", text(tls.verify)});
  keys.push_back({"tls.cert", tls.own ? tls.own->cert : "none"});
  keys.push_back({"tls.key", tls.own ? tls.own->key : "none"});
  keys.push_back({"tls.groups", text_of_groups(tls.groups)});
  keys.push_back({"config", text(config)});
  keys.push_back({"gpu", text(gpu)});
  keys.push_back({"expand", text(expand)});
  keys.push_back({"weight", text(weight)});
  keys.push_back({"cost_per_hour", text(cost_per_hour)});
  keys.push_back({"kv_tokens", text(kv_tokens)});
  keys.push_back({"max_context", text(max_context)});
  keys.push_back({"max_context_refuses", text(max_context_refuses)});
  keys.push_back({"max_in_flight", text(max_in_flight)});
  keys.push_back({"max_queued_tokens", text(max_queued_tokens)});
  keys.push_back({"inject_usage", text(inject_usage)});
  keys.push_back({"inject_continuous_usage", text(inject_continuous_usage)});
  keys.push_back({"api_key", api_key.empty() ? "none" : "hidden", api_key});
  return listed;
}

std::string text(const Shadow::SampleBy& key) {
  switch (key.what) {
    case Shadow::SampleBy::What::conversation:
      return "conversation";
    case Shadow::SampleBy::What::request:
      return "request";
    case Shadow::SampleBy::What::header:
      return "header:" + key.header;
  }
  return "";
}

void list_shadow(const Shadow& shadow, Listing& listing) {
  const auto& [name, of, twin, control, sample, key, max_in_flight, max_queued_tokens, finish, stop_after, max_pairs,
               exclude_keys, set, forward_auth, replicas, health, engine] = shadow;
  Listed listed{"shadow " + name, "", {}};
  auto& keys = listed.keys;
  keys.push_back({"of", text(of)});
  keys.push_back({"twin", text(twin)});
  keys.push_back({"control", text(control)});
  keys.push_back({"sample", text(sample)});
  keys.push_back({"key", text(key)});
  keys.push_back({"max_in_flight", text(max_in_flight)});
  keys.push_back({"max_queued_tokens", text(max_queued_tokens)});
  keys.push_back({"on_client_abort", finish ? "finish" : "follow"});
  keys.push_back({"stop_after", text(stop_after)});
  keys.push_back({"max_pairs", text(max_pairs)});
  keys.push_back({"exclude_keys", list(exclude_keys, [](const std::string& hash) { return beginning_of(hash); }),
                  text(exclude_keys)});
  keys.push_back({"set", list(set, [](const Shadow::Member& one) { return one.key + " = " + one.json; })});
  keys.push_back({"forward_auth", text(forward_auth)});
  list_health(health, keys);
  list_engine(engine, keys);
  listing.push_back(std::move(listed));
  for (const auto& replica : replicas) listing.push_back(replica_listed(replica, "shadow " + name));
}

void list_pool(const Pool& pool, Listing& listing) {
  const auto& [name, models, policy, prefix_aware, prefix_isolation, replicas, health, max_in_flight,
               max_queued_tokens, queue, engine, keep_alive, session] = pool;
  Listed listed{"pool " + name, "", {}};
  listed.keys.push_back({"models", text(models)});
  listed.keys.push_back({"policy", std::string(name_of(policy))});
  listed.keys.push_back({"prefix_aware", text(prefix_aware)});
  listed.keys.push_back({"prefix_isolation", std::string(name_of(prefix_isolation))});
  listed.keys.push_back({"max_in_flight", text(max_in_flight)});
  listed.keys.push_back({"max_queued_tokens", text(max_queued_tokens)});
  list_queue(queue, listed.keys);
  listed.keys.push_back({"keep_alive", text(keep_alive)});
  listed.keys.push_back({"session", list(session, [](const SessionBy& by) { return text(by); })});
  list_health(health, listed.keys);
  list_engine(engine, listed.keys);
  listing.push_back(std::move(listed));
  for (const auto& replica : replicas) listing.push_back(replica_listed(replica, "pool " + name));
}

Listed slo_listed(const Slo& slo) {
  const auto& [name, pool, ttft_client, ttft, tpot, e2e] = slo;
  Listed listed{"slo " + name, "", {}};
  listed.keys.push_back({"pool", text(pool)});
  listed.keys.push_back({"ttft_client", text(ttft_client)});
  listed.keys.push_back({"ttft", text(ttft)});
  listed.keys.push_back({"tpot", text(tpot)});
  listed.keys.push_back({"e2e", text(e2e)});
  return listed;
}

Listed rollout_listed(const Rollout& rollout) {
  const auto& [name, pool, candidate, shadow, slo, steps, unknown_limit, answers] = rollout;
  Listed listed{"rollout " + name, "", {}};
  listed.keys.push_back({"pool", text(pool)});
  listed.keys.push_back({"candidate", text(candidate)});
  listed.keys.push_back({"shadow", text(shadow)});
  listed.keys.push_back({"slo", text(slo)});
  listed.keys.push_back({"steps", list(steps, [](const Rollout::Step& step) { return to_text(step); })});
  listed.keys.push_back({"unknown_limit", text(unknown_limit)});
  listed.keys.push_back({"answers", std::string(name_of(answers))});
  return listed;
}

}  // namespace

Listing listing_of(const Settings& settings) {
  const auto& [server, metrics, admin, log, limits, measure, engine_names, discovery, pools, slos, shadows, rollouts,
               overridden, secret_files] = settings;
  static_cast<void>(overridden);    // No key: the names of keys that the environment set.
  static_cast<void>(secret_files);  // Likewise: other keys have their paths.
  const auto& [metrics_listen, ready_needs_replica] = metrics;
  const auto& [admin_listen, token, state, reports] = admin;
  Listing listing(1);
  auto& keys = listing.front().keys;
  list_server(server, keys);
  keys.push_back({"metrics.listen", text(metrics_listen)});
  keys.push_back({"metrics.ready_needs_replica", text(ready_needs_replica)});
  keys.push_back({"admin.listen", text(admin_listen)});
  keys.push_back({"admin.token", token.empty() ? "none" : "hidden", token});
  keys.push_back({"admin.state", text(state)});
  keys.push_back({"admin.reports", text(reports)});
  list_log(log, keys);
  list_limits(limits, keys);
  list_measure(measure, keys);
  list_engine_names(engine_names, keys);
  keys.push_back({"discovery.interval", text(discovery.interval)});
  keys.push_back({"discovery.complete", text(discovery.complete)});
  keys.push_back({"discovery.nameserver", discovery.nameserver ? to_text(*discovery.nameserver) : "none"});
  list_client_keys(server.keys, listing);
  for (const auto& pool : pools) list_pool(pool, listing);
  for (const auto& shadow : shadows) list_shadow(shadow, listing);
  for (const auto& slo : slos) listing.push_back(slo_listed(slo));
  for (const auto& rollout : rollouts) listing.push_back(rollout_listed(rollout));
  return listing;
}

}  // namespace weir::config
