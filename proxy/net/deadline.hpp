// Deadlines without timers: a time point that is moved by writing it, and that the loop's tick looks at.
//
// A deadline is noticed at most one tick (100 ms) late. Only the loop's thread uses it.
#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>

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
  void attach(Timed& timed) { list_.push_back(timed); }
  void tick(metrics::Moment now);

 private:
  using List = boost::intrusive::list<Timed, boost::intrusive::constant_time_size<false>>;
  List list_;
};

}  // namespace weir::proxy::net
