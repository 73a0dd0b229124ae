// Judges a replica's error: whether another replica may answer better, which of two errors tells the client more, and
// whom to blame for 401, 403 and 404.
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

/// True if the replica has no room now (408, 429, 503), while another one may have.
bool is_full(unsigned status);

/// True if the client may have erred, or this replica may be the wrong one (401, 403, 404). Another replica's answer
/// shows which.
bool needs_second_opinion(unsigned status);

/// Returns how much an error answer tells the client, compared with another one: more is better. A full replica knows
/// the model and may say when to come back; a doubtful answer is still an answer; a failure says the least. An error
/// inside a 200 stream is a failure.
int error_rank(unsigned status);

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
    std::uint64_t replica = 0;  ///< It is a ReplicaState::id.
    unsigned status = 0;
    std::string_view model;
  };
  enum class Opinion : unsigned char {
    none,    ///< Nobody has been asked lately.
    same,    ///< No other replica answered better, so the client erred.
    better,  ///< Another replica did, so this replica is the odd one.
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
