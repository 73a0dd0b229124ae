// The credential that a client shows, and where else one may stand in a request.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "proxy/http/head.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::http {

/// Returns the text behind `Bearer` in Authorization, else x-api-key; "" if there is neither. The view points into the
/// head's bytes.
std::string_view credential_of(const RequestHead& head);

/// True for a field whose name says that it holds a credential or cookies.
bool is_credential(FieldName name);

/// Returns the x-api-key that stands beside another credential_of(); "" if there are no two, or the same twice. Two
/// parsers could judge different ones.
std::string_view other_credential_of(const RequestHead& head);

/// True for a text that holds a client's key for weir: this one, which may be "", or any that looks as `weir key new`
/// makes them. A key of fewer than 8 characters has to be all of the text, for it may stand in any word.
bool holds_key(std::string_view text, std::string_view key);

/// Returns the target without the parameters whose names say that they hold a credential, and without those that
/// holds_key(), escaped or not. The order of the others stays. Names are compared without regard to case, and as they
/// are written: one with escapes is not known.
std::string without_credentials(std::string_view target, std::string_view key = {});

/// True for a text that may be a key of any make, so that it is worth a hash: it has 16 characters or more, a digit or
/// a capital letter, and no blank. Media types, a program with its version (`Go-http-client/1.1`) and a traceparent are
/// none: what usual clients send with each request costs no hash.
bool may_be_key(std::string_view text);

/// Says whether a text is somebody's key.
using IsKey = std::function<bool(std::string_view)>;

/// Cuts out of the bytes of a head each field and each query parameter that is a key or has one behind a scheme
/// (`Bearer KEY`), escaped or not. Only texts that may_be_key() are asked about. Fields that go no further in any case
/// stay. Returns true if it has cut something: then `head`, which points into the bytes, is of no further use.
bool cut_keys(std::string& head_bytes, const RequestHead& head, const IsKey& is_key);

// The address of a client behind proxies: X-Forwarded-For, to which each proxy appends its peer's address.
//
// The fields of a client that is no trusted proxy end at weir. uvicorn, in front of vLLM, believes X-Forwarded-For of
// 127.0.0.1, so a weir beside it would put forged addresses into the engine's log.

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

// Which ids weir takes over from a client.

/// The client's x-request-id if it is 1 to 128 of [A-Za-z0-9._-], else nothing.
std::optional<std::string_view> valid_request_id(std::string_view value);

// weir's name in Via (RFC 9110, 7.6.3), by which it knows a request that has come back to it. Each process has a name
// of its own, which says nothing of its host. Any thread may use it.

/// Returns the name of this process: `weir-` and 16 hex digits.
const std::string& name_in_via();

/// True if a value of Via names this process.
inline bool names_this_weir(std::string_view via) { return via.find(name_in_via()) != std::string_view::npos; }

}  // namespace weir::proxy::http
