// Hashes the owner of a request to a number: a pool's queue is fair between these numbers.
//
// The number is a keyed hash (SipHash) with a random key of the process. So no client can find a credential that shares
// another's number, and no number tells a credential.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "config/settings.hpp"
#include "metrics/names.hpp"
#include "metrics/sip_hash.hpp"
#include "proxy/http/head.hpp"
#include "proxy/net/peer_address.hpp"

namespace weir::proxy::exchange {

using metrics::SipKey;

/// A random key.
SipKey make_sip_key();

/// Returns whose request this is. `key_name` is the name of the client's key, "" where weir knows no keys. A request
/// without the key or the header that decides is its address's: a credential that nobody checks can be made up, and
/// must not buy a share. Of IPv6 the first 64 bits count, because one client has all that begin so.
std::uint64_t fair_key(const SipKey& key, const config::FairBy& by, const http::RequestHead& head,
                       const net::PeerAddress& address, std::string_view key_name);

/// Returns the number of the request's session: by the first of `by` that it has. 0: it has none.
std::uint64_t session_of(std::span<const config::SessionBy> by, const http::RequestHead& head,
                         const metrics::Names& names, std::string_view key_name);

/// Returns a hash of the credential that the request is sent with: of its key's name, else of what it says itself.
std::optional<std::uint64_t> credential_of(const SipKey& key, const http::RequestHead& head, std::string_view key_name);

/// Returns who sends the request, as far as it says so itself: by the name of its key, else by its credential, whoever
/// made that up, else by its address. Nothing is shared out by this.
std::uint64_t sender_of(const SipKey& key, const http::RequestHead& head, const net::PeerAddress& address,
                        std::string_view key_name);

/// Returns the seed of a prompt's prefix: prompts with equal seeds share anchors. `key_name` is as above.
std::uint64_t prefix_seed(const SipKey& key, config::PrefixIsolation isolation, std::string_view key_name);

}  // namespace weir::proxy::exchange
