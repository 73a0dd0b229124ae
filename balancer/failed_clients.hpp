// The clients whose requests a replica has failed since it last answered one, and those that it answered last. A client
// whose requests nobody can answer meets errors everywhere. So failures that one client alone saw speak against a
// replica only if no other client was answered well by it lately, and if a peer answers this very client, and fails so
// much less that chance does not explain the row. A Pool owns it and calls it under its mutex.
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

/// A request's client: PlacementRequest::fair_key. Nothing where nobody knows it, or where it has no part in what
/// happened; then it counts as a client of its own.
using Client = std::optional<std::uint64_t>;

/// The client of a request, and whether the request needs inference: engines that can do none still answer others well.
struct Caller {
  Client client{};
  bool gives_work = true;
  /// Set where the content of the request was refused: the number by which it belongs to a side of a split.
  std::optional<std::uint64_t> refused{};
};

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

  /// Several clients have seen the failures of this row, so they are the replica's.
  bool several() const { return several_; }
  bool answered_lately(Moment now) const { return last_[0].at != Moment::min() && now - last_[0].at < lately; }
  /// The replica answered another client well lately than the one whose requests it fails.
  bool serves_others(Moment now) const {
    return std::ranges::any_of(last_, [&](const Answer& one) {
      return one.at != Moment::min() && one.client != failed_ && now - one.at < lately;
    });
  }
  /// A replica is a witness, by the count `ends` of its own ends, against another that failed the client `failures`
  /// times in a row. By Laplace's rule of succession a replica of which little is known may fail, too. A row as long as
  /// the window of the ends shows all that can be shown; where all fail, even the longest says nothing.
  bool witnesses_for(Client client, std::size_t failures, const AnswerWindow::Counts& ends, Moment now) const {
    const bool answered = std::ranges::any_of(last_, [&](const Answer& one) {
      return one.at != Moment::min() && one.client == client && now - one.at < AnswerWindow::age;
    });
    const double share = static_cast<double>(ends.bad + 1) / static_cast<double>(ends.answers + 2);
    return answered && std::pow(share, static_cast<double>(std::min(failures, AnswerWindow::size))) < least_chance;
  }

 private:
  struct Answer {
    Client client;
    Moment at = Moment::min();
  };
  std::optional<std::uint64_t> failed_;  ///< The client of the failures in this row.
  bool several_ = false;                 ///< Several clients have seen them.
  std::array<Answer, 2> last_;           ///< The last good answer, and the last one to another client than that.
};

}  // namespace weir::balancer
