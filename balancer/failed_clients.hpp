// Whose requests a replica has failed since it last answered one. A client whose requests nobody can answer meets
// errors everywhere. So what one client alone saw speaks against a replica only if no other client was answered by it
// lately, and if its peers fail so much less that chance does not explain the row. A Pool owns it and calls it under
// its mutex.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "balancer/answer_window.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

/// A request's client: Asking::fair_key. Nothing where nobody knows it; then it counts as a client of its own.
using Client = std::optional<std::uint64_t>;

class FailedClients {
 public:
  /// A replica that answered another client so lately works.
  static constexpr std::chrono::seconds lately{10};
  static constexpr double least_chance = 1e-5;

  void answered(Client client, Moment now) {
    if (client != last_[0].client) last_[1] = last_[0];
    last_[0] = {client, now};
  }
  /// A row of failures begins.
  void begin() {
    failed_.reset();
    several_ = false;
  }
  void failed(Client client) {
    several_ = several_ || !client || (failed_ && *failed_ != client);
    failed_ = client;
  }

  /// Returns whether the replica is to blame for so many failures in a row. `peers` are the ends of late at the others.
  bool blame_replica(std::size_t failures, const AnswerWindow::Counts& peers, Moment now) const {
    if (several_) return true;
    for (const auto& one : last_)
      if (one.at != Moment::min() && one.client != failed_ && now - one.at < lately) return false;
    // Laplace's rule of succession: peers of which little is known may fail, too. A row as long as the window of the
    // peers' ends shows all that can be shown; where all fail, even the longest says nothing.
    const double share = static_cast<double>(peers.bad + 1) / static_cast<double>(peers.answers + 2);
    return std::pow(share, static_cast<double>(std::min(failures, AnswerWindow::size))) < least_chance;
  }

 private:
  struct Answer {
    Client client;
    Moment at = Moment::min();
  };
  std::optional<std::uint64_t> failed_;  ///< The client of the failures in this row.
  bool several_ = false;                 ///< Several clients have seen them.
  std::array<Answer, 2> last_;           ///< The last answer, and the last one to another client than that.
};

}  // namespace weir::balancer
