// All settings as plain values with their defaults, and the names of engines' figures.
// docs/reference/settings.md is the reference for users.
//
// config/load.hpp fills these structs. Afterwards they are only read, by any thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::config {

template <class T>
class SharedList {
 public:
  SharedList() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a list is given as a vector or in braces.
  SharedList(std::vector<T> all) : all_(std::make_shared<const std::vector<T>>(std::move(all))) {}
  SharedList(std::initializer_list<T> all) : SharedList(std::vector<T>(all)) {}

  const std::vector<T>& all() const {
    static const std::vector<T> none;
    return all_ ? *all_ : none;
  }
  auto begin() const { return all().begin(); }
  auto end() const { return all().end(); }
  std::size_t size() const { return all().size(); }
  bool empty() const { return all().empty(); }
  const T& operator[](std::size_t at) const { return all()[at]; }
  /// Tells when the last copy has gone.
  std::weak_ptr<const std::vector<T>> watch() const { return all_; }

  bool operator==(const SharedList& other) const { return all_ == other.all_ || all() == other.all(); }

 private:
  std::shared_ptr<const std::vector<T>> all_;
};

using Seconds = std::chrono::duration<double>;

/// An address on which weir listens: a numeric IPv4 or IPv6 address and a port (0 lets the system choose), or the path
/// of a Unix-domain socket.
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string unix_path{};  ///< If it is not empty, there are no host and port.
  bool operator==(const ListenAddress&) const = default;
};

/// A range of addresses: those whose first `bits` bits are those of `base`. IPv4 addresses are mapped into IPv6.
struct Network {
  std::array<std::uint8_t, 16> base{};
  unsigned bits = 128;
  bool operator==(const Network&) const = default;
};

/// The place of a replica: `http://host[:port][/prefix]`, the same with `https`, or `unix:/path`. The prefix is put
/// before the path of every request.
struct ReplicaUrl {
  std::string host;  ///< A name or an address, without brackets.
  std::uint16_t port = 80;
  std::string prefix;     ///< "" or "/something", never with a trailing slash.
  std::string authority;  ///< Goes into the Host field: host[:port] as written in the settings.
  bool tls = false;
  std::string unix_path{};  ///< If it is not empty, there are no host and port.
  bool operator==(const ReplicaUrl&) const = default;
};

/// The files of a certificate chain and of its private key, in PEM.
struct Certificate {
  std::string cert, key;
  bool operator==(const Certificate&) const = default;
};

/// With it, weir speaks TLS on `server.listen`.
struct ServerTls {
  std::vector<Certificate> certificates;  ///< The client's server name chooses; the first is for all other names.
  std::string groups{};                   ///< Of the key exchange, as OpenSSL lists them; "" means weir's own list.
  bool operator==(const ServerTls&) const = default;
};

/// How weir speaks TLS to a replica whose url says https.
struct ReplicaTls {
  std::string ca;           ///< A file of certificates in PEM that are trusted; "" means the system's.
  std::string server_name;  ///< The replica's certificate has this name; "" means the host of its url.
  bool verify = true;
  std::optional<Certificate> own;  ///< weir shows it to the replica.
  std::string groups{};            ///< As in ServerTls.
  bool operator==(const ReplicaTls&) const = default;
};

/// A client's key. Only its hash is known.
struct ClientKey {
  std::string name;                            ///< Unique in the file.
  std::array<std::uint8_t, 32> sha256{};       ///< The hash of the key's bytes.
  std::vector<std::string> models;             ///< An empty list means any.
  std::optional<std::uint32_t> max_in_flight;  ///< The most requests of this key under way or waiting.
  double share = 1.0;                          ///< Its share in the queues, relative to other keys'. It is > 0.
  bool operator==(const ClientKey&) const = default;
};

/// The meaning of a client's FIN while its answer is under way.
enum class HalfClose { abort, allow };

