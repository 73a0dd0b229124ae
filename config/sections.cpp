#include "config/sections.hpp"

#include <algorithm>
#include <cstdint>

#include "config/address.hpp"
#include "config/keys.hpp"
#include "config/text_file.hpp"
#include "config/tls.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
constexpr std::int64_t gib = 1024 * mib;

/// Reads the file of clients' keys. Its errors name that file and stand behind those of the settings.
void read_client_keys(TableReader& table, Server& server, Report& report) {
  const auto* const written = table.read("api_keys", server.api_keys, Text{4096});
  if (written == nullptr) return;
  const auto text = read_text_file(server.api_keys, file_of_keys);
  if (const auto* problem = std::get_if<Problem>(&text)) {
    table.blame("api_keys", *written,
                "cannot read this file: " + problem->text +
                    "; give the path of a file of keys, from the root or from where weir is started: weir key new NAME "
                    "--append FILE makes one");
    return;
  }
  auto keys = load_keys(std::get<std::string>(text), server.api_keys);
  if (auto* const errors = std::get_if<std::vector<SettingsError>>(&keys)) {
    report.add_all(std::move(*errors));
  } else {
    server.keys = std::get<std::vector<ClientKey>>(std::move(keys));
  }
}

void read_server(TableReader table, Server& server, std::vector<Listener>& listeners, Report& report) {
  std::vector<Listener> found;
  const auto* list = table.read_list("listen", &address, [&](const toml::node& node, ListenAddress one) {
    found.push_back({"[server]", std::move(one), &node});
  });
  if (list) {
    server.listen.clear();
    for (const auto& one : found) server.listen.push_back(one.address);
    if (list->is_array() && list->as_array()->empty()) {
      table.blame("listen", *list, "must hold at least one address, such as \"127.0.0.1:8080\"");
    }
  } else {
    for (const auto& one : server.listen) found.push_back({"[server]", one, nullptr});
  }
  listeners.insert(listeners.end(), found.begin(), found.end());

  table.read("threads", server.threads, Whole<unsigned>{0, 1024});
  const auto* paths = table.read_list(
      "paths", &request_path, [&](const toml::node&, std::string path) { server.paths.push_back(std::move(path)); });
  if (server.paths.size() > 1 && std::find(server.paths.begin(), server.paths.end(), "*") != server.paths.end()) {
    table.blame("paths", *paths, "\"*\" means every path and stands alone; write [\"*\"], or leave it out");
  }
  table.read("replica_header", server.replica_header, &flag);
  const auto* const open = table.read("open", server.open, &flag);
  read_client_keys(table, server, report);
  if (open != nullptr && server.open && table.has("api_keys"))
    table.blame("open", *open,
                "says that everyone may use the replicas, and api_keys that a client needs a key; remove one of them");
  read_server_tls(table, server, report);
  table.read("half_close", server.half_close,
             OneOf<HalfClose, 2>{{{{"abort", HalfClose::abort}, {"allow", HalfClose::allow}}}});
  table.read_list("trusted_proxies", &network,
                  [&](const toml::node&, Network one) { server.trusted_proxies.push_back(one); });
  const auto* origins = table.read_list("cors_origins", &origin, [&](const toml::node&, std::string one) {
    server.cors_origins.push_back(std::move(one));
  });
  if (server.cors_origins.size() > 1 && std::ranges::find(server.cors_origins, "*") != server.cors_origins.end())
    table.blame("cors_origins", *origins, "\"*\" means every origin and stands alone; write [\"*\"], or name origins");
  table.refuse_the_rest();
}

/// Reads [metrics] or [admin], each of which is one listener that can be off.
const toml::node* read_listener(TableReader& table, const char* title, std::optional<ListenAddress>& listen,
                                std::vector<Listener>& listeners) {
  const auto* written = table.read("listen", listen, &address_or_off);
  const bool right = written || !table.has("listen");
  if (right && listen) listeners.push_back({title, *listen, written});
  return written;
}

void read_metrics(TableReader table, MetricsListener& metrics, std::vector<Listener>& listeners) {
  read_listener(table, "[metrics]", metrics.listen, listeners);
  table.read("ready_needs_replica", metrics.ready_needs_replica, &flag);
  table.refuse_the_rest();
}

void read_admin(TableReader table, AdminListener& admin, std::vector<Listener>& listeners) {
  const auto* written = read_listener(table, "[admin]", admin.listen, listeners);
  table.read_secret_or_file("token", "token_file", admin.token, "the token of the admin listener",
                            "the secret is set beside it as well; remove one of them");
  table.read("state", admin.state, Text{4096, true});
  table.read("reports", admin.reports, Text{4096, true});
  const bool has_token = table.has("token") || table.has("token_file");  // A wrong one has its own error.
  if (written && admin.listen && !is_local(*admin.listen) && !has_token) {
    std::string why(admin_needs_a_token);
    why.append("; or write \"\" to switch the listener off");
    table.blame("listen", *written, why);
  }
  table.refuse_the_rest();
}

void read_log(TableReader table, Log& log) {
  table.read("requests", log.requests, Text{4096, true});
  table.read("level", log.level,
             OneOf<LogLevel, 5>{{{{"trace", LogLevel::trace},
                                  {"debug", LogLevel::debug},
                                  {"info", LogLevel::info},
                                  {"warning", LogLevel::warning},
                                  {"error", LogLevel::error}}}});
  table.read("format", log.format, OneOf<LogFormat, 2>{{{{"text", LogFormat::text}, {"json", LogFormat::json}}}});
  table.read("instance", log.instance, Text{128, true});
  table.read("prefixes", log.prefixes, &flag);
  table.refuse_the_rest();
}

