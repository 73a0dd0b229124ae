// A client's request, in parts. Each part has one writer; functions take the parts that they use, const unless they are
// that writer.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/affinity.hpp"
#include "balancer/story/story.hpp"
#include "metrics/memory.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/request_record.hpp"
#include "metrics/series/exposition.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/prefix_chain.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"
#include "proxy/exchange/loop.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/http/head.hpp"
#include "proxy/http/routes.hpp"
#include "proxy/net/address.hpp"
#include "proxy/net/buffer_budget.hpp"

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
  metrics::Api api = metrics::Api::other;      ///< The route's API, which shapes weir's own errors.
  bool bypassed = false;                       ///< weir relays the request, and reads neither it nor its answer.
  Moment received{};                           ///< t0
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
  std::optional<std::string> cors{};             ///< The fields that server.cors_origins adds; absent if that is empty.

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

// Tells what ties a request to a replica: state that a replica keeps under an id, or a session.

/// Returns the hash of the id, handed out by a replica, that the request is about: of a path, of the response before,
/// or of a batch's file. 0: none.
std::uint64_t state_of(const ClientMessage& message);

/// Sets the ties, the state and the lot of a request, and whether its answer has an id to note. A lot of 0 is left for
/// its conversation. `lot_key` is secret: a client that knew a lot could choose its side of a split.
void set_ties(balancer::story::Story::Request& about, balancer::Homes& homes, const ClientMessage& message,
              const ClientIdentity& client, const fleet::PoolRuntime& pool, const metrics::SipKey& lot_key);

/// Returns the pool in which the state lies that the request is about; null where nobody knows.
const fleet::PoolRuntime* pool_of_state(const fleet::Snapshot& snapshot, balancer::Homes& homes,
                                        const ClientMessage& message);

// The record of a request: what the client asked, what became of it, and where it is counted and logged.

/// Returns a record with what the request tells. `bytes_in`: the size of its body, which need no longer be there.
metrics::record::RequestRecord begin_record(const ClientRequest& request, std::uint64_t bytes_in);

/// Counts the request in the loop's shard of `series`, logs it, and leaves it to the control thread. Called once a
/// request.
void settle(Loop& loop, metrics::series::ReplicaSeries& series, metrics::record::RequestRecord&& record);

/// Leaves a mirrored request's record to the control thread, which logs it with its primary. If too many wait there,
/// its line is lost and counted.
void leave_to_be_paired(Loop& loop, metrics::record::RequestRecord&& record);

/// Counts and logs a request that no pool was chosen for.
void record_unassigned(Loop& loop, ClientRequest& request, metrics::Outcome outcome, std::optional<unsigned> status);

}  // namespace weir::proxy::exchange
