// The token of the admin listener ([admin] token): who has it may do all that this listener can.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "proxy/net/address_accounts.hpp"

namespace weir::proxy::admin {

/// Tells whether a request bears the token: one Authorization field, "Bearer TOKEN". The time it takes says nothing of
/// the token, not its length either.
bool bears_token(std::span<const std::string_view> authorization, const std::string& token);

/// Counts wrong tokens by the address that sends them, and slows those who try many: after `few` of them in as many
/// seconds, an address waits for `wait` before its next token is looked at, whether or not that is the right one. So
/// many wait at a time; more are refused. Only the control thread uses it.
class WrongTokens {
 public:
  static constexpr double few = 10, forgiven_a_second = 1;
  static constexpr std::chrono::seconds wait{1};
  static constexpr std::size_t most_waiting = 8;

  bool slows(const net::PeerAddress& address, metrics::Moment now) const {
    return accounts_.owed(address, forgiven_a_second, now) >= few;
  }
  /// Returns the line for weir's log if the last one was a minute ago; else "".
  std::string add(const net::PeerAddress& address, metrics::Moment now);

  std::size_t waiting = 0;  ///< Requests that wait now.

 private:
  net::AddressAccounts accounts_;
  std::uint64_t unsaid_ = 0;
  metrics::Moment said_{-std::chrono::hours(1)};
};

// Tells whether a request to the admin listener may change something. A page in an operator's browser can send requests
// to loopback addresses; what it cannot do is send them as JSON without asking first, which weir never allows, or with
// a Host and an Origin of weir's own.

/// The fields of a request that tell where it comes from, each as often as it was sent.
struct Sender {
  std::vector<std::string_view> host, origin, content_type;
};

/// Returns "", or why weir does not believe that this Host is its own: another name may lead here by DNS rebinding.
std::string why_strange_host(const Sender& sender, const std::optional<config::ListenAddress>& listen);

/// Returns "", or why the request may change nothing.
std::string why_no_change(const Sender& sender, const std::optional<config::ListenAddress>& listen);

}  // namespace weir::proxy::admin