void read_limits(TableReader table, Limits& limits) {
  table.read("request_head", limits.request_head, Size{kib, mib});
  const auto* body = table.read("request_body", limits.request_body, Size{kib, gib});
  const auto* memory = table.read("buffer_memory", limits.buffer_memory, Size{mib, 1024 * gib});
  if (limits.buffer_memory < limits.request_body && memory)
    table.blame("buffer_memory", *memory,
                "is less than request_body, so that the largest body could not be read; raise this, or lower that");
  else if (limits.buffer_memory < limits.request_body && body)
    table.blame("request_body", *body,
                "is more than buffer_memory (512MiB by default), so that such a body could not be read; lower this, or "
                "raise that");
  table.read("buffer_share", limits.buffer_share, Number{0, 1});
  table.read("read_ahead", limits.read_ahead, Size{4 * kib, gib});
  table.read("connections", limits.connections, Whole<std::size_t>{1, 1'000'000});
  table.read("connections_per_address", limits.connections_per_address, Whole<std::size_t>{0, 1'000'000});
  table.read("idle_upstream_connections", limits.idle_upstream_connections, Whole<std::size_t>{0, 10'000});
  table.read("head_time", limits.head_time, &time);
  table.read("body_time", limits.body_time, &time);
  table.read("handshake_time", limits.handshake_time, &time);
  table.read("handshakes", limits.handshakes, Whole<std::size_t>{1, 100'000});
  table.read("handshake_cpu", limits.handshake_cpu, Number{0, 1024});
  table.read("body_rate", limits.body_rate, Size{0, gib});
  table.read("answer_rate", limits.answer_rate, Size{0, gib});
  table.read("client_idle", limits.client_idle, &time);
  table.read("client_stall", limits.client_stall, &time);
  table.read("connect", limits.connect, &time);
  table.read("first_token", limits.first_token, &time);
  table.read("between_tokens", limits.between_tokens, &time);
  table.read("whole_answer", limits.whole_answer, &time);
  table.read("upstream_idle", limits.upstream_idle, &time);
  table.read("accept_hold", limits.accept_hold, &time_or_zero);
  table.read("drain_delay", limits.drain_delay, &time_or_zero);
  table.read("drain", limits.drain, &time);
  table.read("retry_budget", limits.retry_budget, Number{0, 1});
  table.refuse_the_rest();
}

void read_measure(TableReader table, Measure& measure) {
  table.read("clock", measure.clock, OneOf<ReadClock, 2>{{{{"kernel", ReadClock::kernel}, {"read", ReadClock::read}}}});
  table.read("inject_usage", measure.inject_usage, &flag);
  const auto* continuous = table.read("inject_continuous_usage", measure.inject_continuous_usage, &flag);
  if (continuous && measure.inject_continuous_usage && !measure.inject_usage) {
    table.blame("inject_continuous_usage", *continuous,
                "asks for usage on every chunk, but inject_usage = false says not to ask for usage; set that to true, "
                "or leave this out");
  }
  table.refuse_the_rest();
}

void read_discovery(TableReader table, Discovery& discovery) {
  table.read("interval", discovery.interval, &time);
  const auto* node = table.read("nameserver", discovery.nameserver, &address);
  if (node && (discovery.nameserver->host.empty() || discovery.nameserver->host.find(':') != std::string::npos))
    table.blame("nameserver", *node, "must be an IPv4 address and a port, such as \"127.0.0.1:8600\"");
  table.read("complete", discovery.complete, &flag);
  table.refuse_the_rest();
}

/// Refuses two listeners at one place. The error blames the one further down in the file, and never a default.
void refuse_overlaps(const std::vector<Listener>& listeners, Report& report) {
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!overlap(listeners[i].address, listeners[j].address)) continue;
      const auto line = [](const Listener& one) { return one.written ? one.written->source().begin.line : 0; };
      const bool later = line(listeners[i]) >= line(listeners[j]);
      const auto& blamed = later ? listeners[i] : listeners[j];
      const auto& other = later ? listeners[j] : listeners[i];
      const auto where = other.written ? "in line " + std::to_string(line(other)) : std::string("by default");
      report.add(blamed.written->source().begin,
                 blamed.table + " listen = \"" + to_text(blamed.address) +
                     "\": cannot be listened on together with \"" + to_text(other.address) + "\", which is " +
                     other.table + " listen " + where +
                     (blamed.address.unix_path.empty() ? "; give one of them another port"
                                                       : "; give one of them another path"));
    }
  }
}

}  // namespace

std::vector<Listener> read_sections(TableReader& file, Settings& settings, Report& report) {
  std::vector<Listener> listeners;
  const auto section = [&](const char* key) {
    return TableReader("[" + std::string(key) + "]", file.table(key), report);
  };
  read_server(section("server"), settings.server, listeners, report);
  read_metrics(section("metrics"), settings.metrics, listeners);
  read_admin(section("admin"), settings.admin, listeners);
  read_log(section("log"), settings.log);
  read_limits(section("limits"), settings.limits);
  read_measure(section("measure"), settings.measure);
  read_discovery(section("discovery"), settings.discovery);
  refuse_overlaps(listeners, report);
  return listeners;
}

}  // namespace weir::config
