#include "config/sections.hpp"

#include <algorithm>
#include <cstdint>

#include "config/address.hpp"
#include "config/keys.hpp"
#include "config/tls.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
constexpr std::int64_t gib = 1024 * mib;

/// Reads the file of clients' keys. Its errors name that file and stand behind those of the settings.
void read_client_keys(TableReader& table, Server& server, Report& report) {
  const auto* const written = table.read(
      "api_keys", server.api_keys, Text{4096},
      "File of [clients' keys](#key). With it every client needs a key. Read at the start and at each reload. Not "
      "together with `open = true`.");
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
  const auto* list = table.read_list(
      "listen", server.listen, address,
      [&](const toml::node& node, ListenAddress one) { found.push_back({"[server]", std::move(one), &node}); },
      "Addresses at which clients connect. No two listeners of the file may share an "
      "address.");
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

  table.read("threads", server.threads, Whole<unsigned>{0, 1024},
             "Threads that relay streams. `0`: as many as CPU affinity and cgroup quota allow. Only a restart "
             "changes it.");
  const auto* paths = table.read_list(
      "paths", server.paths, request_path,
      [&](const toml::node&, std::string path) { server.paths.push_back(std::move(path)); },
      "Paths that weir lets through; all others get 404, since engines serve weight "
      "updates and cache flushes on the same port. Empty: the [inference "
      "routes](#paths) that weir knows. `\"default\"` in a list stands for them; "
      "`[\"*\"]` is every path, for trusted clients only.");
  if (server.paths.size() > 1 && std::find(server.paths.begin(), server.paths.end(), "*") != server.paths.end()) {
    table.blame("paths", *paths, "\"*\" means every path and stands alone; write [\"*\"], or leave it out");
  }
  const auto* const open = table.read("open", server.open, flag,
                                      "Says that everyone who reaches `listen` may use replicas that have an "
                                      "`api_key`. weir asks for it where it listens beyond loopback and clients need "
                                      "no keys.");
  read_client_keys(table, server, report);
  if (open != nullptr && server.open && table.has("api_keys"))
    table.blame("open", *open,
                "says that everyone may use the replicas, and api_keys that a client needs a key; remove one of them");
  read_server_tls(table, server, report);
  table.read("half_close", server.half_close,
             OneOf<HalfClose, 2>{{{{"abort", HalfClose::abort}, {"allow", HalfClose::allow}}}},
             "What a client's FIN means while its answer is under way. `\"abort\"`: the client has left, and the GPU "
             "is freed. `\"allow\"`: it may still read; only a reset or a failed write ends its request.");
  table.read_list(
      "trusted_proxies", server.trusted_proxies, network,
      [&](const toml::node&, Network one) { server.trusted_proxies.push_back(one); },
      "Proxies in front of weir whose `X-Forwarded-For` is believed: the client is its last address that "
      "is none of these. Limits by address and `fair_by = \"address\"` then mean that client. Other "
      "clients' `Forwarded`, `X-Real-IP` and `X-Forwarded-` fields are dropped.");
  const auto* origins = table.read_list(
      "cors_origins", server.cors_origins, origin,
      [&](const toml::node&, std::string one) { server.cors_origins.push_back(std::move(one)); },
      "Pages of these origins may ask weir from a browser; `[\"*\"]`: all pages. weir answers their preflights itself "
      "and never allows cookies. Empty: replicas answer preflights, and pages cannot read weir's own errors.");
  if (server.cors_origins.size() > 1 && std::ranges::find(server.cors_origins, "*") != server.cors_origins.end())
    table.blame("cors_origins", *origins, "\"*\" means every origin and stands alone; write [\"*\"], or name origins");
  table.refuse_the_rest();
}

/// Reads [metrics] or [admin], each of which is one listener that can be off.
const toml::node* read_listener(TableReader& table, const char* title, std::optional<ListenAddress>& listen,
                                std::vector<Listener>& listeners, const About& about) {
  const auto* written = table.read("listen", listen, address_or_off, about);
  const bool right = written || !table.has("listen");
  if (right && listen) listeners.push_back({title, *listen, written});
  return written;
}

void read_metrics(TableReader table, MetricsListener& metrics, std::vector<Listener>& listeners) {
  read_listener(table, "[metrics]", metrics.listen, listeners,
                "Serves `/metrics`, `/-/healthy`, `/-/ready` and `/api/gate`. `\"\"`: off. There is no token: choose "
                "an address that strangers do not reach. 64 connections at a time; a request has to come within 5 s.");
  table.refuse_the_rest();
}

