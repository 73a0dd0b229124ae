// Answers of the admin listener as JSON: drains, settings, shadows, bypass; queries; tokens; gzip.
//
// Answers of the admin listener below /api/, as JSON, and to POST /-/reload.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "proxy/admin/reload.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/http/writing.hpp"
#include "proxy/net/address.hpp"
#include "proxy/shadows/history.hpp"
#include "proxy/shadows/live_comparison.hpp"

namespace weir::proxy::admin {

using http::api_error;
using http::ApiAnswer;
using shadows::History;
using shadows::SlowAnswers;

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

/// Switches a shadow on or off. One that is switched on begins anew: stop_after, max_pairs and the warm-up count from
/// then.
ApiAnswer shadow_answer(const fleet::Snapshot& snapshot, std::string_view name, bool on, History& history,
                        metrics::Moment now);

// Bypass: in an emergency weir relays what comes, and reads neither requests nor answers.

/// The log's line when bypass is switched on.
inline constexpr std::string_view bypass_is_on =
    "BYPASS is on: requests are relayed as they are, no usage is asked for, no answer is read, nothing is mirrored; "
    "TTFT, ITL and token counts of these requests are missing; `weir bypass off` ends it";

/// Switches bypass, and says so in the log. Requests under way go on as they began. The answer is
/// {"bypass":true,"changed":true}.
ApiAnswer bypass_answer(std::atomic<bool>& bypass, bool on);

// The token of the admin listener ([admin] token): who has it may do all that this listener can.

/// Tells whether a request bears the token: one Authorization field, "Bearer TOKEN". The time it takes says nothing of
/// the token, not its length either.
bool bears_token(std::span<const std::string_view> authorization, const std::string& token);

/// Counts wrong tokens by the address that sends them, and slows those who try many: after `few` of them in as many
/// seconds, an address waits for `wait` before its next token is looked at, whether or not that is the right one. So
/// many wait at a time; more are refused. Only the control thread uses it.
class WrongTokens {
 public:
  static constexpr double few = 10, forgiven_a_second = 1;
  static constexpr std::chrono::seconds wait{1};
  static constexpr std::size_t most_waiting = 8;

  bool slows(const net::PeerAddress& address, metrics::Moment now) const {
    return accounts_.owed(address, forgiven_a_second, now) >= few;
  }
  /// Returns the line for weir's log if the last one was a minute ago; else "".
  std::string add(const net::PeerAddress& address, metrics::Moment now);

  std::size_t waiting = 0;  ///< Requests that wait now.

 private:
  net::AddressAccounts accounts_;
  std::uint64_t unsaid_ = 0;
  metrics::Moment said_{-std::chrono::hours(1)};
};

// Tells whether a request to the admin listener may change something. A page in an operator's browser can send requests
// to loopback addresses; what it cannot do is send them as JSON without asking first, which weir never allows, or with
// a Host and an Origin of weir's own.

/// The fields of a request that tell where it comes from, each as often as it was sent.
struct Sender {
  std::vector<std::string_view> host, origin, content_type;
};

/// Returns "", or why weir does not believe that this Host is its own: another name may lead here by DNS rebinding.
std::string why_strange_host(const Sender& sender, const std::optional<config::ListenAddress>& listen);

/// Returns "", or why the request may change nothing.
std::string why_no_change(const Sender& sender, const std::optional<config::ListenAddress>& listen);

}  // namespace weir::proxy::admin