struct Server {
  std::vector<ListenAddress> listen{{"127.0.0.1", 8080}};
  unsigned threads = 0;  ///< The number of stream loops; 0 means the CPUs allowed by affinity and cgroup quota.
  /// An empty list means the inference routes that weir knows, for which "default" stands too. {"*"} means everything.
  /// Any other list means exactly these.
  std::vector<std::string> paths;
  bool open = false;  ///< Everyone who reaches `listen` may use replicas with weir's keys for them.
  std::optional<ServerTls> tls{};
  std::string api_keys{};  ///< The path of the file of `keys`; "" means that clients need no key.
  SharedList<ClientKey> keys{};
  std::vector<Network> trusted_proxies{};   ///< Their X-Forwarded-For is believed.
  std::vector<std::string> cors_origins{};  ///< Pages of these origins may ask; "*" means all.
  HalfClose half_close = HalfClose::abort;
  bool operator==(const Server&) const = default;
};

struct MetricsListener {
  std::optional<ListenAddress> listen = ListenAddress{"127.0.0.1", 9090};  ///< If it is absent, the page is off
                                                                           ///< (`listen = ""`).
  bool operator==(const MetricsListener&) const = default;
};

struct AdminListener {
  std::optional<ListenAddress> listen = ListenAddress{"127.0.0.1", 9091};  ///< Off loopback it needs a token. If it is
                                                                           ///< absent, the listener is off.
  std::string token{};    ///< Requests must carry it; "" means that none is needed. No log, error or page shows it.
  std::string state{};    ///< The directory in which rollouts keep their state; "" means none.
  std::string reports{};  ///< weir writes a report into this directory when it stops being ready; "" means none.
  bool operator==(const AdminListener&) const = default;
};

enum class LogLevel { trace, debug, info, warning, error };
enum class LogFormat { text, json };

struct Log {
  std::string requests = "requests.jsonl";  ///< The request log goes into this file; "-" means standard output, ""
                                            ///< means off.
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;  ///< weir's own messages on standard error have this form.
  std::string instance;                ///< The request log names this weir so; empty means the host's name.
  bool prefixes = false;               ///< The request log has keys of the beginnings of prompts.
  bool operator==(const Log&) const = default;
};

/// Limits that no key of the file changes. Code such as tests may.
struct FixedLimits {
  std::size_t request_head = 64 * 1024;
  std::size_t read_ahead = 1024 * 1024;        ///< Reading stops when so many bytes are held for a slow client.
  double buffer_share = 0.25;                  ///< The share of buffer_memory for one address, and for one key.
  std::size_t idle_upstream_connections = 32;  ///< Each loop keeps so many open for each replica.
  Seconds head_time{10};                       ///< A request head may take so long, once begun.
  Seconds body_time{60};                       ///< A body may make no progress for so long: half of client_stall.
  std::size_t body_rate = 1024;                ///< Bytes per second that a request body must keep up; 0 means any.
  std::size_t answer_rate = 256;               ///< Bytes per second that a client must take of an answer; 0: any.
  Seconds handshake_time{10};                  ///< A TLS handshake may take so long.
  std::size_t handshakes = 1024;               ///< Each loop has so many TLS handshakes under way at a time.
  Seconds client_idle{75};                     ///< A kept-alive client connection may have no request for so long.
  Seconds accept_hold{10};                     ///< A stream's head waits this long for its first event; 0: not at all.
  bool operator==(const FixedLimits&) const = default;
};