void read_admin(TableReader table, AdminListener& admin, std::vector<Listener>& listeners) {
  const auto* written = read_listener(
      table, "[admin]", admin.listen, listeners,
      "Serves a [page](../guides/monitoring.md) at `/`, the [API](api.md), all that `[metrics]` serves, and the "
      "commands of operators. Beyond loopback it needs a `token`; a Unix-domain socket needs none, its permissions "
      "guard it. `\"\"`: off.");
  read_secret_or_file(table, "token", "token_file", admin.token, "the token of the admin listener",
                      "the secret is set beside it as well; remove one of them",
                      "Requests have to carry `Authorization: Bearer TOKEN`: 1 to 4096 printable characters "
                      "without blanks. Commands take it by `--token-file` or from `WEIR_ADMIN_TOKEN`. It travels "
                      "in the clear: beyond loopback use a network that you trust.",
                      "File that holds the token and nothing else. Read at the start and at each reload. Not "
                      "together with `token`.");
  table.read("state", admin.state, Text{4096, true},
             "Directory in which [rollouts](#rollout) keep their state (`rollouts.json`). A `[[rollout]]` needs it. "
             "weir's user has to be able to write there; each weir needs one of its own.");
  table.read("reports", admin.reports, Text{4096, true},
             "Directory for [reports](../guides/monitoring.md#look-at-it-live) that weir writes when it stops being "
             "ready or a pool has no replica up: one an hour at most, the latest 20 stay.");
  const bool has_token = table.has("token") || table.has("token_file");  // A wrong one has its own error.
  if (written && admin.listen && !is_local(*admin.listen) && !has_token) {
    std::string why(admin_needs_a_token);
    why.append("; or write \"\" to switch the listener off");
    table.blame("listen", *written, why);
  }
  table.refuse_the_rest();
}

void read_log(TableReader table, Log& log) {
  table.read("requests", log.requests, Text{4096, true},
             "File of the [request log](request-log.md). `\"-\"`: standard output, `\"\"`: off. weir opens it anew "
             "on USR1 and at a reload.");
  table.read("level", log.level,
             OneOf<LogLevel, 5>{{{{"trace", LogLevel::trace},
                                  {"debug", LogLevel::debug},
                                  {"info", LogLevel::info},
                                  {"warning", LogLevel::warning},
                                  {"error", LogLevel::error}}}},
             "The least important messages of weir's own log that are still written.");
  table.read("format", log.format, OneOf<LogFormat, 2>{{{{"text", LogFormat::text}, {"json", LogFormat::json}}}},
             "Form of weir's own messages on standard error. `\"json\"`: one object a line with `time`, `level`, "
             "`message`.");
  table.read("instance", log.instance, Text{128, true},
             "Name of this weir in the request log, at most 128 bytes. Empty: the host's name. Give each weir of a "
             "machine its own.");
  table.read("prefixes", log.prefixes, flag,
             "The request log tells, by hashes, which prompts begin alike, for `weir-lab plan`, `load` and `export`: "
             "up to 0.6 KB a line. Whoever reads the log and can send prompts can test a guessed beginning.");
  table.refuse_the_rest();
}

void read_limits(TableReader table, Limits& limits) {
  const auto* body = table.read("request_body", limits.request_body, Size{kib, gib},
                                "The most bytes of a request's body. weir holds the body in memory until a replica "
                                "has it.");
  const auto* memory = table.read("buffer_memory", limits.buffer_memory, Size{mib, 1024 * gib},
                                  "The most memory for all that grows with clients and replicas, such as bodies and "
                                  "what slow clients have not taken. When it is spent, the slowest body under way "
                                  "gets 503 with `Retry-After`. At least `request_body`. One client address (of IPv6 "
                                  "its /64) and one key may have a quarter of it, but always one `request_body`; "
                                  "beyond it: 503.");
  if (limits.buffer_memory < limits.request_body && memory)
    table.blame("buffer_memory", *memory,
                "is less than request_body, so that the largest body could not be read; raise this, or lower that");
  else if (limits.buffer_memory < limits.request_body && body)
    table.blame("request_body", *body,
                "is more than buffer_memory (512MiB by default), so that such a body could not be read; lower this, or "
                "raise that");
  table.read("connections", limits.connections, Whole<std::size_t>{1, 1'000'000},
             "The most client connections. Each needs a file descriptor, and a second one while its request is with "
             "a replica.");
  table.read("connections_per_address", limits.connections_per_address, Whole<std::size_t>{0, 1'000'000},
             "The most client connections of one address (of IPv6 its /64). Beyond it: 503. `0`: any number. Behind "
             "`trusted_proxies` it limits each client's requests under way.");
  table.read("handshake_cpu", limits.handshake_cpu, Number{0, 1024},
             "CPUs that the TLS handshakes of one client address may take: `0.25` is some 700 a second. `0`: any. "
             "Raise it behind a TCP load balancer that hides its clients' addresses.");
  table.read("client_stall", limits.client_stall, time,
             "The longest time that a client takes nothing of its answer. Such a client holds memory and a place on "
             "the GPU. A request's body may make no progress for half as long.");
  limits.body_time = limits.client_stall / 2;
  table.read("connect", limits.connect, time,
             "The longest time until a replica accepts a connection, its TLS handshake included.");
  table.read("first_token", limits.first_token, time,
             "The longest time from sending a request to the first token of a stream. Long prompts in a long queue "
             "take minutes.");
  table.read("between_tokens", limits.between_tokens, time,
             "The longest time between two tokens of a stream. Guards against replicas that hang in the middle.");
  table.read("whole_answer", limits.whole_answer, time,
             "The longest time from sending a request that is not streamed to the end of its answer; then 504. Set "
             "it to what your longest answer takes. A request whose replica gives no sign of life is retried sooner.");
  table.read("upstream_idle", limits.upstream_idle, time,
             "How long an unused connection to a replica is kept. Keep it below the engine's own limit (5 s for the "
             "uvicorn of vLLM and SGLang), or requests meet connections that the replica is just closing.");
  table.read("drain_delay", limits.drain_delay, time_or_zero,
             "After TERM, how long weir still takes new connections, so that a load balancer in front sees it leave "
             "first.");
  table.read(
      "drain", limits.drain, time,
      "How long answers under way and waiting requests may take after `drain_delay` before they are cut. A replica "
      "that is drained or removed has as long.");
  table.read("retry_budget", limits.retry_budget, Number{0, 1},
             "The most retries at a time, as a share of the requests in flight; three are always allowed. Keeps "
             "retries from finishing off replicas that fail under load. `0`: only retries that are free, such as "
             "after a refused connection.");
  table.refuse_the_rest();
}

