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
#include <vector>

#include "config/reference.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/control/admin_token.hpp"
#include "proxy/control/history.hpp"
#include "proxy/control/reload.hpp"
#include "proxy/control/rollouts.hpp"
#include "proxy/control/slow_answers.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/live/live.hpp"
#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::control {

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

}  // namespace weir::proxy::control
