// Whom to blame for a replica's 401, 403 or 404: what other replicas answered lately.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "metrics/moment.hpp"

namespace weir::proxy::fleet {

/// What other replicas of a pool said lately where one had answered 401, 403 or 404. Any thread; a call costs a lock
/// and a look-up among at most `most` entries, on the path of these errors only.
///
/// An opinion is asked for by a retry, which comes from the budget: a client with a misspelt model must not spend it
/// with each of its requests. So an opinion holds for `lasting`.
class SecondOpinions {
 public:
  static constexpr std::chrono::seconds lasting{10};
  static constexpr std::size_t most = 256;

  struct Case {
    std::uint64_t replica = 0;  ///< ReplicaState::id
    unsigned status = 0;
    std::string_view model;
  };
  enum class Opinion : unsigned char {
    none,    ///< Nobody has been asked lately.
    same,    ///< No other replica answered better: the client erred.
    better,  ///< Another one did: the replica is the odd one.
  };

  Opinion of(const Case& one, metrics::Moment now) const;
  void note(const Case& one, Opinion opinion, metrics::Moment now);

 private:
  using Key = std::tuple<std::uint64_t, unsigned, std::string>;
  struct Noted {
    Opinion opinion;
    metrics::Moment until;
  };
  mutable std::mutex mutex_;
  std::map<Key, Noted> noted_;
};

}  // namespace weir::proxy::fleet
