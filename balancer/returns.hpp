// The requests that were refused and are to come back, until they do or should have.
//
// A request is known again by its client's fair key and by what it asks. So a client that does not wait as it was told,
// and sends the same again, counts once: the newest time that it was told replaces the one before. It counts until it
// should have come back in the mean, and is known again for as long as it may follow what it was told. There are 2048
// at most; others, and those that come while there is no memory, are not counted, nor known again.
//
// A Pool owns it and calls it under its mutex. A call costs O(log n). Only told() allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "balancer/capped_sums.hpp"
#include "balancer/if_memory_allows.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

class Returns {
 public:
  static constexpr std::size_t most = 2048;

  /// The identity of a request: the fair key, the conversation and the size of the body. The estimate of its prompt
  /// changes with what is learned.
  struct Identity {
    std::uint64_t key = 0, conversation = 0;
    std::size_t bytes = 0;
    // clang-tidy takes the 0 of a comparison that it rewrites for a pointer.
    auto operator<=>(const Identity&) const = default;  // NOLINT(modernize-use-nullptr)
  };

  /// When a request may come back, should in the mean, and may at last.
  struct Due {
    Moment from, mean, last;
  };

  /// `tokens`: what is to be computed of its prompt.
  void told(const Identity& who, Tokens tokens, const Due& due) noexcept {
    came_back(who, Moment::min());
    if (due_.size() >= most) return;
    if_memory_allows([&] {
      std::map<Identity, Told> entry{{who, Told{due, tokens}}};
      std::set<std::pair<Moment, Identity>> time{{due.mean, who}};
      Work& work = of_key_[who.key];
      // Nothing fails from here on.
      due_.merge(entry);
      by_time_.merge(time);
      all_.remove(work);
      work.add({1, tokens});
      all_.add(work);
    });
  }
  /// Returns whether the request comes back, and no sooner than it was told.
  bool came_back(const Identity& who, Moment now) noexcept {
    const auto found = due_.find(who);
    if (found == due_.end()) return false;
    const Told told = found->second;
    by_time_.erase({told.counts ? told.due.mean : told.due.last, who});
    due_.erase(found);
    if (told.counts) count_no_more(who, told.tokens);
    return now >= told.due.from;
  }
  /// Lets time pass: those that should have come by now count no more, and those that may come no more are forgotten.
  void pass(Moment now) noexcept {
    while (!by_time_.empty() && by_time_.begin()->first <= now) {
      auto time = by_time_.extract(by_time_.begin());
      const Identity& who = time.value().second;
      const auto found = due_.find(who);
      if (std::exchange(found->second.counts, false)) {
        count_no_more(who, found->second.tokens);
        time.value().first = found->second.due.last;
        by_time_.insert(std::move(time));
      } else {
        due_.erase(found);
      }
    }
  }

  Work of(std::uint64_t key) const {
    const auto found = of_key_.find(key);
    return found == of_key_.end() ? Work{} : found->second;
  }
  /// Returns what comes back of other keys, of each of them at most so much.
  Work of_others(std::uint64_t key, const Work& most_of_each) const { return all_.of_others(of(key), most_of_each); }

 private:
  struct Told {
    Due due;
    Tokens tokens = 0;
    bool counts = true;
  };

  void count_no_more(const Identity& who, Tokens tokens) noexcept {
    const auto of = of_key_.find(who.key);
    all_.remove(of->second);
    of->second.tokens -= tokens;
    if (--of->second.requests == 0) {
      of_key_.erase(of);
    } else {
      all_.add(of->second);
    }
  }

  std::map<Identity, Told> due_;
  std::set<std::pair<Moment, Identity>> by_time_;
  std::unordered_map<std::uint64_t, Work> of_key_;
  CappedWork all_;  ///< The work of all keys.
};

}  // namespace weir::balancer
