#include "proxy/serve/who_asks.hpp"

#include <chrono>

#include "config/network.hpp"
#include "metrics/wire/dialects/dialect.hpp"
#include "proxy/http/cors.hpp"
#include "proxy/http/forwarded.hpp"

namespace weir::proxy::serve {

bool learn_who_asks(exchange::Shared& shared, exchange::ClientRequest& request) {
  const auto& server = request.snapshot->settings.server;
  request.dialect = request.facts.api = metrics::wire::api_of(request.head.method, request.head.path);
  request.bypassed = shared.bypass.load(std::memory_order_relaxed);
  if (!server.cors_origins.empty()) {
    request.cors = http::cors_fields(server.cors_origins, request.head["origin"]);
    if (http::is_preflight(request.head)) request.route = http::Route::preflight;
  }
  request.through_proxy = config::contains(server.trusted_proxies, request.peer);
  if (!request.through_proxy) return true;
  request.address = http::client_address(request.peer, request.head, server.trusted_proxies);
  if (config::contains(server.trusted_proxies, request.address)) return true;
  auto place = shared.addresses.take(request.address, request.snapshot->settings.limits.connections_per_address);
  if (place) request.place = std::move(*place);
  return place.has_value();
}

http::OwnAnswer too_many_of_an_address() {
  auto own = http::error_answer(503, "overloaded_error", "too_many_connections",
                                "this client's address has as many requests under way as "
                                "limits.connections_per_address allows; try again when one has ended");
  own.retry_after = std::chrono::seconds(5);
  return own;
}

}  // namespace weir::proxy::serve
