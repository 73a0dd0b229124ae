// Asks many replicas for their models at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/fleet/served_models.hpp"
#include "proxy/fleet/world.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::fleet {

/// Ends an asking before its time, since its client has left or weir is to end. On the loop's thread.
class Halt {
 public:
  void call() {
    called_ = true;
    if (stop_) stop_();
  }
  bool called() const { return called_; }
  /// What ends the asking under way; nothing once there is none.
  void stops(std::function<void()> what) { stop_ = std::move(what); }

 private:
  std::function<void()> stop_;
  bool called_ = false;
};

/// What a replica answered.
struct Told {
  unsigned status = 0;  ///< 0: no whole answer.
  ModelEntries entries;
};

struct Asking {
  std::shared_ptr<const ReplicaRuntime> replica;
  std::string credential;
};
using Tell = std::function<void(const ReplicaRuntime&, Told)>;

/// Asks them all at once, on the loop of who awaits it, and tells of each as it answers. A list of more than `longest`
/// bytes is no answer. Returns when all have, 2 s are over, or it is halted.
net::Awaitable<void> ask_all(std::vector<Asking> askings, std::size_t longest, Tell tell, Halt* halt);

}  // namespace weir::proxy::fleet
