// The metrics and admin listeners serve scrapes, health, and what weir knows of the replicas; the admin listener also
// drains and reloads. Both run on the control thread, off the path of requests; answers are small, so Beast reads and
// writes there.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/series/exposition.hpp"
#include "proxy/admin/api.hpp"
#include "proxy/admin/reload.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/live/live.hpp"
#include "proxy/live/page/files.hpp"
#include "proxy/net/address.hpp"
#include "proxy/rollout/rollouts.hpp"
#include "proxy/shadows/history.hpp"
#include "proxy/shadows/live_comparison.hpp"

namespace weir::proxy::admin {

using rollout::Rollouts;

/// Says what an operator may ask for on a listener.
enum class AdminScope : unsigned char {
  metrics,  ///< /metrics, /-/healthy, /-/ready and /api/gate.
  admin,    ///< The same, /api/ and POST /-/reload; requires the token, if one is set.
};

/// More connections to a listener of operators take each other's places, so that they never take the descriptors of
/// clients: the oldest goes. So nobody who opens connections and sends nothing keeps the others out.
inline constexpr std::size_t most_operators = 64;

/// Functions that close the connections of one listener, the oldest first. Each listener has its own list, so that
/// nobody who may read metrics can keep the operators out of the admin listener. A connection keeps its list alive: at
/// weir's end connections go with the context, after all else.
using OperatorPlaces = std::list<std::function<void()>>;

/// The sources of the answers, which outlive the context's run.
struct AdminSources {
  metrics::series::Exposition& exposition;
  fleet::Fleet& fleet;
  Reload& reload;
  History& history;
  SlowAnswers& slow_answers;
  Rollouts& rollouts;
  live::Live& live;
  std::atomic<bool>& bypass;
  std::function<std::string()> why_not_ready;  ///< Returns "" if weir takes requests and has a replica for them.
  std::shared_ptr<OperatorPlaces> metrics_places = std::make_shared<OperatorPlaces>();
  std::shared_ptr<OperatorPlaces> admin_places = std::make_shared<OperatorPlaces>();
  std::chrono::steady_clock::time_point warned{};
  WrongTokens wrong_tokens{};

  const std::shared_ptr<OperatorPlaces>& places_of(AdminScope scope) const {
    return scope == AdminScope::admin ? admin_places : metrics_places;
  }
};

/// A path that the listeners serve, as the reference has it. NAME in it stands for a name of the settings.
struct AdminPath {
  AdminScope scope;
  bool changes;  ///< Asked by POST.
  std::string_view path, about;
};
std::vector<AdminPath> admin_paths();

/// Serves one connection of an operator.
void start_admin_session(boost::asio::io_context& context, net::UniqueFd client, AdminScope scope, AdminSources& weir);

// The page at the admin listener's "/": its files, and the fields that keep it to itself. The files hold nothing of
// this weir, so they need no token, and no Host of weir's own: without them nobody could be asked for the token. The
// JSON that the page asks for needs it.

/// Returns the file at this path; null if the page has none there.
const live::page::File* page_file(std::string_view path);

/// Tells whether an If-None-Match names this tag: the client has the file as it is (RFC 9110, 13.1.2).
bool names_tag(std::string_view if_none_match, std::string_view tag);

/// Sent with each file. The page loads and asks for nothing but weir's own, is in no frame, runs no script and has no
/// style of a document's text, and makes no script of a text.
inline constexpr std::pair<std::string_view, std::string_view> page_fields[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
     "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-cache"}};

}  // namespace weir::proxy::admin
