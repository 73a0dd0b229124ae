// Reads settings from TOML, and says what a reload changes.
//
// Every error names the file, line, key and value and says the way out; all errors come at once.
#pragma once

#include <toml++/toml.h>

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/settings.hpp"

namespace weir::config {

/// An error in a settings file.
struct SettingsError {
  std::string file;
  unsigned line = 0;    ///< Counts from 1; 0 if no line is to blame (the file cannot be read).
  unsigned column = 0;  ///< Counts from 1; 0 in the same case.
  std::string message;  ///< Names key and value and says what would be right.
  /// Returns "FILE:LINE:COLUMN: message", as compilers write it.
  std::string text() const;
};

using LoadResult = std::variant<Settings, std::vector<SettingsError>>;

/// Reads a settings file. A syntax error comes alone; other errors come together, in order of line.
LoadResult load_file(const std::string& path);

/// Reads text in memory in the same way; errors give `file` as the name.
LoadResult load_text(std::string_view toml, const std::string& file);

// Says what is wrong with TOML's syntax: toml++'s words, and the way out for the mistakes that people make most.

/// The message shows no value, because a half written one may be a secret, and no client's key or hash that stands in
/// place of a name.
SettingsError syntax_error(const std::string& file, const toml::parse_error& error);

// Keys that earlier versions had, and what holds now. A file that still has one is refused with that sentence.

struct GoneKey {
  std::string_view table;  ///< The last part of the table's name: "health" for [health] and [pool.health].
  std::string_view key, now;
};

inline constexpr GoneKey gone_keys[] = {
    {"server", "replica_header", "answers always name their replica in x-weir-replica"},
    {"metrics", "ready_needs_replica", "/-/ready is about weir alone, and weir_replica_state tells of replicas"},
    {"limits", "request_head", "request line and headers have 64 KiB together"},
    {"limits", "read_ahead", "weir holds 1 MiB for a slow client, and buffer_memory bounds all of them together"},
    {"limits", "buffer_share", "an address or a key may have a quarter of buffer_memory"},
    {"limits", "idle_upstream_connections", "32 are kept for each replica and thread, and upstream_idle says how long"},
    {"limits", "head_time", "a request's head has 10 s to come"},
    {"limits", "body_time", "a body may make no progress for half of client_stall"},
    {"limits", "body_rate", "a body has to keep up 1 KiB a second"},
    {"limits", "answer_rate", "a client has to take 256 bytes a second of its answer"},
    {"limits", "handshake_time", "a TLS handshake has 10 s"},
    {"limits", "handshakes", "each thread has 1024 at a time, and closes the oldest that waits for its client"},
    {"limits", "client_idle", "a connection stays open for 75 s without a request"},
    {"limits", "accept_hold", "a stream's head waits up to 10 s for the first event"},
    {"health", "down_after", "three failed probes in a row take a replica out; interval says how soon that is"},
    {"health", "up_after", "one passed probe brings a replica back, and it starts slowly"},
    {"engine", "interval", "an engine's page is read as often as it is probed: interval in [health]"},
    {"engine", "timeout", "a page may take as long as a probe: timeout in [health]"},
    {"engine", "names", "weir knows the names of the figures of all engines"},
    {"pool", "decode_weight", "least_queued_tokens weighs seconds, which it learns from the replicas' answers"},
    {"pool", "prefix_isolation", "with server.api_keys the prompts of a client's own key count for it, else all"},
    {"pool", "queue_bytes", "waiting bodies may have 256 MiB together"},
    {"replica", "inject_usage", "weir finds out whether a replica refuses; inject_usage in [measure] is for all"},
    {"replica", "inject_continuous_usage", "that in [measure] is for all replicas"},
    {"shadow", "max_in_flight", "64 mirrored requests are under way at most"},
    {"shadow", "max_queued_tokens", "200,000 prompt tokens wait in a shadow's replicas at most"},
    {"shadow", "key", "a sample has all turns of a conversation or none"},
    {"shadow", "on_client_abort", "a mirrored request ends when its client leaves"},
    {"shadow", "max_pairs", "set stop_after, or switch the shadow off when it has told enough"},
    {"rollout", "unknown_limit", "a step pauses whose gate stays unknown for 3 h"},
};

/// Returns what holds in place of a key; "" if there was no such key.
constexpr std::string_view what_holds_now(std::string_view table, std::string_view key) {
  for (const auto& gone : gone_keys)
    if (gone.table == table && gone.key == key) return gone.now;
  return {};
}

// Says in words what differs between two settings: what a reload changes.
//
// Settings are first written as a listing: plain text, with every key. So the settings of a running weir, which come as
// JSON, are compared as those of a file are. A listing shows no secret.

struct ListedKey {
  std::string key;    ///< Within the sections it has the table's name in front: "limits.drain".
  std::string value;  ///< As in the file, without quotes: "5m", "none". A secret is "hidden" or "none".
  std::optional<std::string> secret{};  ///< Compared and never shown. A listing from elsewhere lacks it.
  bool operator==(const ListedKey&) const = default;
};

/// A table of the file with a name of its own; or all the others, under the name "".
struct Listed {
  std::string name;    ///< "", "pool chat", "replica gpu0", "slo interactive".
  std::string within;  ///< The name of the pool of a replica, else "".
  std::vector<ListedKey> keys;
  bool operator==(const Listed&) const = default;
};

using Listing = std::vector<Listed>;

/// The readers of the file list their keys: see config/table_reader.hpp.
Listing listing_of(Settings settings);

/// Returns a clause for each change, such as "pool chat: replica gpu2 added" and "limits.first_token 5m -> 2m";
/// an empty list where the two are equal.
std::vector<std::string> difference(const Listing& before, const Listing& after);
std::vector<std::string> difference(const Settings& before, const Settings& after);

/// Returns the clauses of those changes that only a restart can make.
std::vector<std::string> needs_restart(const Listing& before, const Listing& after);

/// Secrets that both have and that one of them does not tell: nobody can say whether they differ.
std::vector<std::string> cannot_tell(const Listing& before, const Listing& after);

}  // namespace weir::config
