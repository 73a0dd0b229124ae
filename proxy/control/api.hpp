// Answers of the admin listener below /api/, as JSON, and to POST /-/reload.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "proxy/control/history.hpp"
#include "proxy/control/reload.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/live/live.hpp"

namespace weir::proxy::control {

struct ApiAnswer {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
};

/// {"error":{"message","type","code"}}
ApiAnswer api_error(unsigned status, std::string_view code, const std::string& message);

/// Drains a replica, or ends that; one that is ejected comes back then, on probation. The body is empty or a JSON
/// object which may have "force".
ApiAnswer drain_answer(fleet::Fleet& fleet, std::string_view name, bool drains, std::string_view body,
                       metrics::Moment now);

/// {"settings":[{"name","within","keys":{}}],"overridden":["metrics.listen"]}: the settings in use, without secrets,
/// and which of them the command line set.
ApiAnswer settings_answer(const config::Settings& settings);

/// {"changes":[...]}, or an error with {"errors":[...]}.
ApiAnswer reload_answer(const Reload::Result& result);

// The parameters of a request's query.

inline constexpr std::string_view not_a_query = "the query is no list of NAME=VALUE with & between";

/// Returns the parameters, decoded and in order; nothing if the text is no query.
std::optional<std::vector<std::pair<std::string, std::string>>> parameters_of(std::string_view query);

/// Returns a sentence about a parameter that is there twice; "" if none is.
std::string repeated_parameter(const std::vector<std::pair<std::string, std::string>>& parameters);

/// Returns the refusal of a query.
ApiAnswer bad_query(const std::string& sentence);

/// Returns a sentence about a parameter that nobody knows.
std::string unknown_parameter(std::string_view name, const std::vector<std::string_view>& known);

// Compresses what the metrics and admin listeners answer, because a scrape is text that repeats nearly the same
// thousands of times.

/// True if an Accept-Encoding field allows gzip (RFC 9110, section 12.5.3): it names it, or "*", with a weight above 0.
/// If the field is absent (""), nothing is compressed.
bool accepts_gzip(std::string_view accept_encoding);

/// Returns `text` as one gzip member (RFC 1952). Throws std::bad_alloc if there is no memory.
std::string gzip(std::string_view text);

// Shadows on the admin listener: their list, and their switch.

/// Switches a shadow, and says so in the log. One that is switched on begins anew. Returns false if it was so before.
bool switch_shadow(const fleet::ShadowRuntime& shadow, bool on, History& history, metrics::Moment now);

/// Switches a shadow on or off. One that is switched on begins anew: stop_after, max_pairs and the warm-up count from
/// then.
ApiAnswer shadow_answer(const fleet::Snapshot& snapshot, std::string_view name, bool on, History& history,
                        metrics::Moment now);

/// After a reload: a shadow that gets other requests, or runs elsewhere, is cold again.
void begin_anew(const fleet::Snapshot& before, const fleet::Snapshot& after, History& history, metrics::Moment now);

/// Returns how many tokens the KV caches of the shadows' replicas hold, where that is set or the engine tells it: by
/// the replica's name, and by configuration where the addresses of a name are found.
std::map<std::string, std::uint64_t, std::less<>> kv_tokens_of_shadows(const fleet::Snapshot& snapshot);

// Bypass: in an emergency weir relays what comes, and reads neither requests nor answers.

/// The log's line when bypass is switched on.
inline constexpr std::string_view bypass_is_on =
    "BYPASS is on: requests are relayed as they are, no usage is asked for, no answer is read, nothing is mirrored; "
    "TTFT, ITL and token counts of these requests are missing; `weir bypass off` ends it";

/// Switches bypass, and says so in the log. Requests under way go on as they began. The answer is
/// {"bypass":true,"changed":true}.
ApiAnswer bypass_answer(std::atomic<bool>& bypass, bool on);

// GET /api/report: a page, or its data, about the last minutes (docs/reference/api.md).

ApiAnswer report_answer(std::string_view query, live::Live& live, const config::Settings& settings);

}  // namespace weir::proxy::control
