// A client's request, as it is when the whole of it has been read.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "metrics/moment.hpp"
#include "metrics/wire/request/facts.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/http/head.hpp"
#include "proxy/http/routes.hpp"
#include "proxy/net/address_counts.hpp"
#include "proxy/net/buffer_share.hpp"
#include "proxy/net/peer_address.hpp"

namespace weir::proxy::exchange {

using metrics::Moment;

struct ClientRequest {
  std::string head_bytes;  ///< What `head` points into.
  http::RequestHead head;
  std::string body;
  net::SharedBudgetHold budget_hold;  ///< Pays for head and body.
  metrics::wire::RequestFacts facts;
  http::Route route = http::Route::unknown;
  metrics::Api dialect = metrics::Api::other;  ///< The route's API, which shapes weir's own errors.
  net::PeerAddress peer{};                     ///< The TCP peer.
  net::PeerAddress address{};                  ///< The client's address, behind a trusted proxy too.
  bool through_proxy = false;                  ///< The peer is a trusted proxy.
  net::AddressCounts::CountGuard place{};      ///< Counts a request that came through a proxy for `address`.
  bool bypassed = false;                       ///< weir relays the request, and reads neither it nor its answer.
  std::optional<std::string> cors{};  ///< What server.cors_origins adds to the answer; absent if that is empty.
  std::string id;                     ///< weir's own.
  std::string client_id;              ///< The client's x-request-id where it is valid, else "".
  std::string request_id;             ///< That, or `id`.
  std::shared_ptr<const fleet::Snapshot> snapshot;  ///< The settings and the fleet for this request.
  const keys::ClientKey* key = nullptr;  ///< The client's, which is the snapshot's; null if clients need none.
  bool answered = false;                 ///< Bytes of an answer may be on their way to the client.
  bool recorded = false;                 ///< The request has its count, and its line in the log.
  Moment received{};                     ///< t0
  std::chrono::system_clock::time_point time;

  /// Returns the name of the client's key, "" if clients need none.
  std::string_view key_name() const { return key != nullptr ? std::string_view(key->settings.name) : ""; }
};

}  // namespace weir::proxy::exchange
