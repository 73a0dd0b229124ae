// The address of a client behind proxies: X-Forwarded-For, to which each proxy appends its peer's address.
//
// The fields of a client that is no trusted proxy end at weir. uvicorn, in front of vLLM, believes X-Forwarded-For of
// 127.0.0.1, so a weir beside it would put forged addresses into the engine's log.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "proxy/http/head.hpp"
#include "proxy/net/peer_address.hpp"

namespace weir::proxy::http {

/// Returns the client's address: the peer's, unless that is a trusted proxy. Then it is the last address of
/// X-Forwarded-For (all such fields in their order) that is none of the trusted. A text that is no address ends the
/// search, for its writer is not trusted: the last address found is the client's. Costs a pass over the field, and
/// nothing where no proxy is trusted.
net::PeerAddress client_address(const net::PeerAddress& peer, const RequestHead& head,
                                std::span<const config::Network> trusted);

/// The forwarding fields of a request to a replica.
struct Forwarded {
  bool believed = false;    ///< The peer is a trusted proxy, so its fields are passed on.
  std::string_view peer{};  ///< The peer as in_forwarded_for() writes it, appended to X-Forwarded-For.
};

/// Returns the address as X-Forwarded-For has it; "" if it is not known.
std::string in_forwarded_for(const net::PeerAddress& peer);

/// True for fields that tell of the way: Forwarded, X-Forwarded-..., X-Real-IP.
bool is_forwarding_field(const HeaderField& field);

/// Returns the value of X-Forwarded-For for the next one; "" for none.
std::string forwarded_for(const RequestHead& head, const Forwarded& way);

}  // namespace weir::proxy::http
