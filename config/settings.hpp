// What a user can set, as plain values with their defaults. docs/settings.md is the reference for users.
//
// These structs are filled by config/load.hpp and only read afterwards; every thread may read them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::config {

using Seconds = std::chrono::duration<double>;

/// An address weir listens on: a numeric IPv4 or IPv6 address and a port (0 lets the system choose).
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(const ListenAddress&) const = default;
};

/// The place of a replica: `http://host[:port][/prefix]`. The prefix is put before the path of every request.
struct ReplicaUrl {
  std::string host;  ///< Name or address, without brackets.
  std::uint16_t port = 80;
  std::string prefix;     ///< "" or "/something", never with a trailing slash.
  std::string authority;  ///< What goes into the Host field: host[:port] as written in the settings.
  bool operator==(const ReplicaUrl&) const = default;
};

struct Server {
  std::vector<ListenAddress> listen{{"127.0.0.1", 8080}};
  unsigned threads = 0;  ///< Stream loops; 0 = the CPUs allowed by affinity and cgroup quota.
  /// Empty: the inference routes weir knows, for which "default" stands too. {"*"}: everything. Else exactly these.
  std::vector<std::string> paths;
  bool replica_header = true;  ///< Name the replica in `x-weir-replica` on answers.
  bool open = false;           ///< Everyone who reaches `listen` may use replicas with weir's keys for them.
  bool operator==(const Server&) const = default;
};

struct MetricsListener {
  std::optional<ListenAddress> listen = ListenAddress{"127.0.0.1", 9090};  ///< Absent: off (`listen = ""`).
  bool operator==(const MetricsListener&) const = default;
};

struct AdminListener {
  std::optional<ListenAddress> listen = ListenAddress{"127.0.0.1", 9091};  ///< Loopback only; absent: off.
  bool operator==(const AdminListener&) const = default;
};

enum class LogLevel { trace, debug, info, warning, error };
enum class LogFormat { text, json };

struct Log {
  std::string requests = "requests.jsonl";  ///< File of the request log; "-" = standard output, "" = off.
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;  ///< The form of weir's own messages on standard error.
  std::string instance;                ///< Name of this weir in the request log; empty: the host's name.
  bool operator==(const Log&) const = default;
};

/// Sizes in bytes, times in seconds. What each one guards against is in docs/settings.md.
struct Limits {
  std::size_t request_head = 64 * 1024;
  std::size_t request_body = 16 * 1024 * 1024;
  std::size_t read_ahead = 1024 * 1024;        ///< Reading stops when so many bytes are held for a slow client.
  std::size_t connections = 10'000;            ///< All listeners together have so many client connections.
  std::size_t idle_upstream_connections = 32;  ///< Each loop keeps so many open for each replica.
  Seconds head_time{10};                       ///< A request head may take so long, once begun.
  Seconds body_time{60};                       ///< A request body may make no progress for so long.
  Seconds client_idle{75};                     ///< A kept-alive client connection may have no request for so long.
  Seconds client_stall{120};                   ///< A client may take nothing of an answer for so long.
  Seconds connect{2};
  Seconds first_token{300};  ///< This runs from the send to the first token of a streamed answer.
  Seconds between_tokens{120};
  Seconds whole_answer{1800};  ///< A request that is not streamed may take so long.
  Seconds upstream_idle{4};    ///< This stays below the engines' own keep-alive (uvicorn closes after 5 s).
  Seconds accept_hold{10};     ///< A streamed answer's head waits this long for its first event; 0 = sent at once.
  Seconds drain_delay{5};      ///< After TERM the listeners stay open this long.
  Seconds drain{300};          ///< After that, streams may finish this long.
  double retry_budget = 0.2;  ///< Retries under way, as a share of the requests in flight (at least 3). 0 = no retries.
  bool operator==(const Limits&) const = default;
};

enum class ReadClock { kernel, read };

struct Measure {
  ReadClock clock = ReadClock::kernel;  ///< The moment of a read: when the kernel received it, or when weir read it.
  bool inject_usage = true;             ///< weir asks for usage on OpenAI streams whose client did not, and removes it.
  /// With inject_usage, weir asks for usage on every chunk as well (vLLM's continuous_usage_stats) and removes it
  /// again. It tells the tokens of each event.
  bool inject_continuous_usage = false;
  bool operator==(const Measure&) const = default;
};

enum class Policy { least_queued_tokens, round_robin, random, least_requests, power_of_two };

struct Replica {
  std::string name;  ///< Unique in the file.
  ReplicaUrl url;
  std::string config;  ///< What is compared, in free text of few values. The default is the replica's name.
  std::string gpu;
  double weight = 1.0;  ///< > 0
  std::optional<double> cost_per_hour;
  std::optional<std::uint64_t> kv_tokens;       ///< Tokens its KV cache holds.
  std::optional<std::uint64_t> max_context;     ///< Tokens one request may have, prompt and output.
  std::optional<std::uint32_t> max_in_flight;   ///< Requests at a time.
  std::optional<bool> inject_usage;             ///< Overrides measure.inject_usage.
  std::optional<bool> inject_continuous_usage;  ///< Overrides measure.inject_continuous_usage.
  /// It is sent in place of a client's credential; "" = none. Only this replica sees it: no log, no error, no page.
  std::string api_key;
  bool operator==(const Replica&) const = default;
};

/// How weir finds out whether a replica is fit to take requests.
struct Health {
  std::string path = "/health";  ///< What the probe asks for; "" = it only connects.
  Seconds interval{5};           ///< Between two probes, a fifth more or less.
  Seconds timeout{5};            ///< A probe may take so long.
  unsigned down_after = 3;       ///< Failed probes in a row. A refused connection counts at once.
  unsigned up_after = 1;         ///< Passed probes in a row.
  bool eject = true;             ///< Requests that fail take a replica out for a time.
  bool operator==(const Health&) const = default;
};

struct Pool {
  std::string name;                 ///< Unique in the file.
  std::vector<std::string> models;  ///< Empty: any model.
  Policy policy = Policy::least_queued_tokens;
  double decode_weight = 0.05;  ///< Cost of an output token still to come, in prompt tokens.
  std::vector<Replica> replicas;
  Health health{};
  bool operator==(const Pool&) const = default;
};

/// A service level objective of a pool: a request is good if it met every threshold that is set (at least one is).
struct Slo {
  std::string name;  ///< Unique in the file; the label `slo`.
  std::string pool;  ///< The name of a [[pool]].
  std::optional<Seconds> ttft_client, ttft, tpot, e2e;
  bool operator==(const Slo&) const = default;
};

struct Settings {
  Server server;
  MetricsListener metrics;
  AdminListener admin;
  Log log;
  Limits limits;
  Measure measure;
  std::vector<Pool> pools;
  std::vector<Slo> slos;
  bool operator==(const Settings&) const = default;
};

}  // namespace weir::config