/// Sizes are in bytes, times in seconds. docs/reference/settings.md says what each limit guards against.
struct Limits : FixedLimits {
  std::size_t request_body = 16 * 1024 * 1024;
  std::size_t connections = 10'000;               ///< The most client connections of all listeners together.
  std::size_t connections_per_address = 0;        ///< The most connections of one client address; 0 means any number.
  std::size_t buffer_memory = 512 * 1024 * 1024;  ///< The most memory for everything that grows with peers.
  double handshake_cpu = 0.25;                    ///< The handshakes of one address may take so many CPUs; 0: any.
  Seconds client_stall{120};                      ///< A client may take nothing of an answer for so long.
  Seconds connect{2};
  Seconds first_token{300};  ///< From the send to the first token of a streamed answer.
  Seconds between_tokens{120};
  Seconds whole_answer{1800};  ///< A request that is not streamed may take so long.
  Seconds upstream_idle{4};    ///< Below the engines' own keep-alive (uvicorn closes after 5 s).
  Seconds drain_delay{5};      ///< After TERM the listeners stay open this long.
  Seconds drain{300};          ///< After that, streams may finish this long.
  double retry_budget = 0.2;  ///< At most this share of the requests in flight may be retries under way (at least 3). 0
                              ///< means no retries.
  bool operator==(const Limits&) const = default;
};

enum class ReadClock { kernel, read };

struct Measure {
  ReadClock clock = ReadClock::kernel;  ///< A read's moment is when the kernel received it, or when weir read it.
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
  std::string config;  ///< Names what is compared, in free text of few values. The default is the replica's name.
  std::string gpu;
  /// Each address of the url's host is a replica: NAME-1, NAME-2 and so on.
  bool expand = false;
  double weight = 1.0;  ///< > 0.
  std::optional<double> cost_per_hour;
  std::optional<std::uint64_t> kv_tokens;      ///< The replica's KV cache holds so many tokens.
  std::optional<std::uint64_t> max_context;    ///< The most tokens of a request, prompt and output together.
  std::optional<std::uint32_t> max_in_flight;  ///< The replica takes so many requests at a time.
  /// The key that is sent in place of a client's credential; "" means none. No log, error or page shows the key.
  std::string api_key;
  std::optional<std::uint64_t> max_queued_tokens{};  ///< The most prompt tokens that wait in the replica.
  bool max_context_refuses = false;  ///< No prompt that is surely longer than max_context goes to the replica.
  ReplicaTls tls{};
  bool operator==(const Replica&) const = default;
};

/// How weir finds out whether a replica is fit to take requests.
struct Health {
  std::string path = "/health";  ///< The path that the probe asks for; "" = the probe only connects.
  Seconds interval{5};           ///< Between two probes, a fifth more or less.
  Seconds timeout{5};            ///< A probe may take so long.
  unsigned down_after = 3;       ///< Failed probes in a row. A refused connection counts at once. No key sets it.
  unsigned up_after = 1;         ///< Passed probes in a row. No key sets it.
  bool eject = true;             ///< Requests that fail take a replica out for a time.
  bool operator==(const Health&) const = default;
};

/// Whose request it is. Each of them gets an equal share of a pool that has more to do than it can.
struct FairBy {
  enum class What { key, address, header };
  What what = What::key;
  std::string header;  ///< With `header` it is the name.
  bool operator==(const FairBy&) const = default;
};

/// The part of a request that tells its session.
struct SessionBy {
  enum class What { key, header, body };
  What what = What::key;
  std::string name;  ///< Of the header, or of the member of the body's JSON.
  bool operator==(const SessionBy&) const = default;
};

/// The members of a request's JSON that may tell a session.
inline constexpr std::array<std::string_view, 4> session_members{"user", "session_id", "safety_identifier",
                                                                 "prompt_cache_key"};

/// The requests that wait for a replica.
struct Queue {
  std::size_t requests = 256;             ///< The most that wait; 0 means none.
  std::size_t bytes = 256 * 1024 * 1024;  ///< The most bytes of their bodies together. No key sets it.
  Seconds time{30};                       ///< The longest wait,
  Seconds time_down{60};                  ///< and the longest while no replica is up.
  FairBy fair_by{};
  bool operator==(const Queue&) const = default;
};

/// How weir reads the engines' own pages.
struct EngineReading {
  std::string metrics_path = "/metrics";  ///< "" = weir asks an engine for nothing about itself.
  Seconds interval{5};                    ///< Between two readings, a fifth more or less: as for probes.
  Seconds timeout{5};                     ///< A page may take so long: as a probe.
  bool operator==(const EngineReading&) const = default;
};

