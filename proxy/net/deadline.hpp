// Deadlines without timers: a time point that is moved by writing it, and that the loop's tick looks at.
//
// A tick begins a round, in which everything with a deadline has its turn once. A round goes on in portions, and others
// have their turn between two of them: thousands that end together stop no loop, and no more does the look at thousands
// that do not. A deadline is noticed at most one tick (100 ms) and one round late. Only the loop's thread uses it.
#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>

#include "metrics/moment.hpp"

namespace weir::proxy::net {

/// An object with a deadline. It is in a list from attach() until it goes.
class Timed : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  virtual metrics::Moment deadline() const = 0;  ///< Moment::max() means none.
  /// Handles the deadline. It may destroy itself and others.
  virtual void deadline_passed(metrics::Moment now) = 0;

 protected:
  ~Timed() = default;
};

class Deadlines {
 public:
  /// The end of a request takes some tens of microseconds, a look some tens of nanoseconds: a portion of either takes
  /// about as long as a batch of tokens (net/poller).
  static constexpr std::size_t handled_at_once = 16, looked_at_at_once = 1024;

  /// Lets an object have its turn from the next round on.
  void attach(Timed& timed) { all_.push_back(timed); }
  /// Begins a round, unless one is under way. Returns true if it has begun one that is not over: go_on() is to be
  /// called then, after others have had their turn, until it returns false.
  bool tick(metrics::Moment now);
  bool go_on(metrics::Moment now);

 private:
  using List = boost::intrusive::list<Timed, boost::intrusive::constant_time_size<false>>;
  List all_;
  List left_;  ///< Objects that have not had their turn in the present round.
};

}  // namespace weir::proxy::net
