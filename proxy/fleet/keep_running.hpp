// Coroutines that nobody awaits do not end in silence: an exception that leaves one is logged and counted, and a part
// that is to run as long as weir does goes on.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <string_view>

#include "metrics/series/shard.hpp"

namespace weir::proxy::fleet {

using metrics::series::InternalErrors;
using metrics::series::Part;

/// Logs and counts an exception, with a clause on what follows from it; does nothing for null.
void note_failure(InternalErrors& errors, Part part, const std::exception_ptr& failure, std::string_view consequence);

/// A completion handler in place of boost::asio::detached, for a coroutine that ends by itself and need not begin
/// again: co_spawn(context, work(), Unawaited(errors, Part::session, "its connection is closed")).
class Unawaited {
 public:
  /// `errors` outlives the coroutine; `consequence` is a literal.
  Unawaited(InternalErrors& errors, Part part, std::string_view consequence)
      : errors_(&errors), part_(part), consequence_(consequence) {}
  void operator()(const std::exception_ptr& failure) const { note_failure(*errors_, part_, failure, consequence_); }

 private:
  InternalErrors* errors_;
  Part part_;
  std::string_view consequence_;
};

/// Does `work`, and logs and counts what it throws. For handlers on the control thread: an exception of one of them
/// ends weir.
template <class Work>
void noting_failure(InternalErrors& errors, Part part, std::string_view consequence, const Work& work) {
  try {
    work();
  } catch (...) {
    note_failure(errors, part, std::current_exception(), consequence);
  }
}

inline constexpr std::chrono::seconds pause_after_failure{1};

/// Calls `tick` at once and then every `every`, on the context's thread, until the context stops. After an exception it
/// is called again `pause` later, so it has to leave its owner fit for that. The context owns it.
void keep_ticking(boost::asio::io_context& context, InternalErrors& errors, Part part, std::chrono::milliseconds every,
                  std::function<void()> tick, std::chrono::milliseconds pause = pause_after_failure);

}  // namespace weir::proxy::fleet