/// Whose requests are steered to a replica by what it has computed for others.
enum class PrefixIsolation {
  none,  ///< Everybody's, by each other's prompts.
  key    ///< A client's, by the prompts of its own key alone.
};

struct Pool {
  std::string name;                 ///< Unique in the file.
  std::vector<std::string> models;  ///< An empty list means any model.
  Policy policy = Policy::least_queued_tokens;
  bool prefix_aware = true;  ///< With least_queued_tokens, what a replica has computed before costs nothing.
  PrefixIsolation prefix_isolation = PrefixIsolation::none;  ///< `key` where clients have keys.
  std::vector<Replica> replicas;
  Health health{};
  std::optional<std::uint32_t> max_in_flight{};      ///< The replicas together have so many requests at a time.
  std::optional<std::uint64_t> max_queued_tokens{};  ///< The most prompt tokens that wait in them.
  Queue queue{};
  EngineReading engine{};
  /// A stream's client sees life after so much silence, before its answer begins, too. Absent: only once it has begun.
  std::optional<Seconds> keep_alive{};
  std::vector<SessionBy> session{};  ///< Requests of a session go to one replica; the first that is there counts.
  /// The other policies do not look at prefixes.
  bool is_prefix_aware() const { return prefix_aware && policy == Policy::least_queued_tokens; }
  bool operator==(const Pool&) const = default;
};

/// How weir finds the addresses of replicas whose url has a host's name.
struct Discovery {
  Seconds interval{30};                     ///< Names are looked up so often, and when a connection fails.
  std::optional<ListenAddress> nameserver;  ///< Asked in place of the system's. It is an IPv4 address.
  bool complete = false;                    ///< An answer has all addresses of its name: others are out of use.
  bool operator==(const Discovery&) const = default;
};

/// A service level objective of a pool: a request is good if it met every threshold that is set (at least one is).
struct Slo {
  std::string name;  ///< Unique in the file, and becomes the label `slo`.
  std::string pool;  ///< The name of a [[pool]].
  std::optional<Seconds> ttft_client, ttft, tpot, e2e;
  bool operator==(const Slo&) const = default;
};

/// Copies of a pool's requests go to replicas whose answers are measured and thrown away.
struct Shadow {
  /// A top-level member of the request's JSON that gets this value.
  struct Member {
    std::string key, json;
    bool operator==(const Member&) const = default;
  };

  std::string name;              ///< Unique in the file.
  std::string of;                ///< The name of a [[pool]].
  std::string twin;              ///< Each request that this replica of the pool gets is mirrored; "" means a sample.
  bool control = false;          ///< A twin's replica runs the primary's own configuration.
  std::optional<double> sample;  ///< The share of the pool's requests that is mirrored; else `twin` is set.
  std::uint32_t max_in_flight = 64;           ///< No key sets it,
  std::uint64_t max_queued_tokens = 200'000;  ///< nor this.
  std::optional<Seconds> stop_after;          ///< Off so long after its first request.
  std::vector<std::string> exclude_keys;      ///< SHA-256 in hex of clients' keys whose requests are not mirrored.
  std::vector<Member> set;
  bool forward_auth = false;  ///< The client's credential is sent to the shadow's replicas.
  std::vector<Replica> replicas;
  Health health{};         ///< [health] of the file.
  EngineReading engine{};  ///< [engine] of the file.
  bool operator==(const Shadow&) const = default;
};

/// A rollout does this where the candidate is known to answer otherwise than the version in use.
enum class OtherAnswers {
  look,  ///< It pauses, and an operator looks at the answers.
  same,  ///< The candidate has to answer the same: it is rolled back.
  any,   ///< Answers do not count.
};

