// Grants gather while a pool's mutex is held, and go to the sink when it has been given back: whoever takes the mutex
// declares them first.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "balancer/placement.hpp"

namespace weir::balancer {

class PendingGrants {
 public:
  explicit PendingGrants(GrantSink* sink) : sink_(sink) {}
  PendingGrants(const PendingGrants&) = delete;
  ~PendingGrants() {
    if (!granted_.empty()) sink_->grant(std::move(granted_));
  }
  /// The grant or refusal of this request is for the caller, not for the sink.
  void keep(WaitTicket ticket) { kept_ticket_ = ticket; }
  void add(WaitTicket ticket, std::shared_ptr<void> waiter, std::variant<Lease, Refused> what) {
    if (ticket == kept_ticket_)
      kept_ = std::move(what);
    else
      granted_.push_back({std::move(waiter), std::move(what)});
  }
  std::optional<std::variant<Lease, Refused>> take_kept() { return std::exchange(kept_, std::nullopt); }

 private:
  GrantSink* sink_;
  WaitTicket kept_ticket_ = 0;
  std::optional<std::variant<Lease, Refused>> kept_;
  std::vector<Granted> granted_;
};

}  // namespace weir::balancer
