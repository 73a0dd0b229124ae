// Tells whom to blame for a replica's 401, 403 or 404, by what other replicas answered lately.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "metrics/moment.hpp"

namespace weir::balancer::story {

/// Remembers what other replicas of a pool said lately after one had answered 401, 403 or 404. Any thread may use it. A
/// call costs a lock and a look-up among at most `most` entries, on the path of these errors only.
///
/// A retry asks for an opinion, and retries come from the budget. A client with a misspelt model must not spend the
/// budget with each of its requests, so an opinion holds for `lasting`.
class SecondOpinions {
 public:
  static constexpr std::chrono::seconds lasting{10};
  static constexpr std::size_t most = 256;

  struct Case {
    std::uint64_t replica = 0;  ///< ReplicaKey::serial.
    unsigned status = 0;
    std::string_view model;
  };
  enum class Opinion : unsigned char {
    none,    ///< No other replica has been asked lately.
    same,    ///< No other replica answered better, so the client erred.
    better,  ///< Another replica answered better, so this one is misconfigured.
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

}  // namespace weir::balancer::story
