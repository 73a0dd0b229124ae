// The requests that were refused and are to come back, until they do or should have.
//
// A request is known again by its client's fair key and by what it asks. So a client that does not wait as it was told,
// and sends the same again, counts once: the newest time that it was told replaces the one before. There are 2048 at
// most; others are not counted.
//
// A Pool owns it and calls it under its mutex. A call costs O(log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "balancer/capped_sums.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

class Returns {
 public:
  static constexpr std::size_t most = 2048;

  /// The identity of a request: the fair key, the conversation, the prompt and the size of the body.
  struct Identity {
    std::uint64_t key = 0, conversation = 0;
    Tokens prompt = 0;
    std::size_t bytes = 0;
    // clang-tidy takes the 0 of a comparison that it rewrites for a pointer.
    auto operator<=>(const Identity&) const = default;  // NOLINT(modernize-use-nullptr)
  };

  void told(const Identity& who, Moment due) {
    came_back(who);
    if (due_.size() >= most) return;
    due_.emplace(who, due);
    by_time_.emplace(due, who);
    Work& work = of_key_[who.key];
    all_.remove(work);
    work.add({1, who.prompt});
    all_.add(work);
  }
  void came_back(const Identity& who) {
    const auto found = due_.find(who);
    if (found == due_.end()) return;
    by_time_.erase({found->second, who});
    due_.erase(found);
    const auto of = of_key_.find(who.key);
    all_.remove(of->second);
    of->second.tokens -= who.prompt;
    if (--of->second.requests == 0) {
      of_key_.erase(of);
    } else {
      all_.add(of->second);
    }
  }
  /// Forgets those that should have come by now.
  void pass(Moment now) {
    while (!by_time_.empty() && by_time_.begin()->first <= now) came_back(Identity(by_time_.begin()->second));
  }

  Work of(std::uint64_t key) const {
    const auto found = of_key_.find(key);
    return found == of_key_.end() ? Work{} : found->second;
  }
  /// Returns what comes back of other keys, of each of them at most so much.
  Work of_others(std::uint64_t key, const Work& most_of_each) const { return all_.of_others(of(key), most_of_each); }

 private:
  std::map<Identity, Moment> due_;
  std::set<std::pair<Moment, Identity>> by_time_;
  std::unordered_map<std::uint64_t, Work> of_key_;
  CappedWork all_;  ///< Of all keys.
};

}  // namespace weir::balancer