void read_measure(TableReader table, Measure& measure) {
  table.read("clock", measure.clock, OneOf<ReadClock, 2>{{{{"kernel", ReadClock::kernel}, {"read", ReadClock::read}}}},
             "The moment of an arrival: when the kernel received the bytes, or when weir read them, as most tools do.");
  table.read("inject_usage", measure.inject_usage, flag,
             "weir asks OpenAI streams for their token usage where the client did not, and removes it from the "
             "answer again. Without it such streams have no exact token counts. `false` for engines that send usage "
             "unasked (vLLM `--enable-force-include-usage`).");
  const auto* continuous = table.read("inject_continuous_usage", measure.inject_continuous_usage, flag,
                                      "weir asks for usage on every chunk as well (vLLM, llama.cpp) and removes it "
                                      "again. Makes ITL exact where engines put several tokens into an event "
                                      "(speculative decoding, parsers). Only for engines that know the option. Needs "
                                      "`inject_usage`.");
  if (continuous && measure.inject_continuous_usage && !measure.inject_usage) {
    table.blame("inject_continuous_usage", *continuous,
                "asks for usage on every chunk, but inject_usage = false says not to ask for usage; set that to true, "
                "or leave this out");
  }
  table.refuse_the_rest();
}

void read_discovery(TableReader table, Discovery& discovery) {
  table.read("interval", discovery.interval, time,
             "Time between two look-ups of a name. A failed connection to the replica causes a look-up, too. An error "
             "or an empty answer changes nothing.");
  const auto* node = table.read("nameserver", discovery.nameserver, address,
                                "IPv4 address and port of the nameserver to ask, such as `\"127.0.0.1:8600\"` "
                                "(Consul). Without it: those of `/etc/resolv.conf`. `/etc/hosts` counts first.");
  if (node && (discovery.nameserver->host.empty() || discovery.nameserver->host.find(':') != std::string::npos))
    table.blame("nameserver", *node, "must be an IPv4 address and a port, such as \"127.0.0.1:8600\"");
  table.read("complete", discovery.complete, flag,
             "Each answer has all addresses of its name, as for a headless service of Kubernetes: a member of a "
             "replica with `expand` that an answer lacks leaves at once. Not for nameservers that answer with a part "
             "(Consul).");
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
  const auto section = [&](const char* key, const About& about) {
    return TableReader("[" + std::string(key) + "]", file.table(key, about), report);
  };
  read_server(section("server", "Clients connect here."), settings.server, listeners, report);
  read_metrics(section("metrics",
                       "Metrics and health have a port apart from the clients', so that it can be reachable where "
                       "that port is not."),
               settings.metrics, listeners);
  read_admin(section("admin",
                     "Shows weir's state and changes it. A request that changes something needs `Content-Type: "
                     "application/json`, a `Host` that is loopback or this listener and, from a browser, the same "
                     "`Origin`. With a `token`, it needs the token alone."),
             settings.admin, listeners);
  read_log(section("log", "The request log, and weir's own log on standard error."), settings.log);
  read_limits(section("limits",
                      "What a client, a replica or the network may cost before weir cuts it off. The defaults suit a "
                      "small fleet; [the guide](../guides/limits.md) tells when to change them."),
              settings.limits);
  read_measure(section("measure", "How weir measures, and what it asks engines to report."), settings.measure);
  read_discovery(section("discovery",
                         "How weir finds the addresses of replicas whose `url` has a host's name: "
                         "[guide](../guides/kubernetes.md)."),
                 settings.discovery);
  if (report.reads_file()) refuse_overlaps(listeners, report);
  return listeners;
}

}  // namespace weir::config
