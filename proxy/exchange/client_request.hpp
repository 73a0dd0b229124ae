// A client's request, in parts. Each part has one writer; functions take the parts that they use, const unless they are
// that writer.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/moment.hpp"
#include "metrics/rare.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/prefix_marks.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/http/head.hpp"
#include "proxy/http/routes.hpp"
#include "proxy/net/address_counts.hpp"
#include "proxy/net/buffer_share.hpp"
#include "proxy/net/peer_address.hpp"

namespace weir::proxy::exchange {

using metrics::Moment;

/// The message that the client sent. serve::RequestReading writes it; the exchange frees what no attempt needs.
struct ClientMessage {
  std::string head_bytes;  ///< `head` points into these bytes.
  http::RequestHead head;
  std::string body;
  net::SharedBudgetHold budget_hold;                         ///< Pays for head and body.
  std::shared_ptr<const metrics::wire::RequestFacts> facts;  ///< Null until the whole body has been read.
  /// Null where the request's pool does not look at prefixes. The exchange takes it.
  std::shared_ptr<const metrics::wire::PromptPrefix> prefix;
  metrics::Rare<std::vector<metrics::wire::PrefixMark>> prefixes;  ///< For the request log, where it is to have them.
  http::Route route = http::Route::unknown;
  metrics::Api api = metrics::Api::other;  ///< The route's API, which shapes weir's own errors.
  bool bypassed = false;                   ///< weir relays the request, and reads neither it nor its answer.
  Moment received{};                       ///< t0
  std::chrono::system_clock::time_point time;  ///< The wall clock showed this at t0.

  /// A request counts from when its last byte arrived, not from when the loop came to read it: that wait is weir's.
  void received_at(Moment at) {
    received = at;
    time = std::chrono::system_clock::now() -
           std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::steady_clock::now() - at);
  }
  /// Frees the body of a request that has been sent on.
  void drop_body() {
    budget_hold.less(body.capacity());
    std::string().swap(body);
  }
  /// Frees the body of a request that goes no further, and pays for nothing any more.
  void give_up() {
    std::string().swap(body);
    budget_hold.set(0);
  }
};

struct RequestIds {
  std::string weir;    ///< weir's own.
  std::string client;  ///< The client's x-request-id where it is valid, else "".

  /// Returns the id that client and replica are told.
  const std::string& shown() const { return client.empty() ? weir : client; }
};

/// The sender of the request. serve::identify_client and serve::find_key write it.
struct ClientIdentity {
  net::PeerAddress peer{};                       ///< The TCP peer.
  std::string_view peer_text{};                  ///< The TCP peer in X-Forwarded-For. The connection has the text.
  net::PeerAddress address{};                    ///< The client's address, behind a trusted proxy too.
  bool through_proxy = false;                    ///< The peer is a trusted proxy.
  net::AddressCounts::CountGuard count_guard{};  ///< Counts a request that came through a proxy for `address`.
  std::shared_ptr<const keys::ClientKey> key;    ///< Shares the snapshot's keys; null if clients need none.
  std::optional<std::string> cors{};  ///< The fields that server.cors_origins adds; absent if that is empty.

  /// Returns the name of the client's key, "" if clients need none.
  std::string_view key_name() const { return key ? std::string_view(key->settings.name) : ""; }
};

/// The progress on weir's side. The session and its exchange write it.
struct RequestProgress {
  bool answered = false;  ///< Bytes of an answer may be on their way to the client.
  bool recorded = false;  ///< The request has its count, and its line in the log.
};

struct ClientRequest {
  std::shared_ptr<const fleet::Snapshot> snapshot;  ///< The settings and the fleet for this request.
  ClientMessage message;
  RequestIds ids;
  ClientIdentity client;
  RequestProgress progress;
};

}  // namespace weir::proxy::exchange
