// Reads one request of a client: its head through the strict gate, then its body within the limits, which is inspected
// along the way. A request that is wrong, or finds no room, has a refusal, which the session sends.
//
// Only the loop's thread uses it. One step reads at most 16 KiB before others have their turn.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "metrics/series/loop_shard.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/http/own_answer.hpp"
#include "proxy/serve/client_connection.hpp"

namespace weir::metrics::wire {
class RequestInspector;
}

namespace weir::proxy::serve {

class RequestReading {
 public:
  enum class End : std::uint8_t {
    whole,    ///< Head or body is there.
    refused,  ///< take_refusal() has the answer.
    left,     ///< The client left within its request.
    closed,   ///< The connection ended, or is to end, without another request.
  };

  /// Both arguments outlive it.
  RequestReading(exchange::Loop& loop, ClientConnection& client, exchange::ClientRequest& request)
      : loop_(loop), client_(client), request_(request) {}
  RequestReading(const RequestReading&) = delete;
  RequestReading& operator=(const RequestReading&) = delete;

  /// Waits for a request, and reads its head: the message without its body, the client's id and the snapshot.
  net::Awaitable<End> head();
  /// Reads the body and its facts. Memory is taken as bytes come, whatever length was announced.
  net::Awaitable<End> body();
  /// Returns the answer to a refused request. The limit that bit is counted.
  std::unique_ptr<http::OwnAnswer> take_refusal() { return std::move(refusal_); }

 private:
  const config::Limits& limits() const { return request_.snapshot->settings.limits; }
  End refuse(http::OwnAnswer answer, std::optional<metrics::series::Limit> limit = {});
  End refuse(unsigned status, std::string_view sentence, std::optional<metrics::series::Limit> limit = {});
  End refuse_for_memory(metrics::series::Limit limit, std::string_view sentence);
  End no_room(metrics::series::Limit limit);
  End gave_way();
  End out_of_time(std::string_view sentence, metrics::series::Limit limit);
  End body_is_late(bool stopped);
  bool reads_model_alone() const;
  bool logs_prefixes() const;
  void end_body(std::string& rest, std::string_view behind);
  bool drop_line_end();
  void give_back(std::string& text);
  End take_head(std::optional<std::size_t> length);
  void take_facts(metrics::wire::RequestFacts facts);
  void take_prefix(metrics::wire::RequestInspector& inspector);

  exchange::Loop& loop_;
  ClientConnection& client_;
  exchange::ClientRequest& request_;
  std::unique_ptr<http::OwnAnswer> refusal_;
  bool dropped_line_end_ = false;
};

}  // namespace weir::proxy::serve
