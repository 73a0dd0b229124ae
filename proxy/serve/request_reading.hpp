// Reads one request of a client: its head through the strict gate, then its body within the limits, which is inspected
// along the way. A request that is wrong, or finds no room, has a refusal, which the session sends.
//
// Only the loop's thread uses it. One step reads at most 16 KiB before others have their turn.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "metrics/series/shard.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/http/writing.hpp"
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

// Checks the client's key, and what it may be used for. Pure, but for what it reads of the snapshot.
//
// A client shows its key before its body is read. Without a right one it gets 401, whatever it asks for, but for
// GET /health and, where `server.cors_origins` is set, a browser's preflight: browsers send no credential with it.

/// Cuts right keys, whoever's they are, out of a head that has just been read, but for the two fields in which a client
/// shows its own. So none goes to a replica, to a shadow or into the log. See http::cut_keys for what is not found.
void cut_keys(const keys::ClientKeys& keys, std::string& head_bytes, http::RequestHead& head);

/// Returns the refusal of a request that has two right keys, each another client's: nobody can say whose it is. Beside
/// a right key, another credential may stand, since neither goes to a replica: SDKs send whatever their environment
/// holds. `keys` may be null: clients need none.
std::optional<http::OwnAnswer> two_keys(const keys::ClientKeys* keys, const http::RequestHead& head);

/// Finds whose key the request has, in either field. A key that stands in the client's request id is taken from there:
/// it goes neither to a replica nor into the log. Returns why the request may not enter, if so.
std::optional<metrics::series::Denied> find_key(const std::shared_ptr<const keys::ClientKeys>& keys,
                                                const exchange::ClientMessage& message,
                                                exchange::ClientIdentity& client, exchange::RequestIds& ids);

/// Returns the answer to a client without a right key. The answer tells of no key, and repeats nothing that was sent.
http::OwnAnswer denied_answer(metrics::series::Denied why);

/// Returns the answer to a request whose key may not use its model; nothing if it may. The model is the one that the
/// body names. A body may name another one to an engine if it is not JSON, names a model twice, in whatever case, or if
/// the head says that its bytes are to be read otherwise than as JSON in UTF-8. A key that is limited to models cannot
/// send such a body.
std::optional<http::OwnAnswer> model_refusal(const keys::ClientKey* key, const http::RequestHead& head,
                                             const metrics::wire::RequestFacts& facts);

/// Returns the answer to a request whose key has as many requests as it may. `wait` is when to come back.
http::OwnAnswer key_busy_answer(const keys::ClientKey& key, std::chrono::milliseconds wait);

}  // namespace weir::proxy::serve
