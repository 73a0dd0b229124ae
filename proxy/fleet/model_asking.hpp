// Asks many replicas for their models at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/fleet/served_models.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::fleet {

/// Ends a round of questions early, because its client has left or weir stops. It is used on the loop's thread.
class Halt {
 public:
  void call() {
    called_ = true;
    if (stop_) stop_();
  }
  bool called() const { return called_; }
  /// Sets the function that ends the current round; null once there is none.
  void stops(std::function<void()> what) { stop_ = std::move(what); }

 private:
  std::function<void()> stop_;
  bool called_ = false;
};

/// A replica's answer.
struct ModelAnswer {
  unsigned status = 0;  ///< 0 if there was no whole answer.
  ModelEntries entries;
};

struct ModelQuestion {
  std::shared_ptr<const Replica> replica;
  std::string credential;
};
using Tell = std::function<void(const Replica&, ModelAnswer)>;

/// Asks all replicas at once, on the awaiting loop, and tells of each as it answers. A list of more than
/// `longest` bytes is no answer. Returns when all have answered, 2 s are up, or it is halted; then throws what a
/// question or `tell` ended with.
net::Awaitable<void> ask_all(std::vector<ModelQuestion> questions, std::size_t longest, Tell tell, Halt* halt);

}  // namespace weir::proxy::fleet
