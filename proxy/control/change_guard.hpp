// Tells whether a request to the admin listener may change something. A page in an operator's browser can send requests
// to loopback addresses; what it cannot do is send them as JSON without asking first, which weir never allows, or with
// a Host and an Origin of weir's own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"

namespace weir::proxy::control {

/// The fields of a request that tell where it comes from, each as often as it was sent.
struct Sender {
  std::vector<std::string_view> host, origin, content_type;
};

/// Returns "", or why weir does not believe that this Host is its own: another name may lead here by DNS rebinding.
std::string why_strange_host(const Sender& sender, const std::optional<config::ListenAddress>& listen);

/// Returns "", or why the request may change nothing.
std::string why_no_change(const Sender& sender, const std::optional<config::ListenAddress>& listen);

}  // namespace weir::proxy::control
