// The requests whose bodies, or long heads, a loop is reading. Where limits.buffer_memory is spent, the slowest of them
// ends.
//
// So a client that holds memory and sends little keeps no other out. Only the loop's thread uses it.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>

#include "metrics/moment.hpp"

namespace weir::proxy::net {

/// A body that is being read, in the list of its loop until it goes.
class Upload : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  /// Returns how many bytes have come lately.
  virtual std::uint64_t recent(metrics::Moment now) = 0;
  virtual std::size_t reserved() const = 0;  ///< The memory that it pays for.
  virtual bool is_head() const = 0;          ///< It is a head that is not yet whole, and no body.
  /// True while too little time has passed to call it slow.
  virtual bool is_new(metrics::Moment now) const = 0;
  /// Gives its memory back at once; its client is told why later.
  virtual void give_way() = 0;

 protected:
  ~Upload() = default;
};

class Uploads {
 public:
  void attach(Upload& upload) { list_.push_back(upload); }
  bool empty() const { return list_.empty(); }
  enum class Of : unsigned char { all, heads };
  /// Ends the slowest of those that hold memory, of two equals the one that holds more. `asker` is the upload that
  /// wants room, or null. Returns false if no other is slower than an asker that is not new. Costs a look at each.
  bool make_room(Upload* asker, metrics::Moment now, Of of = Of::all);

 private:
  boost::intrusive::list<Upload, boost::intrusive::constant_time_size<false>> list_;
};

}  // namespace weir::proxy::net
