#include "proxy/serve/client_identity.hpp"

#include "config/network.hpp"
#include "proxy/http/cors.hpp"
#include "proxy/http/forwarded.hpp"

namespace weir::proxy::serve {

bool identify_client(exchange::Shared& shared, const config::Settings& settings, const http::RequestHead& head,
                     exchange::ClientIdentity& client) {
  const auto& server = settings.server;
  if (!server.cors_origins.empty()) client.cors = http::cors_fields(server.cors_origins, head[http::FieldName::origin]);
  client.through_proxy = config::contains(server.trusted_proxies, client.peer);
  if (!client.through_proxy) return true;
  client.address = http::client_address(client.peer, head, server.trusted_proxies);
  if (config::contains(server.trusted_proxies, client.address)) return true;
  auto guard = shared.addresses.take(client.address, settings.limits.connections_per_address);
  if (guard) client.count_guard = std::move(*guard);
  return guard.has_value();
}

}  // namespace weir::proxy::serve
