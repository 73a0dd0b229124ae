// Deadlines without timers: a time point that is moved by writing it, looked at by the loop's tick.
//
// A deadline is noticed at most one tick (100 ms) late. One thread, the loop's.
#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>

#include "metrics/moment.hpp"

namespace weir::proxy::net {

/// Something with a deadline. In a list from attach() until it goes.
class Timed : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  virtual metrics::Moment deadline() const = 0;  ///< Moment::max() = none.
  /// May destroy itself and others.
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
