// Checks the client's key, and what it may be used for. Pure, but for what it reads of the snapshot.
//
// A client shows its key before its body is read. Without a right one it gets 401, whatever it asks for, but for
// GET /health and, where `server.cors_origins` is set, a browser's preflight: browsers send no credential with it.
#pragma once

#include <chrono>
#include <optional>

#include "metrics/series/loop_shard.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/http/own_answer.hpp"

namespace weir::proxy::serve {

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
