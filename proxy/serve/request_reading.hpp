// Reads one request of a client: its head through the strict gate, then its body within the limits, which is inspected
// along the way. What is wrong with a request is told as a refusal; the session answers it.
//
// Only the loop's thread uses it. One step reads at most 16 KiB before others have their turn.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "metrics/series/loop_shard.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/serve/client_connection.hpp"

namespace weir::proxy::serve {

/// What a request is refused with.
struct RequestRefusal {
  unsigned status = 0;
  std::string_view sentence{};
  std::optional<metrics::series::Limit> limit{};  ///< It is the limit that bit.
  std::string_view code = "bad_request";
};

class RequestReading {
 public:
  enum class End : std::uint8_t {
    whole,    ///< Head or body is there.
    refused,  ///< See refusal().
    left,     ///< The client left within its request.
    closed,   ///< The connection ended, or is to end, without another request.
    cut,      ///< limits.drain is over: the request has begun, and weir does not wait for the rest.
  };

  /// Both arguments outlive it.
  RequestReading(exchange::Loop& loop, ClientConnection& client, exchange::ClientRequest& request)
      : loop_(loop), client_(client), request_(request) {}
  RequestReading(const RequestReading&) = delete;
  RequestReading& operator=(const RequestReading&) = delete;

  /// Waits for a request, and reads its head. It fills `head`, `route`, the ids and `snapshot`.
  net::Awaitable<End> head();
  /// Reads the body, and fills `body` and `facts`. Memory is taken as bytes come, whatever length was announced.
  net::Awaitable<End> body();
  const RequestRefusal& refusal() const { return refusal_; }

 private:
  const config::Limits& limits() const { return request_.snapshot->settings.limits; }
  End refuse(unsigned status, std::string_view sentence, std::optional<metrics::series::Limit> limit = {});
  End refuse_for_memory(metrics::series::Limit limit);
  End gave_way();
  End out_of_time(std::string_view sentence, metrics::series::Limit limit);
  bool drop_line_end();
  End take_head(std::optional<std::size_t> length);

  exchange::Loop& loop_;
  ClientConnection& client_;
  exchange::ClientRequest& request_;
  RequestRefusal refusal_;
  bool dropped_line_end_ = false;
};

}  // namespace weir::proxy::serve