/// A candidate gets a growing share of a pool's requests, as long as its gate passes.
struct Rollout {
  struct Step {
    bool shadow = false;  ///< Requests are mirrored to the candidate, and `share` is 0.
    double share = 0;     ///< Of the pool's requests; 1 in the last step.
    Seconds least{0};     ///< The step lasts so long at least; 0 in the last step.
    bool operator==(const Step&) const = default;
  };

  std::string name;       ///< Unique in the file.
  std::string pool;       ///< The name of a [[pool]], which no other rollout has.
  std::string candidate;  ///< The `config` of the candidate's replicas; all others of the pool are the stable side.
  std::string shadow;     ///< The [[shadow]] that mirrors to the candidate in the shadow step; "" means none.
  std::string slo;        ///< The [[slo]] whose misses count; "" means that the pool has none.
  std::vector<Step> steps;
  Seconds unknown_limit{10'800};  ///< A step whose gate stays unknown for so long pauses. No key sets it.
  OtherAnswers answers = OtherAnswers::look;
  bool operator==(const Rollout&) const = default;
};

struct Settings {
  Server server;
  MetricsListener metrics;
  AdminListener admin;
  Log log;
  Limits limits;
  Measure measure;
  Discovery discovery;
  std::vector<Pool> pools;
  std::vector<Slo> slos;
  std::vector<Shadow> shadows;
  std::vector<Rollout> rollouts;
  /// The command line set these keys, whatever the file says: metrics.listen, admin.listen.
  std::vector<std::string> overridden;
  /// The paths of the files that hold secrets: those that the settings name, and the settings' own if one stands there.
  std::vector<std::string> secret_files{};
  bool operator==(const Settings&) const = default;
};

// The names under which engines show their figures on their metrics pages.

/// Of each list, the first name that is on the page counts, and its lines are added up. The names are those of vLLM,
/// Aphrodite, SGLang, TGI and llama.cpp.
struct EngineNames {
  std::vector<std::string> running{"vllm:num_requests_running", "aphrodite:num_requests_running",
                                   "sglang:num_running_reqs", "tgi_batch_current_size", "llamacpp:requests_processing"};
  std::vector<std::string> waiting{"vllm:num_requests_waiting", "aphrodite:num_requests_waiting",
                                   "sglang:num_queue_reqs", "tgi_queue_size", "llamacpp:requests_deferred"};
  std::vector<std::string> kv_usage{
      "vllm:kv_cache_usage_perc",       "vllm:gpu_cache_usage_perc", "aphrodite:kv_cache_usage_perc",
      "aphrodite:gpu_cache_usage_perc", "sglang:token_usage",        "llamacpp:kv_cache_usage_ratio"};
  std::vector<std::string> kv_used_tokens{"tgi_batch_current_max_tokens"};
  std::vector<std::string> kv_tokens{"sglang:max_total_num_tokens", "tgi_batch_max_total_tokens"};
  std::vector<std::string> prefix_queries{"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries",
                                          "vllm:gpu_prefix_cache_queries_total", "aphrodite:prefix_cache_queries_total",
                                          "sglang:prompt_tokens_total"};
  std::vector<std::string> prefix_hits{"vllm:prefix_cache_hits_total",     "vllm:prefix_cache_hits",
                                       "vllm:gpu_prefix_cache_hits_total", "aphrodite:prefix_cache_hits_total",
                                       "sglang:cached_tokens_total",       "llamacpp:prompt_tokens_cached_total"};
  /// With the hits they are the queries, where the engine counts no queries.
  std::vector<std::string> prefix_misses{"llamacpp:prompt_tokens_total"};
  /// Counters that move while the engine works. Those on the page are added up.
  std::vector<std::string> counters{"vllm:prompt_tokens_total",      "vllm:generation_tokens_total",
                                    "aphrodite:prompt_tokens_total", "aphrodite:generation_tokens_total",
                                    "sglang:prompt_tokens_total",    "sglang:generation_tokens_total",
                                    "tgi_batch_inference_success",   "llamacpp:n_decode_total"};
};

inline const EngineNames engine_names;

}  // namespace weir::config
