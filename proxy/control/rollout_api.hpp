// The bodies of /api/rollout: that of a promotion, which is read, and rollouts as JSON (docs/reference/api.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "balancer/rollout/follower.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/control/api.hpp"

namespace weir::proxy::control {

/// The steps that a promotion names; "" where it names none.
struct Promotion {
  std::string from, to;
};
/// Returns nothing if the body is no object with these texts alone. An empty body names no step.
std::optional<Promotion> promotion_in(std::string_view body);

/// {"name","reason","move"}
ApiAnswer answer_of(const std::string& name, const balancer::rollout::Move& move);

/// A wish that cannot be carried out as things stand: 409.
ApiAnswer not_now(const std::string& sentence);

/// Writes one object: what a rollout is, where it stands, and why. `crossed`: so many requests went to the other
/// side than their own.
void write_rollout(metrics::wire::JsonWriter& json, const balancer::rollout::Follower& follower, std::uint64_t crossed);

}  // namespace weir::proxy::control
