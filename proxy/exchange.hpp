// The story of one request: choose a replica, connect, send, relay, and record how it ended.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <string>
#include <vector>

#include "metrics/request_record.hpp"
#include "proxy/loop.hpp"
#include "proxy/relay.hpp"
#include "proxy/routes.hpp"

namespace weir::proxy {

template <class T>
using Awaitable = boost::asio::awaitable<T, boost::asio::io_context::executor_type>;
using use_awaitable_t = boost::asio::use_awaitable_t<boost::asio::io_context::executor_type>;
inline constexpr use_awaitable_t use_awaitable{};

/// A request, read whole.
struct ClientRequest {
  std::string head_bytes;  ///< What `head` points into.
  RequestHead head;
  std::string body;
  metrics::wire::RequestFacts facts;
  Route route = Route::unknown;
  std::string id;          ///< weir's own.
  std::string client_id;   ///< The client's x-request-id where it is valid, else "".
  std::string request_id;  ///< That, or `id`.
  Moment received{};       ///< t0
  std::chrono::system_clock::time_point time;
};

/// What is left to do for the client when an exchange is over.
struct ExchangeEnd {
  std::optional<OwnAnswer> own;  ///< Nothing was sent yet: this is the answer.
  bool keep_alive = false;       ///< The connection may serve another request.
  bool reset = false;            ///< The body was cut where only a reset shows it.
};

/// One exchange, on the loop's thread. Counts and logs the request, whatever happens.
class Exchange {
 public:
  Exchange(Loop& loop, ClientSide client, ClientRequest& request);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Awaitable<ExchangeEnd> run();

 private:
  std::optional<OwnAnswer> enter(PoolRuntime& pool);
  Awaitable<void> attempt(ReplicaRuntime& replica);
  std::string_view usage_member_for(const ReplicaRuntime& replica) const;
  RelayMachine::Options machine_options(ReplicaRuntime& replica, bool injected, bool reused);
  UniqueFd connection_to(ReplicaRuntime& replica, bool& reused);
  Relay::Request relay_request(const ReplicaRuntime& replica, std::string_view usage_member);
  std::vector<std::string_view> request_spans(std::string_view usage_member);
  bool take_retry();
  void give_retry_back();
  void retried(ReplicaRuntime& replica, metrics::Retry reason);
  void met(const balancer::Company& company);
  void connect_failed(int error, bool retry);
  void conclude(const RelayMachine& machine, const Relay& relay, ReplicaRuntime& replica);
  OwnAnswer failure_answer() const;
  void record(metrics::ReplicaSeries& series);

  Loop& loop_;
  ClientSide client_;
  ClientRequest& request_;
  PoolRuntime* pool_ = nullptr;
  balancer::Lease lease_;
  std::vector<balancer::ReplicaIndex> tried_;
  std::string upstream_head_;
  std::string_view failed_replica_;
  metrics::RequestRecord record_;
  ExchangeEnd end_;
  const ReplicaRuntime* refused_injection_ = nullptr;  ///< It gets the original.
  bool over_ = false, holds_retry_ = false;
};

/// Counts and logs a request that reached no replica.
void record_unassigned(Loop& loop, const ClientRequest& request, metrics::Outcome outcome,
                       std::optional<unsigned> status);

}  // namespace weir::proxy
